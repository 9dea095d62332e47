//! Cluster IPs and node ports. What is free is derived from the existing Services, without separate
//! records.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    ops::{Add, RangeInclusive},
};

use rand::{Rng as _, distr::uniform::SampleUniform};
use serde_json::{Value, json};

use super::{Spec, number};
use crate::{
    refusal::Cause,
    resources::{
        object::{self, child, list, strings, text},
        resource::Shelf,
    },
    storage::store::Store,
};

/// 10.96.0.0/16, as in kubeadm (which uses a /12), without the address of the `kubernetes` Service
/// and without the ends of the range.
const CLUSTER_IPS: RangeInclusive<u32> =
    u32::from_be_bytes([10, 96, 0, 2])..=u32::from_be_bytes([10, 96, 255, 254]);

/// Default of `--service-node-port-range`.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;

/// Number of the lowest addresses and ports that are reserved for Services that request a specific
/// one, while others are free.
const STATIC_IPS: u32 = 256;
const STATIC_PORTS: i64 = 86;

/// Returns an unused value, preferably one after the `lowest` ones.
fn any_free<T>(all: RangeInclusive<T>, lowest: T, used: impl Fn(T) -> bool) -> Option<T>
where
    T: Copy + SampleUniform + PartialOrd + Add<Output = T>,
    RangeInclusive<T>: Iterator<Item = T>,
{
    let first = *all.start();
    let last = *all.end();
    let dynamic = first + lowest;
    let from = rand::rng().random_range(dynamic..=last);

    // The lowest values come last.
    (from..=last)
        .chain(dynamic..=from)
        .chain(first..=dynamic)
        .find(|value| !used(*value))
}

/// Allocates what a Service needs and does not have, and checks what it requests.
pub(super) fn allocate(value: &mut Value, store: &Store) -> Vec<Cause> {
    let me = (
        object::namespace(value).to_owned(),
        object::name(value).to_owned(),
    );

    // An update may keep what the Service itself has.
    let others: Vec<&Value> = store
        .objects(Shelf::Services, None)
        .map(|service| &service.value)
        .filter(|other| {
            (object::namespace(other), object::name(other)) != (me.0.as_str(), me.1.as_str())
        })
        .collect();

    let mut causes = cluster_ip(value, &others);
    causes.extend(node_ports(value, &others));
    causes
}

fn cluster_ip(value: &mut Value, others: &[&Value]) -> Vec<Cause> {
    if !Spec(value).needs_cluster_ip() {
        return Vec::new();
    }

    let families = strings(value, "/spec/ipFamilies");
    if let Some(index) = families.iter().position(|family| *family != "IPv4") {
        // If an address is given, the error is about that address.
        let given = ["", "None"].contains(&text(value, "/spec/clusterIP"));
        let field = if given {
            format!("spec.ipFamilies[{index}]")
        } else {
            format!("spec.clusterIPs[{index}]")
        };

        let family = families.get(index).copied().unwrap_or_default();
        return vec![Cause::invalid(
            field,
            &family.into(),
            "not configured on this cluster: it has IPv4 only",
        )];
    }

    if text(value, "/spec/ipFamilyPolicy") == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        return vec![Cause::invalid(
            "spec.ipFamilyPolicy",
            &"RequireDualStack".into(),
            why,
        )];
    }

    let asked = match text(value, "/spec/clusterIP") {
        "" => strings(value, "/spec/clusterIPs")
            .first()
            .copied()
            .unwrap_or_default()
            .to_owned(),
        asked => asked.to_owned(),
    };

    let bits = |ip: &str| ip.parse::<Ipv4Addr>().ok().map(u32::from);
    let used: BTreeSet<u32> = others
        .iter()
        .filter_map(|other| bits(text(other, "/spec/clusterIP")))
        .collect();
    let address = if asked.is_empty() {
        let Some(free) = any_free(CLUSTER_IPS, STATIC_IPS, |bits| used.contains(&bits)) else {
            let why = "failed to allocate a serviceIP: range is full";
            return vec![Cause::invalid("spec.clusterIPs", &json!([]), why)];
        };
        Ipv4Addr::from(free).to_string()
    } else {
        asked
    };

    if address != "None" {
        // `Plane::bootstrap` requests the first address.
        let first = u32::from(super::KUBERNETES_IP);
        let why = match bits(&address).filter(|bits| *bits == first || CLUSTER_IPS.contains(bits)) {
            None => Some("the provided IP is not in the valid range, which is 10.96.0.0/16"),
            Some(bits) => used
                .contains(&bits)
                .then_some("provided IP is already allocated"),
        };
        if let Some(why) = why {
            let message = format!("failed to allocate IP {address}: {why}");
            return vec![Cause::invalid(
                "spec.clusterIPs",
                &json!([address]),
                message,
            )];
        }
    }

    let spec = child(value, "spec");
    spec.insert("clusterIP".into(), address.as_str().into());
    spec.insert("clusterIPs".into(), json!([address]));
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    spec.entry("ipFamilyPolicy")
        .or_insert_with(|| "SingleStack".into());

    Vec::new()
}

