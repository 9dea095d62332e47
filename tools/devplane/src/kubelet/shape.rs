//! What kubelets and the node lifecycle controller write: pure functions.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::NodeSpec;
use crate::{
    formats::discovery,
    resources::object::{self, list, text},
};

/// Health of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Registered, and not ready yet.
    Starting,
    Ready,
    /// Not heard of.
    Silent,
}

/// Added by kubelets with `--cloud-provider=external`, and removed by the cloud's node controller.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Returns a Node as its kubelet creates it, without conditions.
pub(super) fn node(spec: &NodeSpec) -> Value {
    let mut labels = spec.labels.clone();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    // Kubelets still set the deprecated `beta` labels.
    for (key, value) in [
        ("beta.kubernetes.io/arch", architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture),
        ("kubernetes.io/hostname", spec.name.as_str()),
        ("kubernetes.io/os", "linux"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }

    let resources =
        json!({"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let (major, minor) = discovery::VERSION;
    let machine = uuid::Uuid::new_v4();

    json!({
        "metadata": {"name": spec.name, "labels": labels, "annotations": spec.annotations},
        "spec": {
            "providerID": spec.provider_id,
            "podCIDRs": spec.pod_cidrs,
            "taints": [
                {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
                {"key": NOT_READY, "effect": "NoSchedule"},
            ],
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": spec.internal_ip},
                {"type": "Hostname", "address": spec.name},
            ],
            "capacity": resources,
            "allocatable": resources,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10_250}},
            "nodeInfo": {
                "machineID": machine.simple().to_string(), "systemUUID": machine.to_string(), "bootID": uuid::Uuid::new_v4().to_string(),
                "kernelVersion": "6.12.0", "osImage": "Simulated Linux", "containerRuntimeVersion": "simulated://1.0.0",
                "kubeletVersion": format!("v{major}.{minor}.0"), "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": architecture,
            },
        },
    })
}

/// Returns the conditions of a kubelet. Heartbeat times change with each report, except for a
/// silent node; transition times change only with the status.
pub(super) fn conditions(node: &Value, health: Health, now: Timestamp) -> Value {
    let now = object::time(now);
    let one = |(kind, good, reason, message): (&str, &str, &str, &str)| {
        let known = list(node, "/status/conditions")
            .iter()
            .find(|condition| text(condition, "/type") == kind);

        let (status, reason, message) = match (health, kind) {
            (Health::Silent, _) => (
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            ),
            (Health::Starting, "Ready") => ("False", "KubeletNotReady", "the node is starting"),
            _ => (good, reason, message),
        };

        let before = |field: &str| {
            known
                .map(|known| text(known, field).to_owned())
                .filter(|time| !time.is_empty())
        };

        let same = known.is_some_and(|known| text(known, "/status") == status);
        let transition = before("/lastTransitionTime").filter(|_| same);
        let heartbeat = before("/lastHeartbeatTime").filter(|_| health == Health::Silent);

        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": heartbeat.unwrap_or_else(|| now.clone()),
            "lastTransitionTime": transition.unwrap_or_else(|| now.clone()),
        })
    };

    let conditions = [
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
        (
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        ),
    ];

    conditions.map(one).to_vec().into()
}

/// Returns the taints of a node after the node lifecycle controller has handled it: only its own
/// taints change.
pub(super) fn taints(node: &Value, health: Health, now: Timestamp) -> Vec<Value> {
    let wanted: &[(&str, &str)] = match health {
        Health::Ready => &[],
        Health::Starting => &[(NOT_READY, "NoSchedule")],
        Health::Silent => &[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
    };

    let identity = |taint: &Value| {
        (
            text(taint, "/key").to_owned(),
            text(taint, "/effect").to_owned(),
        )
    };
    let own = |key: &str| key == NOT_READY || key == UNREACHABLE;
    let is_wanted = |taint: &Value| {
        let (key, effect) = identity(taint);
        !own(&key) || wanted.contains(&(key.as_str(), effect.as_str()))
    };

    let mut taints: Vec<Value> = list(node, "/spec/taints")
        .iter()
        .filter(|taint| is_wanted(taint))
        .cloned()
        .collect();

    for (key, effect) in wanted {
        if !taints
            .iter()
            .any(|taint| identity(taint) == ((*key).to_owned(), (*effect).to_owned()))
        {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": object::time(now)}));
        }
    }

    taints
}

/// Returns the lease that a kubelet renews.
pub(super) fn lease(name: &str, node_uid: &str, now: Timestamp) -> Value {
    json!({
        "metadata": {
            "name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}],
        },
        // `nodeLeaseDurationSeconds`.
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": object::micro_time(now)},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(conditions: &Value) -> &Value {
        conditions
            .as_array()
            .unwrap()
            .iter()
            .find(|condition| condition["type"] == "Ready")
            .unwrap()
    }

    #[test]
    fn transition_times_stay_while_nothing_changes() {
        let first = conditions(&Value::Null, Health::Ready, at(0));
        let node = json!({"status": {"conditions": first}});
        let second = conditions(&node, Health::Ready, at(10));
        assert_eq!(ready(&second)["lastHeartbeatTime"], "1970-01-01T00:00:10Z");
        assert_eq!(ready(&second)["lastTransitionTime"], "1970-01-01T00:00:00Z");
        let silent = conditions(
            &json!({"status": {"conditions": second}}),
            Health::Silent,
            at(50),
        );
        assert_eq!(ready(&silent)["status"], "Unknown");
        assert_eq!(ready(&silent)["lastHeartbeatTime"], "1970-01-01T00:00:10Z");
        assert_eq!(ready(&silent)["lastTransitionTime"], "1970-01-01T00:00:50Z");
    }

    #[test]
    fn only_node_lifecycle_taints_are_added_and_removed() {
        let foreign = json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"});
        let node =
            json!({"spec": {"taints": [foreign, {"key": NOT_READY, "effect": "NoSchedule"}]}});
        assert_eq!(
            taints(&node, Health::Ready, at(0)),
            std::slice::from_ref(&foreign)
        );
        let silent = taints(&node, Health::Silent, at(0));
        assert_eq!(silent.len(), 3);
        let node = json!({"spec": {"taints": silent}});
        assert_eq!(
            taints(&node, Health::Silent, at(9)),
            silent,
            "nothing is added twice"
        );
        assert_eq!(taints(&node, Health::Ready, at(9)), [foreign]);
    }
}
