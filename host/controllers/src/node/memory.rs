//! What is remembered of a node while it is there. To forget it costs a question or an event more.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::CloudError;
use tokio::time::Instant;

use crate::{batches::Fit, events::TELL_AGAIN, informer::Entry, patience::Patience};

/// Of all nodes, by name.
#[derive(Default)]
pub(super) struct Memory(Mutex<HashMap<String, Remembered>>);

#[derive(Default)]
struct Remembered {
    /// Version that was initialised, while the cache shows it.
    settled: Option<String>,
    /// UID that was warned about as foreign, and when.
    foreign: Option<(String, Instant)>,
    /// In how large a batch it may go, if not with as many as there are.
    fit: Option<Fit>,
    /// For how long the cloud has been at it.
    patience: Option<Patience>,
}

impl Remembered {
    fn is_nothing(&self) -> bool {
        let Self { settled, foreign, fit, patience } = self;
        settled.is_none() && foreign.is_none() && fit.is_none() && patience.is_none()
    }
}

impl Memory {
    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note<R>(&self, name: &str, note: impl FnOnce(&mut Remembered) -> R) -> R {
        let mut nodes = self.nodes();
        let remembered = nodes.entry(name.to_owned()).or_default();
        let result = note(remembered);
        if remembered.is_nothing() {
            nodes.remove(name);
        }
        result
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Remembered)) {
        if self.nodes().contains_key(name) {
            self.note(name, change);
        }
    }

    /// This version was initialised.
    pub(super) fn settle(&self, entry: &Entry<Node>) {
        let version = entry.resource_version();
        let version = (!version.is_empty()).then(|| version.to_owned());
        self.note(entry.name(), |node| (node.settled, node.patience) = (version, None));
    }

    /// True if the cache still shows what was there before this node was initialised.
    pub(super) fn is_settled(&self, entry: &Entry<Node>) -> bool {
        let nodes = self.nodes();
        nodes.get(entry.name()).and_then(|node| node.settled.as_deref()) == Some(entry.resource_version())
    }

    /// Which nodes were initialised, and have not changed since.
    #[cfg(test)]
    pub(super) fn settled(&self) -> std::collections::HashSet<String> {
        let nodes = self.nodes();
        nodes.iter().filter(|(_, node)| node.settled.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// The cache shows another version.
    pub(super) fn changed(&self, name: &str) {
        self.change(name, |node| node.settled = None);
    }

    /// Takes note that a node is foreign. `None` if that is to be told now, else how long it is not.
    pub(super) fn told_as_foreign(&self, entry: &Entry<Node>, now: Instant) -> Option<Duration> {
        self.note(entry.name(), |node| {
            let told = node.foreign.as_ref().filter(|(uid, _)| uid == entry.uid()).map(|(_, at)| *at);
            let waits = told.map(|at| (at + TELL_AGAIN).saturating_duration_since(now)).filter(|it| !it.is_zero());
            if waits.is_none() {
                node.foreign = Some((entry.uid().to_owned(), now));
            }
            waits
        })
    }

    /// In how large a batch it may go.
    pub(super) fn fit(&self, name: &str) -> Fit {
        self.nodes().get(name).and_then(|node| node.fit).unwrap_or_default()
    }

    pub(super) fn set_fit(&self, name: &str, fit: Fit) {
        if fit == Fit::default() {
            self.change(name, |node| node.fit = None);
        } else {
            self.note(name, |node| node.fit = Some(fit));
        }
    }

    /// What is too much for one plugin may not be for the next.
    pub(super) fn forget_fits(&self) {
        self.nodes().retain(|_, node| {
            node.fit = None;
            !node.is_nothing()
        });
    }

    /// Takes note of an error. Says how long the cloud has been at work on the node, if that is to be told now.
    pub(super) fn wait(&self, name: &str, error: &CloudError, long: &Gauge, now: Instant) -> Option<Duration> {
        self.note(name, |node| {
            let mut patience = node.patience.take().unwrap_or_default();
            let lasted = patience.note(error, long, now);
            node.patience = patience.is_tried().then_some(patience);
            lasted
        })
    }

    /// The cloud has nothing to do for it.
    pub(super) fn waits_no_more(&self, name: &str) {
        self.change(name, |node| node.patience = None);
    }

    /// The node is gone.
    pub(super) fn forget(&self, name: &str) {
        self.nodes().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;
    use crate::testing::node;

    #[test]
    fn of_a_node_of_which_nothing_is_to_be_remembered_nothing_is() {
        let (memory, gauge, now) = (Memory::default(), Gauge::default(), Instant::now());
        let entry = Entry::new(node("a"));
        memory.settle(&entry);
        assert!(memory.is_settled(&entry));
        assert_eq!(memory.told_as_foreign(&entry, now), None);
        assert_eq!(memory.told_as_foreign(&entry, now), Some(TELL_AGAIN));
        assert_eq!(memory.told_as_foreign(&entry, now + TELL_AGAIN), None);
        memory.changed("a");
        assert!(!memory.is_settled(&entry));
        memory.forget("a");
        memory.set_fit("a", Fit { size: 1, slow: true });
        assert_eq!(memory.fit("a"), Fit { size: 1, slow: true });
        memory.set_fit("a", Fit::default());
        memory.set_fit("b", Fit { size: 2, slow: false });
        memory.forget_fits();
        let at_it = CloudError::InProgress(Retry { after: Duration::ZERO, message: String::new() });
        memory.wait("c", &at_it, &gauge, now);
        memory.wait("c", &CloudError::Denied(String::new()), &gauge, now);
        memory.wait("c", &at_it, &gauge, now);
        memory.waits_no_more("c");
        memory.set_fit("d", Fit::default());
        memory.changed("e");
        assert!(memory.nodes().is_empty());
    }
}
