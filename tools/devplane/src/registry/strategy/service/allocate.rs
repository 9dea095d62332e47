//! Cluster IPs and node ports. What is free is derived from the existing Services, without separate
//! records.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    ops::{Add, RangeInclusive},
};

use rand::{Rng as _, distr::uniform::SampleUniform};
use serde_json::{Map, Value, json};

use super::{Spec, number};
use crate::{
    registry::ServiceLister,
    resources::object::{self, child, list, strings, text},
    status::Cause,
};

/// 10.96.0.0/16, as in kubeadm (which uses a /12), without the address of the `kubernetes` Service
/// and without the ends of the range.
const CLUSTER_IPS: RangeInclusive<u32> =
    u32::from_be_bytes([10, 96, 0, 2])..=u32::from_be_bytes([10, 96, 255, 254]);

/// Default of `--service-node-port-range`.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;

/// Number of the lowest addresses that are reserved for Services that request a specific one, while
/// others are free.
const STATIC_IPS: u32 = 256;

/// The same for ports.
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
pub(super) fn allocate(value: &mut Value, services: &dyn ServiceLister) -> Vec<Cause> {
    // An update may keep what the Service itself has.
    let is_other = |other: &&Value| {
        object::namespace(other) != object::namespace(value)
            || object::name(other) != object::name(value)
    };
    let others: Vec<&Value> = services.services().into_iter().filter(is_other).collect();

    let mut causes = Vec::new();
    if Spec(value).needs_cluster_ip() {
        causes.extend(cluster_ip(value, &others).err());
    }
    causes.extend(node_ports(value, &others));
    causes
}

/// Allocates the cluster IP, unless the Service requests one.
fn cluster_ip(value: &mut Value, others: &[&Value]) -> Result<(), Cause> {
    check_families(value)?;

    let used: BTreeSet<u32> = others
        .iter()
        .filter_map(|other| bits(text(other, "/spec/clusterIP")))
        .collect();

    let address = match requested_ip(value) {
        "" => free_ip(&used)?,
        requested => requested.to_owned(),
    };
    if address != "None" {
        check_ip(&address, &used)?;
    }

    let spec = child(value, "spec");
    spec.insert("clusterIP".into(), address.as_str().into());
    spec.insert("clusterIPs".into(), json!([address]));
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    spec.entry("ipFamilyPolicy")
        .or_insert_with(|| "SingleStack".into());
    Ok(())
}

/// Rejects IPv6.
fn check_families(value: &Value) -> Result<(), Cause> {
    let families = strings(value, "/spec/ipFamilies");
    if let Some(index) = families.iter().position(|family| *family != "IPv4") {
        // If an address is given, the error is about that address.
        let is_given = !["", "None"].contains(&text(value, "/spec/clusterIP"));
        let field = if is_given {
            format!("spec.clusterIPs[{index}]")
        } else {
            format!("spec.ipFamilies[{index}]")
        };

        let family = families.get(index).copied().unwrap_or_default();
        return Err(Cause::invalid(
            field,
            &family.into(),
            "not configured on this cluster: it has IPv4 only",
        ));
    }

    if text(value, "/spec/ipFamilyPolicy") == "RequireDualStack" {
        return Err(Cause::invalid(
            "spec.ipFamilyPolicy",
            &"RequireDualStack".into(),
            "this cluster is not configured for dual-stack services",
        ));
    }
    Ok(())
}

/// Returns the cluster IP that a Service requests; empty if it requests none.
fn requested_ip(value: &Value) -> &str {
    match text(value, "/spec/clusterIP") {
        "" => strings(value, "/spec/clusterIPs")
            .first()
            .copied()
            .unwrap_or_default(),
        requested => requested,
    }
}

fn free_ip(used: &BTreeSet<u32>) -> Result<String, Cause> {
    let free = any_free(CLUSTER_IPS, STATIC_IPS, |bits| used.contains(&bits));
    free.map(|bits| Ipv4Addr::from(bits).to_string())
        .ok_or_else(|| {
            let why = "failed to allocate a serviceIP: range is full";
            Cause::invalid("spec.clusterIPs", &json!([]), why)
        })
}

