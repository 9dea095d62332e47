//! Services: defaults, allocations, and changes of the type, like `pkg/registry/core/service`.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use serde_json::{Map, Value, json};

use crate::{
    registry::ServiceLister,
    resources::object::{as_map, child, copy_field, list, text},
    status::Cause,
};

mod allocate;
mod validate;

/// Completes a new Service, and allocates its addresses and ports.
pub(super) fn begin_create(value: &mut Value, services: &dyn ServiceLister) -> Vec<Cause> {
    as_map(value).insert("status".into(), json!({}));
    default(value);

    if text(value, "/spec/clusterIP").is_empty() && !list(value, "/spec/clusterIPs").is_empty() {
        let why = "must be empty when `clusterIP` is not specified";
        return vec![Cause::invalid(
            "spec.clusterIPs",
            &list(value, "/spec/clusterIPs").into(),
            why,
        )];
    }
    allocate::allocate(value, services)
}

/// Checks a new Service.
pub(super) fn create(value: &Value) -> Vec<Cause> {
    let mut causes = validate::validate(value);
    causes.extend(validate::node_ports(value));
    causes
}

/// Completes and checks a changed Service.
pub(super) fn update(value: &mut Value, old: &Value, services: &dyn ServiceLister) -> Vec<Cause> {
    copy_field(old, as_map(value), "status");

    // Fields of the old type are removed before the defaults of the new type are set.
    if text(value, "/spec/type").is_empty() {
        child(value, "spec").insert("type".into(), "ClusterIP".into());
    }
    keep_allocated(value, old);
    drop_type_dependent(value, old);
    default(value);

    let mut causes = validate::unchanged(value, old);
    if causes.is_empty() {
        let unavailable = allocate::allocate(value, services);
        if !unavailable.is_empty() {
            return unavailable;
        }
    }

    causes.extend(validate::validate(value));
    causes
}

/// Completes and checks a changed status.
pub(super) fn update_status(value: &mut Value) -> Vec<Cause> {
    default(value);
    validate::status(value)
}

/// Parses a network in CIDR notation: its address and prefix length.
pub(super) fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}

/// Queries about a Service's spec.
#[derive(Clone, Copy)]
struct Spec<'a>(&'a Value);

impl Spec<'_> {
    fn is(self, kind: &str) -> bool {
        text(self.0, "/spec/type") == kind
    }

    fn needs_cluster_ip(self) -> bool {
        !self.is("ExternalName")
    }

    fn headless(self) -> bool {
        text(self.0, "/spec/clusterIP") == "None"
    }

    fn may_have_node_ports(self) -> bool {
        self.is("NodePort") || self.is("LoadBalancer")
    }

    fn needs_health_check(self) -> bool {
        self.is("LoadBalancer") && text(self.0, "/spec/externalTrafficPolicy") == "Local"
    }

    fn externally_accessible(self) -> bool {
        self.may_have_node_ports()
            || (self.is("ClusterIP") && !list(self.0, "/spec/externalIPs").is_empty())
    }

    fn node_ports(self) -> BTreeSet<i64> {
        list(self.0, "/spec/ports")
            .iter()
            .map(|port| number(port, "nodePort"))
            .filter(|port| *port != 0)
            .collect()
    }
}

