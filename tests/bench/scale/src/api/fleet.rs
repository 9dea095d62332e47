//! The changes by kubelets and by the owners of services.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use skydock_bench_scale::POD_CIDR_LENGTH;
use skydock_support::kubernetes::UNINITIALIZED;

use crate::clock::Time;
use crate::message::{Condition, Meta, Node, Spec, Status, Taint};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Label with the state of the instance of a node, for the cloud.
const MACHINE: &str = "bench.skydock.dev/machine";
/// The first address of the Pod CIDRs.
const POD_NETWORK: u32 = u32::from_be_bytes([10, 0, 0, 0]);
pub(crate) const NAMESPACE: &str = "default";

pub(crate) fn node_name(number: u32) -> String {
    format!("node-{number}")
}

pub(crate) fn service_name(number: u32) -> String {
    format!("service-{number}")
}

/// Returns a node as a kubelet registers it with `--cloud-provider=external`: tainted and without
/// addresses.
pub(crate) fn registered(number: u32) -> Node {
    let name = node_name(number);
    let labels = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", &name),
        ("pool", "general"),
    ];
    let annotations = [(
        "volumes.kubernetes.io/controller-managed-attach-detach",
        "true",
    )];
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let mut node = Node {
        metadata: Meta {
            uid: uid(number),
            creation_timestamp: Some(Time::now()),
            labels: labels.map(owned).into(),
            annotations: annotations.map(owned).into(),
            name,
            ..Meta::default()
        },
        spec: Spec::default(),
        status: Status::default(),
    };
    taint(&mut node);
    node.status.conditions = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        READY,
    ]
    .map(condition)
    .into();
    node
}

const READY: (&str, &str, &str, &str) = (
    "Ready",
    "True",
    "KubeletReady",
    "kubelet is posting ready status",
);
const SILENT: (&str, &str, &str, &str) = (
    "Ready",
    "Unknown",
    "NodeStatusUnknown",
    "Kubelet stopped posting node status.",
);

fn condition((kind, status, reason, message): (&str, &str, &str, &str)) -> Condition {
    Condition {
        r#type: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_heartbeat_time: Some(Time::now()),
        last_transition_time: Some(Time::now()),
    }
}

pub(crate) fn taint(node: &mut Node) {
    let taint = Taint {
        key: UNINITIALIZED.to_owned(),
        value: "true".to_owned(),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    };
    node.spec.taints.push(taint);
}

pub(crate) fn report(node: &mut Node) {
    for condition in &mut node.status.conditions {
        condition.last_heartbeat_time = Some(Time::now());
    }
}

pub(crate) fn silence(node: &mut Node, gone: bool) {
    set_ready(node, SILENT);
    if gone {
        node.metadata
            .labels
            .insert(MACHINE.to_owned(), "gone".to_owned());
    }
}

pub(crate) fn recover(node: &mut Node) {
    set_ready(node, READY);
}

fn set_ready(node: &mut Node, ready: (&str, &str, &str, &str)) {
    node.status
        .conditions
        .retain(|condition| condition.r#type != "Ready");
    node.status.conditions.push(condition(ready));
}

pub(crate) fn exclude(node: &mut Node, excluded: bool) {
    if excluded {
        node.metadata
            .labels
            .insert(EXCLUDE.to_owned(), String::new());
    } else {
        node.metadata.labels.remove(EXCLUDE);
    }
}

pub(crate) fn give_cidr(node: &mut Node, number: u32) {
    let address = Ipv4Addr::from(POD_NETWORK + (number << (32 - POD_CIDR_LENGTH)));
    let cidr = format!("{address}/{POD_CIDR_LENGTH}");
    node.spec.pod_cidrs = vec![cidr.clone()];
    node.spec.pod_cidr = cidr;
}

/// Changes a node like another client.
pub(crate) fn interfere(node: &mut Node) {
    node.metadata.annotations.insert(
        "bench.skydock.dev/somebody".to_owned(),
        "was-here".to_owned(),
    );
}

pub(crate) fn service(number: u32) -> Value {
    let name = service_name(number);
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": uid(number), "labels": {"app": name},
            "creationTimestamp": Time::now(),
        },
        "spec": {
            "type": "LoadBalancer", "selector": {"app": name},
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
                {"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"},
            ],
        },
        "status": {"loadBalancer": {}},
    })
}

fn uid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_survives_json_and_is_a_valid_kubernetes_node() {
        let mut node = registered(100_000);
        give_cidr(&mut node, 100_000);
        let json = serde_json::to_value(&node).unwrap();
        assert_eq!(serde_json::from_value::<Node>(json.clone()).unwrap(), node);
        let read: k8s_openapi::api::core::v1::Node = serde_json::from_value(json).unwrap();
        let spec = read.spec.unwrap();
        assert_eq!(spec.pod_cidr.as_deref(), Some("10.195.80.0/25"));
        assert_eq!(spec.taints.unwrap()[0].key, UNINITIALIZED);
        assert_eq!(read.status.unwrap().conditions.unwrap().len(), 4);
        assert!(read.metadata.creation_timestamp.is_some());
    }

    #[test]
    fn a_silenced_node_is_unknown_until_it_recovers() {
        let mut node = registered(1);
        silence(&mut node, true);
        assert_eq!(node.condition("Ready").unwrap().status, "Unknown");
        assert_eq!(node.metadata.labels[MACHINE], "gone");
        recover(&mut node);
        assert_eq!(
            (
                node.condition("Ready").unwrap().status.as_str(),
                node.status.conditions.len()
            ),
            ("True", 4)
        );
    }

    #[test]
    fn a_service_is_a_valid_kubernetes_service() {
        let read: k8s_openapi::api::core::v1::Service = serde_json::from_value(service(3)).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("service-3"));
    }
}
