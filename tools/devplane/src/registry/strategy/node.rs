//! Nodes.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{
    resources::{
        names::{label_value, qualified_name},
        object::{as_map, child, list, strings, text},
    },
    status::Cause,
};

/// Taint of a node whose state is not known yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Completes a new Node: Pods are not scheduled to it before it has been ready.
pub(super) fn create(value: &mut Value) {
    complete(value);
    let is_not_ready =
        |taint: &Value| text(taint, "/key") == NOT_READY && text(taint, "/effect") == "NoSchedule";

    if !list(value, "/spec/taints").iter().any(is_not_ready) {
        let taints = child(value, "spec")
            .entry("taints")
            .or_insert_with(|| json!([]));
        if let Some(taints) = taints.as_array_mut() {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
    }
}

/// Adds `spec` and `status`. Sets `podCIDR` to the first of `podCIDRs`, or `podCIDRs` to `podCIDR`.
pub(super) fn complete(value: &mut Value) {
    let status = child(value, "status");
    // As `SetDefaults_NodeStatus`.
    if let (Some(capacity), None) = (status.get("capacity").cloned(), status.get("allocatable")) {
        status.insert("allocatable".into(), capacity);
    }

    let ports = as_map(status.entry("daemonEndpoints").or_insert(Value::Null));
    as_map(ports.entry("kubeletEndpoint").or_insert(Value::Null))
        .entry("Port")
        .or_insert_with(|| 0.into());
    let info = as_map(status.entry("nodeInfo").or_insert(Value::Null));
    for &field in NODE_INFO {
        info.entry(field).or_insert_with(|| "".into());
    }

    let spec = child(value, "spec");
    // An empty value means the same as a missing field.
    spec.retain(|_, value| !(value == "" || *value == false));

    for taint in spec
        .get_mut("taints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        as_map(taint).retain(|field, value| field != "value" || value != "");
        as_map(taint).entry("key").or_insert_with(|| "".into());
        as_map(taint).entry("effect").or_insert_with(|| "".into());
    }

    // Kubernetes has removed the dynamic configuration of kubelets.
    spec.remove("configSource");

    let only = spec.get("podCIDR").filter(|cidr| {
        spec.get("podCIDRs")
            .is_some_and(|all| all.get(0) != Some(*cidr))
    });

    if let Some(only) = only.cloned() {
        // The older field has priority, because it was written by a client that does not know the
        // other one.
        spec.insert("podCIDRs".into(), Value::Array(vec![only]));
    } else if let Some(first) = spec.get("podCIDRs").and_then(|cidrs| cidrs.get(0)).cloned() {
        spec.insert("podCIDR".into(), first);
    } else if let Some(only) = spec.get("podCIDR").cloned() {
        spec.insert("podCIDRs".into(), Value::Array(vec![only]));
    }
}

/// Information that a kubelet reports about its machine: empty strings until then.
const NODE_INFO: &[&str] = &[
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

pub(super) fn validate(value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();

    // As upstream, only updates are checked for duplicate addresses.
    if old.is_some() {
        addresses(value, &mut causes);
    }
    pod_cidrs(value, &mut causes);
    taints(value, &mut causes);
    if let Some(old) = old {
        unchanged(value, old, &mut causes);
    }

    causes
}

fn addresses(value: &Value, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for (index, address) in list(value, "/status/addresses").iter().enumerate() {
        if !seen.insert(address) {
            causes.push(Cause::duplicate(
                format!("status.addresses[{index}]"),
                address,
            ));
        }
    }
}

fn pod_cidrs(value: &Value, causes: &mut Vec<Cause>) {
    let cidrs = strings(value, "/spec/podCIDRs");
    let families = |v4: bool| {
        cidrs
            .iter()
            .filter(|cidr| {
                super::service::network(cidr).is_some_and(|(address, _)| address.is_ipv4() == v4)
            })
            .count()
    };

    if families(true) > 1 || families(false) > 1 {
        let why = "may specify no more than one CIDR for each IP family";
        causes.push(Cause::invalid("spec.podCIDRs", &json!(cidrs), why));
    }

    for (index, cidr) in strings(value, "/spec/podCIDRs").iter().enumerate() {
        if super::service::network(cidr).is_none() {
            let why = "must be a network in CIDR notation, such as 10.0.0.0/24";
            causes.push(Cause::invalid(
                format!("spec.podCIDRs[{index}]"),
                &(*cidr).into(),
                why,
            ));
        }
    }
}

/// Checks the fields that must not change once they are set.
fn unchanged(value: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for (field, pointer, message) in [
        (
            "podCIDRs",
            "/spec/podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ),
        (
            "providerID",
            "/spec/providerID",
            "node updates may not change providerID except from \"\" to valid",
        ),
    ] {
        let before = old
            .pointer(pointer)
            .filter(|before| before.as_str() != Some(""));
        if before.is_some() && before != value.pointer(pointer) {
            causes.push(Cause::forbidden(format!("spec.{field}"), message));
        }
    }
}

fn taints(value: &Value, causes: &mut Vec<Cause>) {
    let taints = list(value, "/spec/taints");
    let mut seen = HashSet::new();
    for (index, taint) in taints.iter().enumerate() {
        // The path begins with `metadata`, as upstream.
        let at = |field: &str| format!("metadata.taints[{index}]{field}");
        let key = text(taint, "/key");
        let effect = text(taint, "/effect");

        if let Err(why) = qualified_name(key) {
            causes.push(Cause::invalid(at(".key"), &key.into(), why));
        }
        if let Err(why) = label_value(text(taint, "/value")) {
            causes.push(Cause::invalid(
                at(".value"),
                &text(taint, "/value").into(),
                why,
            ));
        }

        const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            causes.push(Cause::required(at(".effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            causes.push(Cause::not_supported(at(".effect"), effect, &EFFECTS));
        }

        if !seen.insert((key, effect)) {
            causes.push(Cause::duplicate(at(""), taint));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: &Value, old: Option<&Value>) -> Vec<String> {
        validate(value, old)
            .into_iter()
            .map(|cause| cause.field)
            .collect()
    }

    #[test]
    fn provider_id_and_pod_cidrs_can_be_set_only_once() {
        let old = json!({"spec": {"providerID": "a://1", "podCIDRs": ["10.0.0.0/24"]}});
        assert!(fields(&old, Some(&old)).is_empty());
        assert!(fields(&old, Some(&json!({"spec": {"providerID": ""}}))).is_empty());
        assert_eq!(
            fields(&json!({"spec": {}}), Some(&old)),
            ["spec.podCIDRs", "spec.providerID"]
        );
        let other = json!({"spec": {"providerID": "a://2", "podCIDRs": ["10.0.0.0/24"]}});
        assert_eq!(fields(&other, Some(&old)), ["spec.providerID"]);
    }

    #[test]
    fn pod_cidr_and_the_first_of_pod_cidrs_are_kept_equal() {
        let mut node = json!({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}});
        complete(&mut node);
        assert_eq!(node["spec"]["podCIDR"], "10.0.0.0/24");
        let mut node = json!({"spec": {"podCIDR": "10.0.0.0/24"}});
        complete(&mut node);
        assert_eq!(node["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
    }

    #[test]
    fn taints_and_addresses_are_validated() {
        let node = json!({
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}, {"key": "", "effect": "Go"}], "podCIDRs": ["x"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalDNS", "address": "a_b"}]},
        });
        let expected = [
            "status.addresses[1]",
            "spec.podCIDRs[0]",
            "metadata.taints[1]",
            "metadata.taints[2].key",
            "metadata.taints[2].effect",
        ];
        assert_eq!(fields(&node, Some(&json!({}))), expected);
    }
}