/// Returns the number in a field; 0 if it is missing.
fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn ports(value: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let ports = child(value, "spec")
        .get_mut("ports")
        .and_then(Value::as_array_mut);
    ports.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets defaults like `SetDefaults_Service`.
fn default(value: &mut Value) {
    // An empty string means the same as a missing field.
    child(value, "spec").retain(|_, value| value.as_str() != Some(""));

    default_affinity(value);
    child(value, "spec")
        .entry("type")
        .or_insert_with(|| "ClusterIP".into());
    default_ports(value);
    default_policies(value);
    default_ip_mode(value);
}

fn default_affinity(value: &mut Value) {
    let spec = child(value, "spec");
    let affinity = spec
        .entry("sessionAffinity")
        .or_insert_with(|| "None".into())
        .clone();
    if affinity == "None" {
        spec.remove("sessionAffinityConfig");
    } else if affinity == "ClientIP"
        && spec
            .get("sessionAffinityConfig")
            .and_then(|config| config.pointer("/clientIP/timeoutSeconds"))
            .is_none()
    {
        // Three hours.
        spec.insert(
            "sessionAffinityConfig".into(),
            json!({"clientIP": {"timeoutSeconds": 10_800}}),
        );
    }
}

fn default_ports(value: &mut Value) {
    for port in ports(value) {
        port.retain(|_, value| value.as_str() != Some(""));
        port.entry("protocol").or_insert_with(|| "TCP".into());
        if port.get("targetPort").is_none_or(|target| target == 0)
            && let Some(number) = port.get("port").cloned()
        {
            port.insert("targetPort".into(), number);
        }
        if port.get("nodePort").is_some_and(|port| port == 0) {
            port.remove("nodePort");
        }
    }
}

fn default_policies(value: &mut Value) {
    let spec = Spec(value);
    let external = spec.externally_accessible();
    let balanced = spec.is("LoadBalancer");
    let internal = spec.needs_cluster_ip();

    let spec = child(value, "spec");
    if external {
        spec.entry("externalTrafficPolicy")
            .or_insert_with(|| "Cluster".into());
    }
    if internal {
        spec.entry("internalTrafficPolicy")
            .or_insert_with(|| "Cluster".into());
    }
    if balanced {
        spec.entry("allocateLoadBalancerNodePorts")
            .or_insert(Value::Bool(true));
    }
}

/// Adds `status.loadBalancer`, and the mode of its IP addresses.
fn default_ip_mode(value: &mut Value) {
    let balanced = Spec(value).is("LoadBalancer");
    let status = child(value, "status");
    let balancer = as_map(status.entry("loadBalancer").or_insert(Value::Null));
    for ingress in balancer
        .get_mut("ingress")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if balanced && !text(ingress, "/ip").is_empty() {
            as_map(ingress)
                .entry("ipMode")
                .or_insert_with(|| "VIP".into());
        }
    }
}

/// Keeps allocated values like `patchAllocatedValues`, so that clients that do not know them do not
/// lose them.
fn keep_allocated(value: &mut Value, old: &Value) {
    let before = Spec(old);
    let after = Spec(value);
    let node_ports = before.may_have_node_ports() && after.may_have_node_ports();
    let health_check = before.needs_health_check() && after.needs_health_check();
    let cluster_ip = before.needs_cluster_ip() && after.needs_cluster_ip();

    // A node port that the client has moved to another port is not given back to its old one.
    let used: BTreeSet<_> = before
        .node_ports()
        .intersection(&after.node_ports())
        .copied()
        .collect();

    let keep = |spec: &mut Map<String, Value>, field: &str| {
        let missing = spec
            .get(field)
            .is_none_or(|value| value == "" || value == 0);
        if missing && let Some(kept) = old["spec"].get(field) {
            spec.insert(field.to_owned(), kept.clone());
        }
    };

    let spec = child(value, "spec");
    if cluster_ip {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            keep(spec, field);
        }
    }
    if health_check {
        keep(spec, "healthCheckNodePort");
    }
    if node_ports {
        let by_name = |name: &str| {
            list(old, "/spec/ports")
                .iter()
                .find(|port| text(port, "/name") == name)
                .map(|port| number(port, "nodePort"))
        };

        for port in ports(value) {
            let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
            let missing = port.get("nodePort").is_none_or(|port| port == 0);
            if missing
                && let Some(kept) = by_name(name).filter(|kept| *kept != 0 && !used.contains(kept))
            {
                port.insert("nodePort".into(), kept.into());
            }
        }
    }
}

/// Removes fields like `dropTypeDependentFields`: those that the old type needs and the new type
/// cannot have, if they were not changed.
fn drop_type_dependent(value: &mut Value, old: &Value) {
    let before = Spec(old);
    let after = Spec(value);

    let mut gone: Vec<&str> = Vec::new();
    if before.needs_cluster_ip() && !after.needs_cluster_ip() {
        gone.extend([
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ]);
    }
    if before.needs_health_check() && !after.needs_health_check() {
        gone.push("healthCheckNodePort");
    }
    if before.is("LoadBalancer") && !after.is("LoadBalancer") {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if before.externally_accessible() && !after.externally_accessible() {
        gone.push("externalTrafficPolicy");
    }

    let drop_node_ports = before.may_have_node_ports()
        && !after.may_have_node_ports()
        && before.node_ports().is_superset(&after.node_ports());
    let no_balancer = !after.is("LoadBalancer");

    let spec = child(value, "spec");
    for field in gone {
        if spec.get(field) == old["spec"].get(field) {
            spec.remove(field);
        }
    }
    if drop_node_ports {
        for port in ports(value) {
            port.remove("nodePort");
        }
    }
    if no_balancer {
        child(value, "status").insert("loadBalancer".into(), json!({}));
    }
}

/// Address of the `kubernetes` Service: the first of the range.
pub(crate) const KUBERNETES_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests;
