//! The known Services: the memory of this process about those that it has processed, or that
//! already had a load balancer.

pub(crate) mod fingerprint;
pub(crate) mod own_load_balancer;
pub(crate) mod state;
pub(crate) mod synced;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use kube::core::{Selector, SelectorExt};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::{CloudError, NodeFields};
use skydock_controller_base::calls::{progress::ProgressTracker, retry::RESTORES};
use skydock_kube::queue::{Bucket, Priority};
use tokio::time::Instant;

use self::{
    fingerprint::Fingerprint,
    state::{Health, SentNodes, State},
    synced::{Ensured, Synced},
};
use super::{
    ServiceEntry,
    metrics::reconciliation::{Operation, UnfinishedOperation},
    plan::status,
    record::Line,
};

/// A Service that this process works on.
pub(crate) struct KnownService {
    /// Locked during an attempt for this Service.
    pub(crate) busy: tokio::sync::Mutex<()>,
    memory: Mutex<ServiceMemory>,
    /// Work that was requested while it was busy, to be done after that.
    deferred: Mutex<Deferred>,
}

/// What is remembered about a Service.
struct ServiceMemory {
    /// The version that was processed last.
    entry: ServiceEntry,
    /// Its node selector, if it has one. When the labels of a node change, they are compared with
    /// all selectors in use.
    selector: Option<Arc<Selector>>,
    state: State,
    /// What is certain about the load balancer, and may be recorded for the next process.
    synced: Option<Synced>,
    /// The fields that the provider had read in an earlier process. It may read fewer in its next
    /// call.
    node_fields_before: NodeFields,
    /// How long the cloud has answered during the unfinished sync that an operation is in
    /// progress.
    progress: ProgressTracker,
    /// What metrics time until the cloud is done.
    unfinished_operation: UnfinishedOperation,
    /// Limits how often what someone else has removed is restored.
    restores: Bucket,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deferred {
    pub(crate) sync: Option<Priority>,
    pub(crate) nodes: bool,
}

impl KnownService {
    pub(crate) fn new(entry: ServiceEntry, selector: Option<Arc<Selector>>) -> Self {
        let state = State::new(status::has_load_balancer(&entry.object));

        let memory = ServiceMemory {
            entry,
            selector,
            state,
            synced: None,
            node_fields_before: NodeFields::default(),
            progress: ProgressTracker::default(),
            unfinished_operation: UnfinishedOperation::default(),
            restores: Bucket::full(RESTORES, Instant::now()),
        };

        Self {
            busy: tokio::sync::Mutex::default(),
            memory: Mutex::new(memory),
            deferred: Mutex::default(),
        }
    }

    /// Returns the version that was processed last.
    pub(crate) fn entry(&self) -> ServiceEntry {
        Arc::clone(&self.memory.lock().entry)
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.memory.lock().state)
    }

    pub(crate) fn update<T>(&self, update: impl FnOnce(&mut State) -> T) -> T {
        let mut memory = self.memory.lock();
        let result = update(&mut memory.state);

        // What is in progress during a later sync is timed from its own start.
        if memory.state.unfinished_sync.is_none() {
            memory.progress = ProgressTracker::default();
        }
        result
    }

    /// Records which fields of the nodes the provider has read. Returns true if that is more than
    /// before.
    pub(crate) fn set_node_fields(&self, node_fields: NodeFields) -> bool {
        let mut memory = self.memory.lock();
        let node_fields = node_fields.max(memory.node_fields_before);
        node_fields > std::mem::replace(&mut memory.state.node_fields, node_fields)
    }

    /// Continues where an earlier process has stopped.
    pub(crate) fn restore(&self, version: &ServiceEntry, revision: u128, line: Line) {
        let mut memory = self.memory.lock();
        let Line {
            node_fields,
            nodes,
            checked,
        } = line;
        let nodes = Fingerprint::recorded(node_fields, nodes);

        memory.node_fields_before = node_fields;
        memory.state.node_fields = node_fields;
        memory.state.sent = SentNodes::Nodes(nodes);
        memory.synced = Some(Synced {
            ensured: Ensured {
                version: Arc::clone(version),
                revision,
                checked,
                // A line is only found with the status that it was written with.
                status: version.view.service.status.clone(),
            },
            nodes,
            node_fields,
        });
    }

    /// Forgets what an earlier process has found out about a provider that was replaced.
    pub(crate) fn forget_provider(&self) {
        self.memory.lock().node_fields_before = NodeFields::default();
    }

    /// Records that an operation failed. Returns for how long it has been in progress if this is to
    /// be reported.
    pub(crate) fn track_progress(&self, error: &CloudError, long: &Gauge) -> Option<Duration> {
        self.memory
            .lock()
            .progress
            .track(error, long, Instant::now())
    }

