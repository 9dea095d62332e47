//! The nodes of clusters in which nothing else is served.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use skydock_support::{
    Seen, eventually,
    kubernetes::{SHUTDOWN, UNINITIALIZED},
};

use crate::cluster::Cluster;

/// The expected state of a node.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) provider_id: String,
    /// Types and addresses.
    pub(crate) addresses: BTreeSet<(&'static str, String)>,
    /// Region, zone and type of its instance.
    pub(crate) labels: [(&'static str, &'static str); 3],
    /// Whether its instance runs.
    pub(crate) runs: bool,
}

/// Waits until the cluster has these nodes. Returns how many there are.
///
/// # Errors
/// Returns the differences at the end of the time limit.
pub(crate) async fn seen(wanted: &[Wanted], cluster: &Cluster, limit: Duration) -> Result<String> {
    eventually(limit, || async {
        let wrongs = wrongs(wanted, &cluster.nodes().await?);
        Ok(Seen::when(wrongs.is_empty(), wrongs.join("\n")))
    })
    .await?;
    Ok(format!("{} nodes", wanted.len()))
}

/// Returns all differences from the expected state, in sentences.
fn wrongs(wanted: &[Wanted], nodes: &[Node]) -> Vec<String> {
    let found: BTreeSet<_> = nodes.iter().map(ResourceExt::name_any).collect();
    let names: BTreeSet<_> = wanted.iter().map(|node| node.name.clone()).collect();
    let mut wrongs = Vec::new();
    if found != names {
        wrongs.push(format!("nodes are {found:?} and not {names:?}"));
    }
    for wanted in wanted {
        for node in nodes.iter().filter(|node| node.name_any() == wanted.name) {
            wrongs.extend(of_node(wanted, node).into_iter().map(|wrong| format!("{}: {wrong}", wanted.name)));
        }
    }
    wrongs
}

fn of_node(wanted: &Wanted, node: &Node) -> Vec<String> {
    let mut wrongs = Vec::new();
    let spec = node.spec.clone().unwrap_or_default();
    if spec.provider_id.as_ref() != Some(&wanted.provider_id) {
        wrongs.push(format!("its provider ID is {:?} and not {}", spec.provider_id, wanted.provider_id));
    }
    let taints: BTreeSet<_> = spec.taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
    if taints.contains(UNINITIALIZED) || taints.contains(SHUTDOWN) == wanted.runs {
        wrongs.push(format!("its instance runs: {}, its taints: {taints:?}", wanted.runs));
    }
    let addresses = node.status.iter().filter_map(|status| status.addresses.as_ref()).flatten();
    let addresses: BTreeSet<_> = addresses.map(|it| (it.type_.as_str(), it.address.clone())).collect();
    if addresses != wanted.addresses {
        wrongs.push(format!("its addresses are {addresses:?} and not {:?}", wanted.addresses));
    }
    for (label, value) in wanted.labels {
        if node.labels().get(label).map(String::as_str) != Some(value) {
            wrongs.push(format!("label {label} is {:?} and not {value}", node.labels().get(label)));
        }
    }
    wrongs
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the differences of a matching node, after changes to its fields.
    fn found(runs: bool, changes: &[(&str, Value)]) -> Vec<String> {
        let wanted = Wanted {
            name: "n1".to_owned(),
            provider_id: "x://1".to_owned(),
            addresses: BTreeSet::from([("InternalIP", "10.0.0.1".to_owned())]),
            labels: [("a", "1"), ("b", "2"), ("c", "3")],
            runs,
        };
        let mut node = json!({
            "metadata": {"name": "n1", "labels": {"a": "1", "b": "2", "c": "3"}},
            "spec": {"providerID": "x://1", "taints": []},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        });
        for (pointer, value) in changes {
            *node.pointer_mut(pointer).unwrap() = value.clone();
        }
        wrongs(&[wanted], &[serde_json::from_value(node).unwrap()])
    }

    #[test]
    fn each_wrong_field_of_a_node_is_found() {
        let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
        assert_eq!(found(true, &[]), [] as [&str; 0]);
        assert_eq!(found(false, &[("/spec/taints", taint(SHUTDOWN))]), [] as [&str; 0]);
        for wrong in [
            ("/metadata/name", json!("n2")),
            ("/metadata/labels", json!({"a": "1", "b": "2"})),
            ("/spec/providerID", json!("x://2")),
            ("/spec/taints", taint(UNINITIALIZED)),
            ("/spec/taints", taint(SHUTDOWN)),
            ("/status/addresses", json!([])),
        ] {
            assert!(!found(true, std::slice::from_ref(&wrong)).is_empty(), "{wrong:?}");
        }
        assert!(!found(false, &[]).is_empty(), "an instance that is off");
    }
}