fn node_ports(value: &mut Value, others: &[&Value]) -> Vec<Cause> {
    let spec = Spec(value);
    let health_check = spec.needs_health_check();
    let allocates = match text(value, "/spec/type") {
        "NodePort" => true,
        "LoadBalancer" => {
            value.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false))
        }
        _ => false,
    };

    let mut causes = Vec::new();
    if !allocates && !health_check && spec.node_ports().is_empty() {
        return causes;
    }

    let mut used: BTreeSet<i64> = others
        .iter()
        .flat_map(|other| Spec(other).node_ports())
        .collect();
    used.extend(
        others
            .iter()
            .map(|other| number(&other["spec"], "healthCheckNodePort")),
    );

    // One port number may be used for both TCP and UDP of the same Service; therefore the protocol
    // is part of the key.
    let mut asked: BTreeSet<(i64, &str)> = BTreeSet::new();
    let mut ask = |field: String, port: i64, protocol| {
        if port == 0 {
            return;
        }
        if !NODE_PORTS.contains(&port) {
            let why =
                "provided port is not in the valid range. The range of valid ports is 30000-32767";
            causes.push(Cause::invalid(field, &port.into(), why));
        } else if used.contains(&port) || !asked.insert((port, protocol)) {
            causes.push(Cause::invalid(
                field,
                &port.into(),
                "provided port is already allocated",
            ));
        }
    };

    for (index, port) in list(value, "/spec/ports").iter().enumerate() {
        ask(
            format!("spec.ports[{index}].nodePort"),
            number(port, "nodePort"),
            text(port, "/protocol"),
        );
    }

    let health_check_port = number(&value["spec"], "healthCheckNodePort");
    if health_check {
        ask("spec.healthCheckNodePort".into(), health_check_port, "");
    }

    if !causes.is_empty() {
        return causes;
    }

    used.extend(asked.into_iter().map(|(port, _)| port));
    let mut free = || {
        let port = any_free(NODE_PORTS, STATIC_PORTS, |port| used.contains(&port))?;
        used.insert(port);
        Some(port)
    };

    let mut full = false;
    let mut give = |fields: &mut serde_json::Map<String, Value>, field: &str| match free() {
        Some(port) => drop(fields.insert(field.to_owned(), port.into())),
        None => full = true,
    };

    // Ports with the same number, usually with two protocols, share a node port.
    let mut shared: BTreeMap<i64, Value> = BTreeMap::new();
    for port in super::ports(value).filter(|_| allocates) {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
        match shared.get(&number).cloned() {
            Some(node_port) if !port.contains_key("nodePort") => {
                drop(port.insert("nodePort".into(), node_port));
            }
            None if !port.contains_key("nodePort") => give(port, "nodePort"),
            _ => {}
        }

        if let Some(node_port) = port.get("nodePort").cloned() {
            shared.insert(number, node_port);
        }
    }

    if health_check && health_check_port == 0 {
        give(child(value, "spec"), "healthCheckNodePort");
    }
    if full {
        causes.push(Cause::invalid(
            "spec.ports",
            &json!([]),
            "failed to allocate a nodePort: range is full",
        ));
    }

    causes
}