/// Checks that an address is in the range, and unused.
fn check_ip(address: &str, used: &BTreeSet<u32>) -> Result<(), Cause> {
    // `Plane::bootstrap` requests the first address.
    let first = u32::from(super::KUBERNETES_IP);
    let in_range = bits(address).filter(|bits| *bits == first || CLUSTER_IPS.contains(bits));

    let why = match in_range {
        None => "the provided IP is not in the valid range, which is 10.96.0.0/16",
        Some(bits) if used.contains(&bits) => "provided IP is already allocated",
        Some(_) => return Ok(()),
    };
    let message = format!("failed to allocate IP {address}: {why}");
    Err(Cause::invalid(
        "spec.clusterIPs",
        &json!([address]),
        message,
    ))
}

fn bits(address: &str) -> Option<u32> {
    address.parse::<Ipv4Addr>().ok().map(u32::from)
}

/// Allocates the node ports that a Service needs, and checks those that it requests.
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

    if !allocates && !health_check && spec.node_ports().is_empty() {
        return Vec::new();
    }

    let mut used = used_ports(others);
    match requested_ports(value, &used) {
        Ok(requested) => used.extend(requested),
        Err(causes) => return causes,
    }

    let mut is_complete = true;
    if allocates {
        is_complete &= allocate_ports(value, &mut used);
    }
    if health_check && number(&value["spec"], "healthCheckNodePort") == 0 {
        let spec = child(value, "spec");
        is_complete &= allocate_port(spec, "healthCheckNodePort", &mut used);
    }

    if is_complete {
        return Vec::new();
    }
    vec![Cause::invalid(
        "spec.ports",
        &json!([]),
        "failed to allocate a nodePort: range is full",
    )]
}

/// Returns the node ports of these Services.
fn used_ports(services: &[&Value]) -> BTreeSet<i64> {
    let health_checks = services
        .iter()
        .map(|service| number(&service["spec"], "healthCheckNodePort"));
    services
        .iter()
        .flat_map(|service| Spec(service).node_ports())
        .chain(health_checks)
        .collect()
}

/// Returns the node ports that a Service requests, or what is wrong with them.
fn requested_ports(value: &Value, used: &BTreeSet<i64>) -> Result<BTreeSet<i64>, Vec<Cause>> {
    let mut causes = Vec::new();
    // One port number may be used for both TCP and UDP of the same Service; therefore the protocol
    // is part of the key.
    let mut requested: BTreeSet<(i64, &str)> = BTreeSet::new();

    let mut request = |field: String, port: i64, protocol| {
        if port == 0 {
            return;
        }
        if !NODE_PORTS.contains(&port) {
            let why =
                "provided port is not in the valid range. The range of valid ports is 30000-32767";
            causes.push(Cause::invalid(field, &port.into(), why));
        } else if used.contains(&port) || !requested.insert((port, protocol)) {
            causes.push(Cause::invalid(
                field,
                &port.into(),
                "provided port is already allocated",
            ));
        }
    };

    for (index, port) in list(value, "/spec/ports").iter().enumerate() {
        request(
            format!("spec.ports[{index}].nodePort"),
            number(port, "nodePort"),
            text(port, "/protocol"),
        );
    }
    if Spec(value).needs_health_check() {
        let port = number(&value["spec"], "healthCheckNodePort");
        request("spec.healthCheckNodePort".into(), port, "");
    }

    if causes.is_empty() {
        Ok(requested.into_iter().map(|(port, _)| port).collect())
    } else {
        Err(causes)
    }
}

/// Allocates the missing node ports. Returns false if the range is full.
fn allocate_ports(value: &mut Value, used: &mut BTreeSet<i64>) -> bool {
    let mut is_complete = true;
    // Ports with the same number, usually with two protocols, share a node port.
    let mut shared: BTreeMap<i64, Value> = BTreeMap::new();

    for port in super::ports(value) {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
        if !port.contains_key("nodePort") {
            match shared.get(&number).cloned() {
                Some(node_port) => drop(port.insert("nodePort".into(), node_port)),
                None => is_complete &= allocate_port(port, "nodePort", used),
            }
        }

        if let Some(node_port) = port.get("nodePort").cloned() {
            shared.insert(number, node_port);
        }
    }
    is_complete
}

/// Allocates a node port for this field. Returns false if the range is full.
fn allocate_port(fields: &mut Map<String, Value>, field: &str, used: &mut BTreeSet<i64>) -> bool {
    let Some(port) = any_free(NODE_PORTS, STATIC_PORTS, |port| used.contains(&port)) else {
        return false;
    };
    used.insert(port);
    fields.insert(field.to_owned(), port.into());
    true
}
