//! What this process knows about the services it has worked on, or has found served.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use kube::core::{Selector, SelectorExt};
use skydock_cloud::LoadBalancerStatus;

use super::{ServiceEntry, plan, selection::Fingerprint};
use crate::{patience::Patience, queue::Priority};

/// A service that this process works on.
pub(super) struct Known {
    /// Held while the cloud works on it.
    pub(super) busy: tokio::sync::Mutex<()>,
    progress: Mutex<Progress>,
    /// What came while it was busy, and is to be done after that.
    waiting: Mutex<Waiting>,
}

/// What this process knows of the nodes behind a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing: at most an earlier process has told the cloud some.
    Nothing,
    /// The cloud was last told these.
    Nodes(Fingerprint),
    /// The call that told the cloud of others failed.
    Failed,
}

#[derive(Clone)]
pub(super) struct Progress {
    /// As it was when it was last worked on.
    pub(super) entry: ServiceEntry,
    /// Its node selector, if it has one: nodes whose labels change are held against those in use.
    selector: Option<Arc<Selector>>,
    pub(super) told: Told,
    /// The cloud has a load balancer for it, as far as anybody knows.
    pub(super) served: bool,
    /// The cloud was asked to make or to delete, and has not said that it is done.
    pub(super) unfinished: bool,
    /// The service cannot be told to the cloud, or is not taken, as it is: it is not ensured again before it changes.
    pub(super) refused: bool,
    /// The status that was written last, if any: the cache may not show it yet.
    pub(super) written: Option<LoadBalancerStatus>,
    /// Reason of the event that told the beginning of the present work.
    pub(super) announced: Option<&'static str>,
    /// It was told during the present work that there are no nodes.
    pub(super) empty: bool,
    /// A failure was told, and its end was not yet.
    pub(super) troubled: bool,
    /// For how long the cloud has been at it.
    pub(super) patience: Patience,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    pub(super) sync: Option<Priority>,
    pub(super) nodes: bool,
}

impl Known {
    fn new(entry: ServiceEntry, selector: Option<Arc<Selector>>) -> Self {
        let progress = Progress {
            told: Told::Nothing,
            served: plan::served(&entry.object),
            entry,
            selector,
            unfinished: false,
            refused: false,
            written: None,
            announced: None,
            empty: false,
            troubled: false,
            patience: Patience::default(),
        };
        Self { busy: tokio::sync::Mutex::default(), progress: Mutex::new(progress), waiting: Mutex::default() }
    }

