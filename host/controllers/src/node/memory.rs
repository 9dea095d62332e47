//! What is remembered about existing nodes. If it is lost, this only costs another query or event.

mod reported;

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::CloudError;
use skydock_controller_base::{
    calls::{progress::ProgressTracker, retry::RESTORES},
    objects::kinds::NodeKind,
};
use skydock_kube::{events::REMINDER_PERIOD, informer::Entry, queue::Bucket};
use tokio::time::Instant;

use self::reported::ReportedFailures;
use crate::batches::BatchLimit;

/// What is remembered about all nodes, by name.
#[derive(Default)]
pub(super) struct NodeMemory(Mutex<HashMap<String, Remembered>>);

#[derive(Default)]
struct Remembered {
    /// Resource version that was initialized, as long as the cache contains it.
    initialized: Option<String>,
    /// When warnings were last published, about the node with this UID.
    warned: HashMap<Warning, (String, Instant)>,
    /// Failures that were reported.
    reported: ReportedFailures,
    /// How large a batch with this node may be, if it is limited.
    batch_limit: Option<BatchLimit>,
    /// How long the cloud has answered that an operation is in progress.
    progress: Option<ProgressTracker>,
    /// Limits how often the node is initialized and its labels are repaired.
    restores: Option<Bucket>,
}

/// A warning that is published again only after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Warning {
    /// The provider ID is that of another provider.
    Foreign,
    /// The cloud does not know the instance.
    Unknown,
}

impl Remembered {
    fn is_nothing(&self) -> bool {
        let Self {
            initialized,
            warned,
            reported,
            batch_limit,
            progress,
            restores,
        } = self;
        initialized.is_none()
            && warned.is_empty()
            && reported.is_empty()
            && batch_limit.is_none()
            && progress.is_none()
            && restores.is_none()
    }
}