    /// Records the answer to a call of an operation. Returns how long the operation took if this is
    /// its end.
    pub(crate) fn answered(
        &self,
        operation: Operation,
        call: Instant,
        error: Option<&CloudError>,
    ) -> Option<Duration> {
        let unfinished = &mut self.memory.lock().unfinished_operation;
        unfinished.answered(operation, call, Instant::now(), error)
    }

    /// Returns when to restore what someone else has removed.
    pub(crate) fn restore_delay(&self, now: Instant) -> Duration {
        let restores = &mut self.memory.lock().restores;
        let wait = restores.refilled_at().saturating_duration_since(now);
        if wait.is_zero() {
            restores.reserve(now)
        } else {
            wait
        }
    }

    /// Requests work to be done after the current work.
    pub(crate) fn defer(&self, what: Deferred) {
        let mut deferred = self.deferred.lock();
        // The more urgent request decides.
        deferred.sync = deferred.sync.into_iter().chain(what.sync).min();
        deferred.nodes |= what.nodes;
    }

    /// Returns and clears the work that was requested in the meantime.
    pub(crate) fn take_deferred(&self) -> Deferred {
        std::mem::take(&mut *self.deferred.lock())
    }
}

/// All known Services, by key. An entry is removed when its load balancer is deleted.
#[derive(Default)]
pub(crate) struct KnownServices {
    services: Mutex<HashMap<String, Arc<KnownService>>>,
    /// Node selectors of all known Services.
    pub(crate) selectors: Selectors,
}

impl KnownServices {
    pub(crate) fn get(&self, key: &str) -> Option<Arc<KnownService>> {
        self.services.lock().get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(String, Arc<KnownService>)> {
        self.services
            .lock()
            .iter()
            .map(|(key, known)| (key.clone(), Arc::clone(known)))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.services.lock().len()
    }

    /// Counts the Services by state. `unknown` of them are not known, because they wait for their
    /// first attempt.
    pub(crate) fn count(&self, unknown: u64) -> Vec<(&'static str, u64)> {
        let (mut ready, mut pending, mut failing, mut deleting) = (0, unknown, 0, 0);
        for (_, known) in self.all() {
            match known.read(State::health) {
                Some(Health::Ready) => ready += 1,
                Some(Health::Pending) => pending += 1,
                Some(Health::Failing) => failing += 1,
                Some(Health::Deleting) => deleting += 1,
                None => {}
            }
        }
        vec![
            ("ready", ready),
            ("pending", pending),
            ("failing", failing),
            ("deleting", deleting),
        ]
    }

    pub(crate) fn remove(&self, key: &str) {
        self.services.lock().remove(key);
    }

    /// Remembers a Service. Called before it is processed, so that changes of nodes also reach a
    /// Service whose first attempt fails.
    ///
    /// An invalid version does not replace a valid one: it may lack the source ranges, and updating
    /// nodes with it would open the load balancer to all clients.
    pub(crate) fn remember(&self, key: &str, entry: &ServiceEntry) -> Arc<KnownService> {
        let selector = self.selectors.in_use(&entry.view.node_selector);

        let mut all = self.services.lock();
        let new = || Arc::new(KnownService::new(Arc::clone(entry), selector.clone()));
        let known = all.entry(key.to_owned()).or_insert_with(new);

        let mut memory = known.memory.lock();
        if entry.view.problem.is_none() || memory.entry.view.problem.is_some() {
            memory.entry = Arc::clone(entry);
            memory.selector = selector;
        }
        drop(memory);

        Arc::clone(known)
    }

    /// Moves the data of a Service that does not exist to a separate key, so that a new Service
    /// with the same name can use its key.
    pub(crate) fn set_aside(&self, key: &str, uid: &str) -> String {
        let aside = format!("{key}@{uid}");
        let mut all = self.services.lock();
        if let Some(known) = all.remove(key) {
            all.insert(aside.clone(), known);
        }
        aside
    }
}

/// The node selectors in use, without duplicates: the cost of a change of a node's labels depends
/// on their number, not on that of Services.
#[derive(Default)]
pub(crate) struct Selectors(Mutex<Vec<Weak<Selector>>>);

impl Selectors {
    /// Returns the selector, which is in use for as long as the result is held; `None` if it
    /// selects all nodes.
    fn in_use(&self, selector: &Selector) -> Option<Arc<Selector>> {
        if selector.selects_all() {
            return None;
        }

        let mut all = self.0.lock();
        // Nothing else removes the references to selectors of Services that are gone.
        all.retain(|known| known.strong_count() > 0);

        if let Some(known) = all
            .iter()
            .filter_map(Weak::upgrade)
            .find(|known| **known == *selector)
        {
            return Some(known);
        }

        let new = Arc::new(selector.clone());
        all.push(Arc::downgrade(&new));
        Some(new)
    }