    pub(super) fn progress(&self) -> Progress {
        self.lock().clone()
    }

    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        change(&mut self.lock())
    }

    /// True if the beginning of this work has not been told yet.
    pub(super) fn announce(&self, reason: &'static str) -> bool {
        self.lock().announced.replace(reason) != Some(reason)
    }

    pub(super) fn finish(&self) {
        self.update(|progress| {
            progress.unfinished = false;
            progress.announced = None;
            progress.empty = false;
            progress.troubled = false;
            progress.patience = Patience::default();
        });
    }

    /// Has something done when the work of now is over.
    pub(super) fn wait(&self, what: Waiting) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.sync = waiting.sync.into_iter().chain(what.sync).min();
        waiting.nodes |= what.nodes;
    }

    /// What has come meanwhile.
    pub(super) fn waiting(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of them, by key. An entry goes when its load balancer does.
#[derive(Default)]
pub(super) struct KnownServices {
    services: Mutex<HashMap<String, Arc<Known>>>,
    /// Of all of them.
    pub(super) selectors: Selectors,
}

impl KnownServices {
    pub(super) fn get(&self, key: &str) -> Option<Arc<Known>> {
        self.lock().get(key).cloned()
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Known>)> {
        self.lock().iter().map(|(key, known)| (key.clone(), Arc::clone(known))).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Before the work, so that changes of nodes reach also a service whose first try failed.
    ///
    /// A version that cannot be told to a provider in full does not replace one that could: with that one's source ranges
    /// left out, an update of nodes would open the load balancer to anyone.
    pub(super) fn remember(&self, key: &str, entry: &ServiceEntry) -> Arc<Known> {
        let selector = self.selectors.in_use(&entry.view.node_selector);
        let mut all = self.lock();
        let new = || Arc::new(Known::new(Arc::clone(entry), selector.clone()));
        let known = all.entry(key.to_owned()).or_insert_with(new);
        known.update(|progress| {
            if entry.view.problem.is_none() || progress.entry.view.problem.is_some() {
                (progress.entry, progress.selector) = (Arc::clone(entry), selector);
            }
        });
        Arc::clone(known)
    }

    /// Puts what is left of a service that is gone under a key of its own, so that a new one of its name can have its place.
    pub(super) fn set_aside(&self, key: &str, uid: &str) -> String {
        let aside = format!("{key}@{uid}");
        let mut all = self.lock();
        if let Some(known) = all.remove(key) {
            all.insert(aside.clone(), known);
        }
        aside
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Known>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node selectors that are in use, each once: a change of a node's labels costs what they are, and not what services are.
#[derive(Default)]
pub(super) struct Selectors(Mutex<Vec<Weak<Selector>>>);

impl Selectors {
    /// In use for as long as the answer is held; `None` for one that takes all nodes.
    fn in_use(&self, selector: &Selector) -> Option<Arc<Selector>> {
        if selector.selects_all() {
            return None;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        if let Some(known) = all.iter().filter_map(Weak::upgrade).find(|known| **known == *selector) {
            return Some(known);
        }
        let new = Arc::new(selector.clone());
        all.push(Arc::downgrade(&new));
        Some(new)
    }

    /// True if one of them takes a node with the one labels and not with the other.
    pub(super) fn tell_apart(&self, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).any(|selector| selector.matches(old) != selector.matches(new))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        informer::Entry,
        testing::{pairs, service, with},
    };

    fn entry(change: &Value) -> ServiceEntry {
        Arc::new(Entry::new(with(&service("web"), change)))
    }

    /// A version that cannot be told to a provider.
    fn odd(version: &str) -> ServiceEntry {
        let odd = json!({"service.beta.kubernetes.io/load-balancer-source-ranges": "odd"});
        entry(&json!({"metadata": {"resourceVersion": version, "annotations": odd}}))
    }

    /// One of this pool.
    fn selector(pool: &str) -> Selector {
        pairs(&[("pool", pool)]).into_iter().collect()
    }

    #[test]
    fn what_comes_while_it_is_busy_is_kept_until_it_is_asked_for() {
        let known = Known::new(entry(&json!({})), None);
        known.wait(Waiting { nodes: true, sync: Some(Priority::Recheck) });
        known.wait(Waiting { nodes: false, sync: Some(Priority::Change) });
        known.wait(Waiting::default());
        let waiting = known.waiting();
        assert_eq!((waiting.nodes, waiting.sync), (true, Some(Priority::Change)));
        let waiting = known.waiting();
        assert_eq!((waiting.nodes, waiting.sync), (false, None));
    }

    #[test]
    fn a_version_that_cannot_be_told_replaces_only_one_that_could_not_either() {
        let all = KnownServices::default();
        let remembered = |entry| all.remember("ns/web", &entry).progress().entry.resource_version().to_owned();
        assert_eq!(remembered(odd("1")), "1");
        assert_eq!(remembered(odd("2")), "2");
        assert_eq!(remembered(entry(&json!({"metadata": {"resourceVersion": "3"}}))), "3");
        assert_eq!(remembered(odd("4")), "3");
        assert_eq!(remembered(entry(&json!({"metadata": {"resourceVersion": "5"}}))), "5");
    }

    #[test]
    fn a_selector_is_held_once_and_as_long_as_it_is_in_use() {
        let selectors = Selectors::default();
        let (edge, other) = (selectors.in_use(&selector("edge")), selectors.in_use(&selector("other")));
        let (edge, other) = (edge.unwrap(), other.unwrap());
        assert!(Arc::ptr_eq(&edge, &selectors.in_use(&selector("edge")).unwrap()));
        assert!(Arc::ptr_eq(&other, &selectors.in_use(&selector("other")).unwrap()));
        assert_eq!(selectors.in_use(&Selector::default()), None);
        drop(other);
        selectors.in_use(&selector("edge")).unwrap();
        assert_eq!(selectors.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn labels_are_told_apart_by_selectors_that_are_in_use_alone() {
        let selectors = Selectors::default();
        let edge = selectors.in_use(&selector("edge"));
        let (inside, outside) = (pairs(&[("pool", "edge"), ("a", "b")]), pairs(&[("pool", "core")]));
        assert!(selectors.tell_apart(&inside, &outside) && selectors.tell_apart(&outside, &inside));
        assert!(!selectors.tell_apart(&inside, &pairs(&[("pool", "edge")])));
        assert!(!selectors.tell_apart(&outside, &pairs(&[])));
        drop(edge);
        assert!(!selectors.tell_apart(&inside, &outside));
    }
}
