//! What follows when the nodes behind load balancers change.

use std::{sync::Arc, time::Instant};

use futures::{StreamExt, stream};
use skydock_cloud::CloudError;

use super::{ServiceController, known::Known, plan};
use crate::{
    constants::reason,
    queue::Priority,
    retry::{self, Again},
};

/// Most names of nodes in one event.
const NAMES: usize = 20;

/// Names for an event, not too many.
fn limited_names(nodes: &[Arc<skydock_cloud::Node>]) -> String {
    let mut names: Vec<&str> = nodes.iter().take(NAMES).map(|node| node.name.as_str()).collect();
    let more = format!("<{} more>", nodes.len().saturating_sub(NAMES));
    if nodes.len() > NAMES {
        names.push(&more);
    }
    names.join(" ")
}

impl ServiceController {
    /// One pass over all load balancers; however many nodes have changed, one is enough.
    pub(super) async fn work_nodes(&self) {
        while let Some(((), _)) = self.node_queue.take().await {
            let start = Instant::now();
            stream::iter(self.known.all())
                .for_each_concurrent(self.options.concurrent_syncs, |(key, known)| async move {
                    self.update_nodes(&key, &known).await;
                })
                .await;
            self.shared.metrics.nodesync_latency.observe(start.elapsed().as_secs_f64());
            self.node_queue.done(&());
        }
    }

    async fn update_nodes(&self, key: &str, known: &Arc<Known>) {
        let _busy = known.busy.lock().await;
        let progress = known.progress();
        let understood = progress.entry.view.problem.is_none();
        let current = self.known.get(key).is_some_and(|other| Arc::ptr_eq(&other, known));
        // What is not finished will be ensured again, with the nodes of then; but not what the cloud has refused, whose load
        // balancer may serve as it was before.
        let ensured_soon = progress.unfinished && !progress.refused;
        if !current || !understood || ensured_soon || self.need(&progress.entry, false) != plan::Need::Ensure {
            return;
        }
        let (nodes, wanted) = self.selection.of(&progress.entry);
        if progress.nodes.map_or(!progress.refused, |synced| Arc::ptr_eq(&synced, &wanted) || synced == wanted) {
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
    use super::*;

    #[test]
    fn s50_no_event_names_more_than_twenty_nodes() {
        let nodes: Vec<_> =
            (0..23).map(|n| Arc::new(skydock_cloud::Node { name: format!("n{n}"), ..Default::default() })).collect();
        assert_eq!(limited_names(&nodes[..2]), "n0 n1");
        assert!(limited_names(&nodes).ends_with("n19 <3 more>"));
    }
}
