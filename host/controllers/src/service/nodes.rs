//! What follows when the nodes behind load balancers change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use prometheus_client::metrics::histogram::Histogram;
use skydock_cloud::CloudError;

use super::{
    ServiceController,
    known::{Known, Progress, Told, Waiting},
    plan,
    selection::{Choice, Fingerprint},
};
use crate::{
    constants::reason,
    queue::Priority,
    retry::{self, Again},
    shared::apart,
};

/// Most names of nodes in one event.
const NAMES: usize = 20;
/// How long changes of nodes are gathered for a load balancer that is yet to be made: each is another try to make it.
const GATHER_FOR_NEW: Duration = Duration::from_secs(1);

/// Work on the nodes behind load balancers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Nodes {
    /// Look which load balancers have to be told.
    Pass,
    /// Tell this one.
    Of(String),
}

/// What a change of nodes asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    Nothing,
    /// The load balancer that is there is told, also if the service could not be ensured.
    Update,
    /// There is none yet, and it is tried to make one: now with these nodes.
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

/// Passes whose load balancers are still being told.
#[derive(Default)]
pub(super) struct Passes(Mutex<HashMap<String, Arc<Pass>>>);

/// One pass over all load balancers, timed from its begin until the last of them was told.
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
    /// However many nodes have changed, a load balancer is told once, with the nodes of when it is its turn; and one that takes
    /// its time holds up no other.
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
            // Only now: the cloud may have been told of others while that was waited for.
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
        // Which nodes it wants, or whom it lets in, is just what nobody could read and nobody here has known before: a guess would
        // send clients to the wrong nodes, or let in everybody.
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
            // After a start nobody knows what the load balancer had.
            if progress.told != Told::Nothing {
                self.tell_updated(entry, &nodes);
            }
            return;
        };
        match error {
            CloudError::ImplementedElsewhere => {}
            CloudError::NotFound(_) if progress.refused => {}
            // It went behind our back: make it anew.
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
                    // It is being ensured again already, which may fail before it comes to the nodes; or it would be refused.
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