impl NodeMemory {
    fn update<R>(&self, name: &str, update: impl FnOnce(&mut Remembered) -> R) -> R {
        let mut nodes = self.0.lock();
        let remembered = nodes.entry(name.to_owned()).or_default();
        let result = update(remembered);
        if remembered.is_nothing() {
            nodes.remove(name);
        }
        result
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Remembered)) {
        if self.0.lock().contains_key(name) {
            self.update(name, change);
        }
    }

    /// Records that this version was initialized.
    pub(super) fn mark_initialized(&self, entry: &Entry<NodeKind>) {
        let version = entry.resource_version();
        let version = (!version.is_empty()).then(|| version.to_owned());
        self.update(entry.name(), |node| {
            node.initialized = version;
            node.progress = None;
            node.reported = ReportedFailures::default();
        });
    }

    /// Returns true if the cache still contains the version from before the initialization.
    pub(super) fn is_initialized(&self, entry: &Entry<NodeKind>) -> bool {
        let nodes = self.0.lock();
        nodes
            .get(entry.name())
            .and_then(|node| node.initialized.as_deref())
            == Some(entry.resource_version())
    }

    /// Returns the nodes that were initialized and have not changed since.
    #[cfg(test)]
    pub(super) fn initialized(&self) -> std::collections::HashSet<String> {
        let nodes = self.0.lock();
        nodes
            .iter()
            .filter(|(_, node)| node.initialized.is_some())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Records that the cache contains another version of the node.
    pub(super) fn changed(&self, name: &str) {
        self.change(name, |node| node.initialized = None);
    }

    /// Returns `None` if the warning about this node is to be published, and records that it is;
    /// otherwise the time until the next one.
    pub(super) fn warn(
        &self,
        entry: &Entry<NodeKind>,
        warning: Warning,
        now: Instant,
    ) -> Option<Duration> {
        self.update(entry.name(), |node| {
            let last = node.warned.get(&warning);
            // A warning about another node with the same name does not count.
            let last = last.filter(|(uid, _)| uid == entry.uid());
            let waits = last
                .map(|(_, at)| (*at + REMINDER_PERIOD).saturating_duration_since(now))
                .filter(|it| !it.is_zero());

            if waits.is_none() {
                let published = (entry.uid().to_owned(), now);
                node.warned.insert(warning, published);
            }

            waits
        })
    }

    /// Returns true if this failure of the node is to be reported, and records that it is.
    pub(super) fn is_news(&self, entry: &Entry<NodeKind>, failure: &str, now: Instant) -> bool {
        self.update(entry.name(), |node| {
            node.reported.is_news(entry.uid(), failure, now)
        })
    }

    /// Returns how large a batch with this node may be.
    pub(super) fn batch_limit(&self, name: &str) -> BatchLimit {
        self.0
            .lock()
            .get(name)
            .and_then(|node| node.batch_limit)
            .unwrap_or_default()
    }

    pub(super) fn set_batch_limit(&self, name: &str, batch_limit: BatchLimit) {
        if batch_limit == BatchLimit::default() {
            self.change(name, |node| node.batch_limit = None);
        } else {
            self.update(name, |node| node.batch_limit = Some(batch_limit));
        }
    }

    /// Forgets what the previous plugin has caused: another one may handle larger batches, and its
    /// failures are news.
    pub(super) fn forget_plugin(&self) {
        self.0.lock().retain(|_, node| {
            node.batch_limit = None;
            node.reported = ReportedFailures::default();
            !node.is_nothing()
        });
    }

    /// Records an error. Returns how long an operation on the node has been in progress if it is to
    /// be reported.
    pub(super) fn note_progress(
        &self,
        name: &str,
        error: &CloudError,
        long: &Gauge,
        now: Instant,
    ) -> Option<Duration> {
        self.update(name, |node| {
            let mut progress = node.progress.take().unwrap_or_default();
            let lasted = progress.track(error, long, now);
            node.progress = progress.is_tried().then_some(progress);
            lasted
        })
    }

    /// Records that no operation on the node is in progress.
    pub(super) fn clear_progress(&self, name: &str) {
        self.change(name, |node| node.progress = None);
    }

    /// Records that the node was initialized or its labels repaired, which someone else may undo.
    pub(super) fn restored(&self, name: &str, now: Instant) {
        self.update(name, |node| {
            let restores = node
                .restores
                .get_or_insert_with(|| Bucket::full(RESTORES, now));
            restores.reserve(now);
        });
    }

    /// Returns how long to wait before the node is initialized or repaired again.
    pub(super) fn restore_delay(&self, name: &str, now: Instant) -> Duration {
        let nodes = self.0.lock();
        let restores = nodes.get(name).and_then(|node| node.restores.as_ref());
        restores.map_or(Duration::ZERO, |restores| {
            restores.refilled_at().saturating_duration_since(now)
        })
    }

    /// Forgets a node that was deleted.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;
    use skydock_controller_base::testing::node;

    use super::*;

    #[test]
    fn a_node_without_state_is_not_remembered() {
        let (memory, gauge, now) = (NodeMemory::default(), Gauge::default(), Instant::now());
        let entry = Entry::new(node("a"));
        memory.mark_initialized(&entry);
        assert!(memory.is_initialized(&entry));
        assert_eq!(memory.warn(&entry, Warning::Foreign, now), None);
        assert_eq!(
            memory.warn(&entry, Warning::Foreign, now),
            Some(REMINDER_PERIOD)
        );
        assert_eq!(
            memory.warn(&entry, Warning::Foreign, now + REMINDER_PERIOD),
            None
        );

        memory.changed("a");
        assert!(!memory.is_initialized(&entry));
        memory.forget("a");
        memory.set_batch_limit(
            "a",
            BatchLimit {
                size: 1,
                slow: true,
            },
        );
        assert_eq!(
            memory.batch_limit("a"),
            BatchLimit {
                size: 1,
                slow: true
            }
        );

        memory.set_batch_limit("a", BatchLimit::default());
        memory.set_batch_limit(
            "b",
            BatchLimit {
                size: 2,
                slow: false,
            },
        );
        assert!(memory.is_news(&Entry::new(node("f")), "denied", now));
        memory.forget_plugin();
        let at_it = CloudError::InProgress(Retry {
            after: Duration::ZERO,
            message: String::new(),
        });
        memory.note_progress("c", &at_it, &gauge, now);
        memory.note_progress("c", &CloudError::Denied(String::new()), &gauge, now);
        memory.note_progress("c", &at_it, &gauge, now);
        memory.clear_progress("c");
        memory.set_batch_limit("d", BatchLimit::default());
        memory.changed("e");
        assert!(memory.0.lock().is_empty());
    }
}
