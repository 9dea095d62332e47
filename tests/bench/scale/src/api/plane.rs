//! The cluster, the effects of requests and orders on it, and the statistics.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use skydock_bench_scale::{Order, Stats};
use skydock_support::kubernetes::UNINITIALIZED;
use tokio::sync::watch;

use crate::fleet;
use crate::message::Node;
use crate::patch::{self, Rejected};
use crate::shelf::Shelf;

/// The cluster, with notifications of changes.
#[derive(Debug, Default)]
pub(crate) struct Plane {
    cluster: Mutex<Cluster>,
    revision: watch::Sender<u64>,
}

impl Plane {
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        look(&self.lock())
    }

    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.lock();
        let result = change(&mut cluster);
        let revision = cluster.revision;
        drop(cluster);
        self.revision
            .send_if_modified(|last| std::mem::replace(last, revision) != revision);
        result
    }

    /// Returns a receiver that is notified of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why a request fails.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    NotFound,
    Patch(Rejected),
}

/// The state of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) revision: u64,
    pub(crate) nodes: Shelf<Node>,
    pub(crate) services: Shelf<Value>,
    leases: BTreeMap<String, Value>,
    /// Nodes whose next write with a version fails because of a concurrent change.
    races: HashSet<String>,
    /// The revision up to which the watch of nodes has been served.
    pub(crate) given: u64,
    pub(crate) stats: Stats,
}

impl Cluster {
    /// Returns the statistics.
    pub(crate) fn stats(&self) -> Stats {
        let behind = self.nodes.behind(self.given).try_into().unwrap_or(u64::MAX);
        Stats {
            nodes: self.nodes.len(),
            services: self.services.len(),
            behind,
            ..self.stats.clone()
        }
    }

