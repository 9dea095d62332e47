//! Answers as JSON, with the names that their fields have in Kubernetes.

use serde_json::{Value, json};
use skydock_cloud::{
    Answers, CloudError, Instance, IpMode, LoadBalancerStatus, NodeAddress, Presence, Route, Zone,
};

use super::file::ErrorCase;

/// Returns one element for each answer.
pub(super) fn each<T>(answers: &Answers<T>, value: impl Fn(&T) -> Value) -> Value {
    answers
        .iter()
        .map(|answer| answer.as_ref().map_or_else(error, &value))
        .collect()
}

/// Returns the error of an element.
fn error(error: &CloudError) -> Value {
    json!({"error": ErrorCase::of(error).name(), "message": error.to_string()})
}

pub(super) fn presence(presence: &Presence) -> Value {
    let word = match presence {
        Presence::Running => "running",
        Presence::Stopped => "stopped",
        Presence::Absent => "absent",
    };
    json!(word)
}

pub(super) fn instance(instance: &Instance) -> Value {
    let Instance {
        provider_id,
        instance_type,
        zone,
        region,
        addresses: at,
        labels,
        annotations,
    } = instance;
    json!({
        "providerID": provider_id, "instanceType": instance_type, "zone": zone, "region": region,
        "addresses": addresses(at), "labels": labels, "annotations": annotations,
    })
}

pub(super) fn zone(Zone { zone, region }: &Zone) -> Value {
    json!({"zone": zone, "region": region})
}

pub(super) fn status(status: &LoadBalancerStatus) -> Value {
    let ingress = status.ingress.iter().map(|it| {
        let mode = it.ip_mode.map(|mode| match mode {
            IpMode::Vip => "VIP",
            IpMode::Proxy => "Proxy",
        });

        let ports = it
            .ports
            .iter()
            .map(|port| json!({"port": port.port, "protocol": port.transport.as_str(), "error": port.error}));
        json!({"ip": it.ip, "hostname": it.hostname, "ipMode": mode, "ports": ports.collect::<Value>()})
    });

    json!({"ingress": ingress.collect::<Value>()})
}

pub(super) fn route(route: &Route) -> Value {
    json!({
        "name": route.name, "targetNode": route.target_node, "destinationCIDR": route.destination_cidr,
        "targetAddresses": route.target_addresses.as_deref().map(addresses), "blackhole": route.blackhole,
    })
}

fn addresses(all: &[NodeAddress]) -> Value {
    all.iter()
        .map(|it| json!({"type": it.kind.as_str(), "address": it.address}))
        .collect()
}