    /// Returns true if a selector in use matches one of the two sets of labels but not the other.
    pub(crate) fn distinguish(
        &self,
        old: &BTreeMap<String, String>,
        new: &BTreeMap<String, String>,
    ) -> bool {
        let all = self.0.lock();
        all.iter()
            .filter_map(Weak::upgrade)
            .any(|selector| selector.matches(old) != selector.matches(new))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skydock_controller_base::testing::{pairs, service, with};

    use super::*;
    use skydock_kube::informer::Entry;

    fn entry(change: &Value) -> ServiceEntry {
        Arc::new(Entry::new(with(&service("web"), change)))
    }

    /// Returns an invalid version of a Service.
    fn odd(version: &str) -> ServiceEntry {
        let odd = json!({"service.beta.kubernetes.io/load-balancer-source-ranges": "odd"});
        entry(&json!({"metadata": {"resourceVersion": version, "annotations": odd}}))
    }

    #[test]
    fn services_are_counted_by_state() {
        let all = KnownServices::default();
        for (name, served) in [("a", true), ("b", true), ("c", false)] {
            let known = all.remember(&format!("ns/{name}"), &entry(&json!({})));
            known.update(|state| *state = State::new(served));
        }
        let failing = all.get("ns/b").unwrap();
        failing.update(|state| state.unfinished_sync().failed = true);
        let expected = [
            ("ready", 1),
            ("pending", 3),
            ("failing", 1),
            ("deleting", 0),
        ];
        assert_eq!(all.count(2), expected);
    }

    /// Returns a selector for the nodes of this pool.
    fn selector(pool: &str) -> Selector {
        pairs(&[("pool", pool)]).into_iter().collect()
    }

    #[test]
    fn work_arriving_while_busy_is_kept_until_requested() {
        let known = KnownService::new(entry(&json!({})), None);
        known.defer(Deferred {
            nodes: true,
            sync: Some(Priority::Recheck),
        });
        known.defer(Deferred {
            nodes: false,
            sync: Some(Priority::Change),
        });
        known.defer(Deferred::default());

        let deferred = known.take_deferred();
        assert_eq!(
            (deferred.nodes, deferred.sync),
            (true, Some(Priority::Change))
        );

        let deferred = known.take_deferred();
        assert_eq!((deferred.nodes, deferred.sync), (false, None));
    }

    #[test]
    fn an_invalid_service_replaces_only_another_invalid_one() {
        let all = KnownServices::default();
        let remembered = |entry| {
            all.remember("ns/web", &entry)
                .entry()
                .resource_version()
                .to_owned()
        };
        assert_eq!(remembered(odd("1")), "1");
        assert_eq!(remembered(odd("2")), "2");
        assert_eq!(
            remembered(entry(&json!({"metadata": {"resourceVersion": "3"}}))),
            "3"
        );
        assert_eq!(remembered(odd("4")), "3");
        assert_eq!(
            remembered(entry(&json!({"metadata": {"resourceVersion": "5"}}))),
            "5"
        );
    }

    #[test]
    fn a_selector_is_shared_and_held_while_in_use() {
        let selectors = Selectors::default();
        let (edge, other) = (
            selectors.in_use(&selector("edge")),
            selectors.in_use(&selector("other")),
        );
        let (edge, other) = (edge.unwrap(), other.unwrap());
        assert!(Arc::ptr_eq(
            &edge,
            &selectors.in_use(&selector("edge")).unwrap()
        ));
        assert!(Arc::ptr_eq(
            &other,
            &selectors.in_use(&selector("other")).unwrap()
        ));
        assert_eq!(selectors.in_use(&Selector::default()), None);
        drop(other);
        selectors.in_use(&selector("edge")).unwrap();
        assert_eq!(selectors.0.lock().len(), 1);
    }

    #[test]
    fn only_selectors_in_use_distinguish_labels() {
        let selectors = Selectors::default();
        let edge = selectors.in_use(&selector("edge"));
        let (inside, outside) = (
            pairs(&[("pool", "edge"), ("a", "b")]),
            pairs(&[("pool", "core")]),
        );
        assert!(
            selectors.distinguish(&inside, &outside) && selectors.distinguish(&outside, &inside)
        );
        assert!(!selectors.distinguish(&inside, &pairs(&[("pool", "edge")])));
        assert!(!selectors.distinguish(&outside, &pairs(&[])));
        drop(edge);
        assert!(!selectors.distinguish(&inside, &outside));
    }
}
