//! What this process knows about the services it has worked on, or has found served.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{ServiceEntry, selection::NodeIds};

/// A service that this process works on.
pub(super) struct Known {
    /// Held while the cloud works on it.
    pub(super) busy: tokio::sync::Mutex<()>,
    progress: Mutex<Progress>,
}

#[derive(Clone)]
pub(super) struct Progress {
    /// As it was when it was last worked on.
    pub(super) entry: ServiceEntry,
    /// Nodes the cloud was last told; `None` before the first time.
    pub(super) nodes: Option<NodeIds>,
    /// This process has asked the cloud to make it. What an earlier one has done, nobody here knows.
    pub(super) asked: bool,
    /// The cloud was asked to make or to delete, and has not said that it is done.
    pub(super) unfinished: bool,
    /// The service cannot be told to the cloud, or is not taken, as it is: it is not ensured again before it changes.
    pub(super) refused: bool,
    /// Reason of the event that told the beginning of the present work.
    pub(super) announced: Option<&'static str>,
    /// A failure was told, and its end was not yet.
    pub(super) troubled: bool,
}

impl Known {
    fn new(entry: ServiceEntry, nodes: Option<NodeIds>) -> Self {
        let progress = Progress {
            entry,
            nodes,
            asked: false,
            unfinished: false,
            refused: false,
            announced: None,
            troubled: false,
        };
        Self { busy: tokio::sync::Mutex::default(), progress: Mutex::new(progress) }
    }

    pub(super) fn progress(&self) -> Progress {
        self.lock().clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
    }

    /// True if the beginning of this work has not been told yet.
    pub(super) fn announce(&self, reason: &'static str) -> bool {
        self.lock().announced.replace(reason) != Some(reason)
    }

    pub(super) fn finish(&self) {
        self.update(|progress| {
            progress.unfinished = false;
            progress.announced = None;
            progress.troubled = false;
        });
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of them, by key. An entry goes when its load balancer does.
#[derive(Default)]
pub(super) struct KnownServices(Mutex<HashMap<String, Arc<Known>>>);

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

    pub(super) fn any(&self, test: impl Fn(&ServiceEntry) -> bool) -> bool {
        self.lock().values().any(|known| test(&known.lock().entry))
    }

    pub(super) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Before the work, so that changes of nodes reach also a service whose first try failed.
    ///
    /// A version that cannot be told to a provider in full does not replace one that could: with that one's source ranges
    /// left out, an update of nodes would open the load balancer to anyone.
    pub(super) fn remember(&self, key: &str, entry: &ServiceEntry) -> Arc<Known> {
        let mut all = self.lock();
        let known = all.entry(key.to_owned()).or_insert_with(|| Arc::new(Known::new(Arc::clone(entry), None)));
        known.update(|progress| {
            if entry.view.problem.is_none() || progress.entry.view.problem.is_some() {
                progress.entry = Arc::clone(entry);
            }
        });
        Arc::clone(known)
    }

    /// A service that an earlier process has served. It is taken to have told the cloud the nodes of now, so that the next
    /// change of nodes reaches the load balancer also if the service's own turn has not come yet.
    pub(super) fn adopt(&self, entry: &ServiceEntry, nodes: impl FnOnce() -> NodeIds) {
        let mut all = self.lock();
        all.entry(entry.key()).or_insert_with(|| Arc::new(Known::new(Arc::clone(entry), Some(nodes()))));
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
