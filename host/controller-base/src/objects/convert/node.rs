//! Nodes as providers see them.

use k8s_openapi::api::core::v1 as k8s;
use skydock_cloud::{AddressKind, Node, NodeAddress, Taint, TaintEffect};

use super::{created, filled, text};

/// Converts a Node. Taints and addresses whose kinds Kubernetes does not define are omitted.
#[must_use]
pub fn node(object: &k8s::Node) -> Node {
    let meta = &object.metadata;
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let info = status.and_then(|status| status.node_info.as_ref());

    Node {
        name: text(meta.name.as_ref()),
        uid: text(meta.uid.as_ref()),
        provider_id: filled(spec.and_then(|spec| spec.provider_id.as_ref())),
        labels: meta.labels.clone().unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
        taints: spec
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default()
            .iter()
            .filter_map(taint)
            .collect(),
        addresses: status
            .and_then(|status| status.addresses.as_deref())
            .unwrap_or_default()
            .iter()
            .filter_map(|a| {
                Some(NodeAddress {
                    kind: AddressKind::parse(&a.type_)?,
                    address: a.address.clone(),
                })
            })
            .collect(),
        pod_cidrs: spec
            .and_then(|spec| spec.pod_cidrs.clone())
            .unwrap_or_default(),
        ready: is_ready(
            status
                .and_then(|status| status.conditions.as_deref())
                .unwrap_or_default(),
        ),
        unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
        system_uuid: text(info.map(|info| &info.system_uuid)),
        machine_id: text(info.map(|info| &info.machine_id)),
        architecture: text(info.map(|info| &info.architecture)),
        operating_system: text(info.map(|info| &info.operating_system)),
        os_image: text(info.map(|info| &info.os_image)),
        creation_timestamp: created(meta),
    }
}

/// Returns true for a node with these conditions that is ready.
pub(crate) fn is_ready(conditions: &[k8s::NodeCondition]) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn taint(taint: &k8s::Taint) -> Option<Taint> {
    let effect = match taint.effect.as_str() {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    };

    Some(Taint {
        key: taint.key.clone(),
        value: text(taint.value.as_ref()),
        effect,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_keeps_the_fields_that_providers_read() {
        let object: k8s::Node = serde_json::from_value(json!({
            "metadata": {"name": "n1", "uid": "u1", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "providerID": "", "podCIDRs": ["10.0.0.0/24"], "unschedulable": true,
                "taints": [{"key": "k", "effect": "NoExecute"}, {"key": "odd", "effect": "Maybe"}],
            },
            "status": {
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Odd", "address": "x"}],
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {
                    "architecture": "arm64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                    "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "m", "operatingSystem": "linux",
                    "osImage": "Debian", "systemUUID": "s"
                },
            },
        }))
        .unwrap();
        let node = node(&object);
        assert_eq!(
            (node.name.as_str(), node.uid.as_str(), node.provider_id),
            ("n1", "u1", None)
        );
        assert_eq!(
            node.taints,
            [Taint {
                key: "k".into(),
                value: String::new(),
                effect: TaintEffect::NoExecute
            }]
        );
        assert_eq!(
            node.addresses,
            [NodeAddress {
                kind: AddressKind::InternalIp,
                address: "10.0.0.1".into()
            }]
        );
        assert!(node.ready && node.unschedulable);
        assert_eq!(
            (
                node.architecture.as_str(),
                node.machine_id.as_str(),
                node.system_uuid.as_str()
            ),
            ("arm64", "m", "s")
        );
        assert_eq!(node.creation_timestamp, 1_767_225_600);
    }

    // Holds: L-04
    #[test]
    fn a_node_without_ready_condition_is_not_ready() {
        assert!(!node(&k8s::Node::default()).ready);
    }
}