    /// Patches a node and returns its metadata.
    pub(crate) fn patch_node(
        &mut self,
        name: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<Value, Denied> {
        let mut node = self.nodes.get(name).ok_or(Denied::NotFound)?;
        if patch::names_version(body) && self.races.remove(name) {
            let mut raced = Node::clone(&node);
            fleet::interfere(&mut raced);
            node = self.put_node(raced);
        }
        let unreadable =
            |error: serde_json::Error| Denied::Patch(Rejected::Unreadable(error.to_string()));
        let mut object = serde_json::to_value(&*node).map_err(unreadable)?;
        patch::apply(&mut object, content_type, body).map_err(Denied::Patch)?;
        let written = self.put_node(serde_json::from_value(object).map_err(unreadable)?);
        self.written();
        serde_json::to_value(&written.metadata).map_err(unreadable)
    }

    /// Deletes a node if it has this UID.
    pub(crate) fn delete_node(&mut self, name: &str, uid: Option<&str>) -> Result<(), Denied> {
        let node = self.nodes.get(name).ok_or(Denied::NotFound)?;
        if uid.is_some_and(|uid| uid != node.metadata.uid) {
            return Err(Denied::Patch(Rejected::Conflict));
        }
        self.revision += 1;
        let mut last = Node::clone(&node);
        last.metadata.resource_version = self.revision.to_string();
        self.nodes.remove(self.revision, name, last);
        self.count(Some(&node), None);
        self.written();
        Ok(())
    }

    /// Patches a service and returns its metadata.
    pub(crate) fn patch_service(
        &mut self,
        name: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<Value, Denied> {
        let service = self.services.get(name).ok_or(Denied::NotFound)?;
        let mut object = Value::clone(&service);
        patch::apply(&mut object, content_type, body).map_err(Denied::Patch)?;
        let written = self.put_service(name, object);
        self.written();
        Ok(written.get("metadata").cloned().unwrap_or_default())
    }

    /// Returns the lease with this name, which has the form `namespace/name`.
    pub(crate) fn lease(&self, name: &str) -> Option<&Value> {
        self.leases.get(name)
    }

    /// Writes a lease and returns it with its version.
    pub(crate) fn put_lease(&mut self, name: &str, mut lease: Value) -> Value {
        self.revision += 1;
        set_version(&mut lease, self.revision);
        self.leases.insert(name.to_owned(), lease.clone());
        lease
    }

    /// Carries out an order.
    pub(crate) fn obey(&mut self, order: &Order) {
        match order {
            Order::Register(numbers) => {
                for number in numbers.clone() {
                    self.put_node(fleet::registered(number));
                }
            }
            Order::Taint(numbers) => self.each(numbers, |_, node| fleet::taint(node)),
            Order::Report(numbers) => self.each(numbers, |_, node| fleet::report(node)),
            Order::Silence { nodes, gone } => {
                self.each(nodes, |_, node| fleet::silence(node, *gone));
            }
            Order::Recover(numbers) => self.each(numbers, |_, node| fleet::recover(node)),
            Order::Exclude { node, excluded } => {
                self.each(&(*node..*node + 1), |_, node| {
                    fleet::exclude(node, *excluded);
                });
            }
            Order::GiveCidrs(numbers) => {
                self.each(numbers, |number, node| fleet::give_cidr(node, number));
            }
            Order::Expose(numbers) => {
                for number in numbers.clone() {
                    let name = format!("{}/{}", fleet::NAMESPACE, fleet::service_name(number));
                    self.put_service(&name, fleet::service(number));
                }
            }
            Order::Race(numbers) => self.races.extend(numbers.clone().map(fleet::node_name)),
        }
    }

    /// Changes those of these nodes that exist.
    fn each(&mut self, numbers: &Range<u32>, change: impl Fn(u32, &mut Node)) {
        for number in numbers.clone() {
            if let Some(node) = self.nodes.get(&fleet::node_name(number)) {
                let mut node = Node::clone(&node);
                change(number, &mut node);
                self.put_node(node);
            }
        }
    }

    fn put_node(&mut self, mut node: Node) -> Arc<Node> {
        self.revision += 1;
        node.metadata.resource_version = self.revision.to_string();
        let name = node.metadata.name.clone();
        let (node, before) = self.nodes.put(self.revision, &name, node);
        self.count(before.as_deref(), Some(&node));
        node
    }

    fn put_service(&mut self, name: &str, mut service: Value) -> Arc<Value> {
        self.revision += 1;
        set_version(&mut service, self.revision);
        let (service, before) = self.services.put(self.revision, name, service);
        let lacks = |service: &Value| {
            usize::from(service.pointer("/status/loadBalancer/ingress/0").is_none())
        };
        self.stats.without_address += lacks(&service);
        self.stats.without_address -= before.as_deref().map_or(0, lacks);
        service
    }

    fn count(&mut self, before: Option<&Node>, now: Option<&Node>) {
        let waits = |node: &Node| {
            usize::from(
                node.spec
                    .taints
                    .iter()
                    .any(|taint| taint.key == UNINITIALIZED),
            )
        };
        let routed = |node: &Node| {
            usize::from(
                node.condition("NetworkUnavailable")
                    .is_some_and(|it| it.status == "False"),
            )
        };
        self.stats.uninitialized += now.map_or(0, waits);
        self.stats.uninitialized -= before.map_or(0, waits);
        self.stats.routed += now.map_or(0, routed);
        self.stats.routed -= before.map_or(0, routed);
    }

    fn written(&mut self) {
        self.stats.last_write = Timestamp::now().as_duration().as_secs_f64();
    }
}

fn set_version(object: &mut Value, revision: u64) {
    if let Some(metadata) = object
        .as_object_mut()
        .map(|object| object.entry("metadata").or_insert_with(|| json!({})))
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRATEGIC: &str = "application/strategic-merge-patch+json";

    fn initialized(version: u64) -> Vec<u8> {
        json!({"metadata": {"resourceVersion": version.to_string()}, "spec": {"taints": null}})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn a_node_is_uninitialized_until_its_taint_is_removed() {
        let mut cluster = Cluster::default();
        cluster.obey(&Order::Register(0..2));
        assert_eq!(
            (cluster.stats().nodes, cluster.stats().uninitialized),
            (2, 2)
        );
        let metadata = cluster
            .patch_node("node-1", STRATEGIC, &initialized(2))
            .unwrap();
        assert_eq!(
            (&metadata["name"], &metadata["resourceVersion"]),
            (&json!("node-1"), &json!("3"))
        );
        assert_eq!(cluster.stats().uninitialized, 1);
        assert!(cluster.stats().last_write > 0.0);
        cluster.delete_node("node-0", Some("other")).unwrap_err();
        cluster.delete_node("node-0", None).unwrap();
        assert_eq!(
            (cluster.stats().nodes, cluster.stats().uninitialized),
            (1, 0)
        );
        assert_eq!(
            cluster.patch_node("node-0", STRATEGIC, &initialized(1)),
            Err(Denied::NotFound)
        );
    }

    #[test]
    fn only_a_versioned_write_loses_a_race_and_only_once() {
        let mut cluster = Cluster::default();
        cluster.obey(&Order::Register(0..1));
        cluster.obey(&Order::Race(0..1));
        cluster.patch_node("node-0", STRATEGIC, b"{}").unwrap();
        assert_eq!(
            cluster.patch_node("node-0", STRATEGIC, &initialized(2)),
            Err(Denied::Patch(Rejected::Conflict)),
            "somebody else has written version 3"
        );
        cluster
            .patch_node("node-0", STRATEGIC, &initialized(3))
            .unwrap();
    }

    #[test]
    fn a_service_has_an_address_when_its_status_says_so() {
        let mut cluster = Cluster::default();
        cluster.obey(&Order::Expose(0..2));
        let body =
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}).to_string();
        cluster
            .patch_service(
                "default/service-1",
                "application/merge-patch+json",
                body.as_bytes(),
            )
            .unwrap();
        assert_eq!(
            (cluster.stats().services, cluster.stats().without_address),
            (2, 1)
        );
    }

    #[test]
    fn a_node_is_routed_when_its_network_is_not_unavailable() {
        let mut cluster = Cluster::default();
        cluster.obey(&Order::Register(0..2));
        let body =
            json!({"status": {"conditions": [{"type": "NetworkUnavailable", "status": "False"}]}})
                .to_string();
        cluster
            .patch_node("node-1", STRATEGIC, body.as_bytes())
            .unwrap();
        assert_eq!(cluster.stats().routed, 1);
    }
}
