//! Which nodes are behind load balancers, and what follows when that changes.

use std::{sync::Arc, time::Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use skydock_cloud::CloudError;

use super::{Known, ServiceController, plan};
use crate::{
    constants::{LABEL_EXCLUDE_FROM_LB, TAINT_TO_BE_DELETED, reason},
    informer::Entry,
    queue::Priority,
    retry::{self, Again},
};

/// Most names of nodes in one event.
const NAMES: usize = 20;

/// Name and provider ID: what a load balancer knows a node by.
pub(super) type NodeId = (String, Option<String>);

/// True if a node may be behind load balancers. Whether it is ready is for health checks to find out.
pub fn eligible(entry: &Entry<Node>) -> bool {
    let excluded = entry.view.labels.get(LABEL_EXCLUDE_FROM_LB).is_some_and(|value| parse_bool(value) != Some(false));
    let leaving = entry.view.taints.iter().any(|taint| taint.key == TAINT_TO_BE_DELETED);
    entry.object.metadata.deletion_timestamp.is_none() && !excluded && !leaving
}

/// True if load balancers may have to know of this change.
///
/// Upstream waits for another reason when a node is about to leave (deletion, autoscaler's taint); here it goes at once.
pub fn matters(old: &Entry<Node>, new: &Entry<Node>) -> bool {
    eligible(old) != eligible(new) || (eligible(new) && old.view.provider_id != new.view.provider_id)
}

/// As Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Names for an event, not too many.
fn limited_names(nodes: &[Arc<skydock_cloud::Node>]) -> String {
    let mut names: Vec<String> = nodes.iter().take(NAMES).map(|node| node.name.clone()).collect();
    if nodes.len() > NAMES {
        names.push(format!("<{} more>", nodes.len() - NAMES));
    }
    names.join(" ")
}

pub(super) fn ids(nodes: &[Arc<skydock_cloud::Node>]) -> Vec<NodeId> {
    nodes.iter().map(|node| (node.name.clone(), node.provider_id.clone())).collect()
}

impl ServiceController {
    /// The nodes that may be behind load balancers, ordered by name.
    pub(super) fn eligible_nodes(&self) -> Vec<Arc<skydock_cloud::Node>> {
        let nodes = self.shared.nodes.list();
        nodes.iter().filter(|entry| eligible(entry)).map(|entry| Arc::clone(&entry.view)).collect()
    }

    /// One pass over all load balancers; however many nodes have changed, one is enough.
    pub(super) async fn work_nodes(&self) {
        while let Some(((), _)) = self.node_queue.take().await {
            let start = Instant::now();
            let known = self.all_known();
            stream::iter(known)
                .for_each_concurrent(self.workers, |(key, known)| async move { self.update_nodes(&key, &known).await })
                .await;
            self.shared.metrics.nodesync_latency.observe(start.elapsed().as_secs_f64());
            self.node_queue.done(&());
        }
    }

    async fn update_nodes(&self, key: &str, known: &Arc<Known>) {
        let _busy = known.busy.lock().await;
        let progress = known.progress();
        let understood = progress.entry.view.problem.is_none();
        let current = self.known(key).is_some_and(|other| Arc::ptr_eq(&other, known));
        // What is not finished will be ensured again, with the nodes of then; but not what the cloud has refused, whose load
        // balancer may serve as it was before.
        let ensured_soon = progress.unfinished && !progress.refused;
        if !current || !understood || ensured_soon || plan::need(&progress.entry.object, false) != plan::Need::Ensure {
            return;
        }
        let nodes = self.eligible_nodes();
        let wanted = ids(&nodes);
        if progress.nodes.map_or(!progress.refused, |synced| synced == wanted) {
            return;
        }
        known.update(|progress| progress.nodes = Some(wanted));
        let entry = &progress.entry;
        self.shared.metrics.loadbalancer_sync.inc();
        let start = Instant::now();
        let updated = self.shared.provider.update_load_balancer(&entry.view.service, &nodes).await;
        self.shared.metrics.update_loadbalancer_host_latency.observe(start.elapsed().as_secs_f64());
        if updated.is_ok() {
            self.node_queue.forget(&());
        }
        match updated {
            Ok(()) if nodes.is_empty() => {
                self.shared.warning(entry, reason::UNAVAILABLE_LB, "There are no available nodes for LoadBalancer");
            }
            Ok(()) => self.shared.normal(entry, reason::UPDATED_LB, "Updated load balancer with new hosts"),
            Err(CloudError::ImplementedElsewhere) => {}
            Err(CloudError::NotFound(_)) if progress.refused => {}
            // It went behind our back: make it anew.
            Err(CloudError::NotFound(_)) => self.queue.add(key.to_owned(), Priority::Change),
            Err(error) => {
                self.shared.metrics.nodesync_error.inc();
                self.shared.cloud_error(key, &error);
                if retry::warns(&error) && self.exists(key, entry).await {
                    let message = format!(
                        "Error updating load balancer with new hosts [{}] [node names limited, total number of nodes: {}], error: {error}",
                        limited_names(&nodes),
                        nodes.len(),
                    );
                    self.shared.warning(entry, reason::UPDATE_LB_FAILED, message);
                }
                match Again::after(&error) {
                    Again::OnChange => {}
                    // To ensure it is no help: it would be refused again.
                    again if progress.refused => {
                        known.update(|progress| progress.nodes = None);
                        again.schedule(&self.node_queue, &());
                    }
                    Again::After(delay) => self.queue.add_after(key.to_owned(), delay, Priority::Change),
                    Again::Soon | Again::BackOff => self.queue.add(key.to_owned(), Priority::Change),
                }
            }
        }
    }

    /// False only if the cloud says for sure that there is no load balancer.
    async fn exists(&self, key: &str, entry: &super::ServiceEntry) -> bool {
        match self.shared.provider.get_load_balancer(&entry.view.service).await {
            Ok(status) => status.is_some(),
            Err(CloudError::NotFound(_)) => false,
            Err(error) => {
                self.shared.cloud_error(key, &error);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{node, with};

    fn entry(change: &Value) -> Entry<Node> {
        let plain = with(&node("a"), &json!({"spec": {"taints": null, "providerID": "fake://a"}}));
        Entry::new(with(&plain, change))
    }

    fn excluded(value: &str) -> Value {
        json!({"metadata": {"labels": {LABEL_EXCLUDE_FROM_LB: value}}})
    }

    fn leaving() -> Value {
        json!({"spec": {"taints": [{"key": TAINT_TO_BE_DELETED, "effect": "NoSchedule"}]}})
    }

    fn deleted() -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    }

    #[test]
    fn s55_s56_s57_eligible_nodes() {
        for (change, expected) in [
            (json!({}), true),
            (json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), true),
            (json!({"spec": {"providerID": null}}), true),
            (json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}), true),
            (excluded(""), false),
            (excluded("true"), false),
            (excluded("foo"), false),
            (excluded("false"), true),
            (excluded("0"), true),
            (excluded("f"), true),
            (leaving(), false),
            (deleted(), false),
        ] {
            assert_eq!(eligible(&entry(&change)), expected, "{change}");
        }
        assert!(eligible(&Entry::new(node("a"))), "uninitialised");
    }

    #[test]
    fn s45_s58_s59_changes_that_matter_to_load_balancers() {
        let plain = json!({});
        for (old, new, expected) in [
            (plain.clone(), excluded("true"), true),
            (excluded("true"), plain.clone(), true),
            (excluded("true"), excluded("foo"), false),
            (json!({"spec": {"providerID": null}}), plain.clone(), true),
            (plain.clone(), json!({"spec": {"providerID": "fake://b"}}), true),
            (plain.clone(), leaving(), true),
            (plain.clone(), deleted(), true),
            (plain.clone(), json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}), false),
            (plain.clone(), json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}), false),
            (plain.clone(), json!({"metadata": {"labels": {"x": "y"}}}), false),
            (plain.clone(), json!({"status": {"addresses": []}}), false),
        ] {
            assert_eq!(matters(&entry(&old), &entry(&new)), expected, "{old} > {new}");
        }
    }

    #[test]
    fn s50_no_event_names_more_than_twenty_nodes() {
        let nodes: Vec<_> =
            (0..23).map(|n| Arc::new(skydock_cloud::Node { name: format!("n{n}"), ..Default::default() })).collect();
        assert_eq!(limited_names(&nodes[..2]), "n0 n1");
        assert!(limited_names(&nodes).ends_with("n19 <3 more>"));
    }
}
