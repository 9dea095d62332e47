//! Updates load balancers when nodes change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use prometheus_client::metrics::histogram::Histogram;
use skydock_cloud::CloudError;
use skydock_kube::queue::Priority;

use super::{
    ServiceController,
    known::{Known, Progress, Told, Waiting},
    plan,
    selection::{Choice, Fingerprint},
};
use crate::{
    constants::reason,
    retry::{self, Again},
    shared::apart,
};

/// Maximum number of node names in one event.
const NAMES: usize = 20;
/// Time for which changes of nodes are gathered for a load balancer that does not exist yet: each is another attempt to create
/// it.
const GATHER_FOR_NEW: Duration = Duration::from_secs(1);

/// Work on the nodes behind load balancers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Nodes {
    /// Determine which load balancers need an update.
    Pass,
    /// Update the nodes of this load balancer.
    Of(String),
}

/// What to do after a change of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    Nothing,
    /// Update the existing load balancer, even if the Service could not be ensured.
    Update,
    /// Retry to create the load balancer, which does not exist yet, with these nodes.
    Ensure,
}

fn follow(progress: &Progress, wanted: Fingerprint) -> Follow {
    if progress.told == Told::Nodes(wanted) {
        Follow::Nothing
    } else if progress.served || progress.refused {
        Follow::Update
    } else if progress.unfinished {
        Follow::Ensure
    } else {
        Follow::Nothing
    }
}

/// Passes whose load balancers are still being updated.
#[derive(Default)]
pub(super) struct Passes(Mutex<HashMap<String, Arc<Pass>>>);

/// One pass over all load balancers. It measures the time from its start until the last of them is updated.
struct Pass {
    start: Instant,
    latency: Histogram,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.latency.observe(self.start.elapsed().as_secs_f64());
    }
}

impl Passes {
    fn begin(&self, key: &str, pass: &Arc<Pass>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), Arc::clone(pass));
    }

    fn end(&self, key: &str) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key));
    }
}

/// Returns at most [`NAMES`] names for an event.
fn limited_names(nodes: &[Arc<skydock_cloud::Node>]) -> String {
    let mut names: Vec<&str> = nodes.iter().take(NAMES).map(|node| node.name.as_str()).collect();
    let more = format!("<{} more>", nodes.len().saturating_sub(NAMES));
    if nodes.len() > NAMES {
        names.push(&more);
    }
    names.join(" ")
}

impl ServiceController {
    /// Runs one worker. However many nodes have changed, a load balancer is updated once, with the nodes at the time of its
    /// turn. A slow load balancer does not delay others.
    pub(super) async fn work_nodes(self: &Arc<Self>) {
        while let Some((work, _)) = self.node_queue.take().await {
            match &work {
                Nodes::Pass => self.pass().await,
                Nodes::Of(key) => {
                    let (this, one) = (Arc::clone(self), key.clone());
                    apart(async move { this.update_nodes(&one).await }).await;
                    self.passes.end(key);
                }
            }
            self.node_queue.done(&work);
        }
    }

    async fn pass(&self) {
        let pass = Arc::new(Pass { start: Instant::now(), latency: self.shared.metrics.nodesync_latency.clone() });
        let mut behind = Vec::new();
        for (key, known) in self.known.all() {
            let entry = known.update(|progress| Arc::clone(&progress.entry));
            let fingerprint = self.selection.fingerprint(&entry).await;
            // Read after waiting for the fingerprint: in the meantime, other nodes may have been sent to the cloud.
            if known.update(|progress| follow(progress, fingerprint)) != Follow::Nothing {
                self.passes.begin(&key, &pass);
                behind.push(Nodes::Of(key));
            }
        }
        self.node_queue.add_all(behind, Priority::Change);
    }

    async fn update_nodes(&self, key: &str) {
        let Some(known) = self.known.get(key) else { return };
        let later = Waiting { nodes: true, sync: None };
        self.alone(key, &known, later, self.follow_nodes_of(key, &known)).await;
    }

    async fn follow_nodes_of(&self, key: &str, known: &Known) {
        let progress = known.progress();
        // If the first known version of the Service is invalid, its node selector or source ranges may be what is invalid. A
        // guess would send clients to the wrong nodes, or allow all clients.
        let understood = progress.entry.view.problem.is_none();
        if !understood || self.need(&progress.entry, false) != plan::Need::Ensure {
            return;
        }
        match follow(&progress, self.selection.fingerprint(&progress.entry).await) {
            Follow::Nothing => {}
            Follow::Update => self.update(key, known, &progress).await,
            Follow::Ensure => self.queue.add_after(key.to_owned(), GATHER_FOR_NEW, Priority::Change),
        }
    }

    async fn update(&self, key: &str, known: &Known, progress: &Progress) {
        let entry = &progress.entry;
        let Choice { nodes, fingerprint } = self.selection.of(entry).await;
        known.update(|progress| progress.told = Told::Nodes(fingerprint));
        self.shared.metrics.loadbalancer_sync.inc();
        let start = Instant::now();
        let updated = self.shared.provider.update_load_balancer(&entry.view.service, &nodes).await;
        self.shared.metrics.update_loadbalancer_host_latency.observe(start.elapsed().as_secs_f64());
        let Err(error) = updated else {
            self.node_queue.forget(&Nodes::Of(key.to_owned()));
            // After a start, it is not known which nodes the load balancer had.
            if progress.told != Told::Nothing {
                self.tell_updated(entry, &nodes);
            }
            return;
        };
        match error {
            CloudError::ImplementedElsewhere => {}
            CloudError::NotFound(_) if progress.refused => {}
            // The load balancer was deleted by someone else: recreate it.
            CloudError::NotFound(_) => {
                known.update(|progress| progress.served = false);
                self.queue.add(key.to_owned(), Priority::Change);
            }
            error => {
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
                let again = Again::after(&error);
                if again == Again::OnChange {
                    return;
                }
                known.update(|progress| progress.told = Told::Failed);
                match again {
                    // It is already being ensured, which may fail before the nodes are updated; or ensuring it would be
                    // rejected.
                    again if progress.unfinished || progress.refused => {
                        again.schedule(&self.node_queue, &Nodes::Of(key.to_owned()));
                    }
                    Again::After(delay) => self.queue.add_after(key.to_owned(), delay, Priority::Change),
                    _ => self.queue.add(key.to_owned(), Priority::Change),
                }
            }
        }
    }

    fn tell_updated(&self, entry: &super::ServiceEntry, nodes: &[Arc<skydock_cloud::Node>]) {
        if nodes.is_empty() {
            self.shared.warning(entry, reason::UNAVAILABLE_LB, "There are no available nodes for LoadBalancer");
        } else {
            self.shared.normal(entry, reason::UPDATED_LB, "Updated load balancer with new hosts");
        }
    }

    /// Returns false only if the cloud is certain that there is no load balancer.
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

    // Holds: S-50
    #[test]
    fn an_event_names_at_most_twenty_nodes() {
        let nodes: Vec<_> =
            (0..23).map(|n| Arc::new(skydock_cloud::Node { name: format!("n{n}"), ..Default::default() })).collect();
        assert_eq!(limited_names(&nodes[..2]), "n0 n1");
        assert!(limited_names(&nodes).ends_with("n19 <3 more>"));
    }
}
