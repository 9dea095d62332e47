//! Objects of one kind as the API server has them: listed, watched and kept, with handlers that see each change.
//!
//! Listing is paginated and consistent ("most recent"); watches use bookmarks; failures back off up to 30 s. A deletion
//! that the watch missed is found when the objects are listed again.

mod kinds;
mod read;

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, DefaultBackoff, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::api::{Action, ApiError};

use self::kinds::filled;
pub use self::kinds::{KeptNode, ServiceView};
pub use self::read::Read;

/// Objects listed in one request. The answer is in memory three times while it is read, and a node has some 20 KiB: pages of
/// client-go's 500 would be what most of the memory of a start is for.
const PAGE: u32 = 100;
/// Before all is listed anew by a new watcher, which knows of no back-off yet: so long the first time, and twice as long each
/// time after that.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A kind of objects that can be watched.
pub trait Kind: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static {
    /// The object as it is read.
    type Read: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Into<Self> + Send + 'static;
    /// What is worked out once for each version of an object.
    type View: Debug + Send + Sync + 'static;
    /// What is kept of an object beside its view: of thousands of nodes, nothing should be in memory twice.
    type Kept: Debug + Send + Sync + 'static;

    /// Works out both.
    fn split(self) -> (Self::Kept, Self::View);

    /// Which object, and which version of it.
    fn identity(entry: &Entry<Self>) -> Identity<'_>;

    /// The object, as far as it was kept.
    #[must_use]
    fn whole(entry: &Entry<Self>) -> Self;
}

/// Which object, and which version of it; empty is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub resource_version: &'a str,
}

/// One version of an object.
#[derive(Debug)]
pub struct Entry<K: Kind> {
    /// What is not in its view.
    pub object: K::Kept,
    /// Its view.
    pub view: K::View,
}

impl<K: Kind> Entry<K> {
    /// Of this object.
    pub fn new(object: K) -> Self {
        let (object, view) = object.split();
        Self { object, view }
    }

    /// `NAME` or `NAMESPACE/NAME`.
    #[must_use]
    pub fn key(&self) -> String {
        match K::identity(self) {
            Identity { namespace: "", name, .. } => name.to_owned(),
            Identity { namespace, name, .. } => format!("{namespace}/{name}"),
        }
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        K::identity(self).name
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        K::identity(self).uid
    }

    /// `metadata.resourceVersion`.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        K::identity(self).resource_version
    }

    /// For an event on the object, whatever its version is by then.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        let Identity { namespace, name, uid, .. } = K::identity(self);
        ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: filled(namespace),
            name: filled(name),
            uid: filled(uid),
            ..ObjectReference::default()
        }
    }
}

/// What has become of an object.
#[derive(Debug)]
pub enum Change<'a, K: Kind> {
    /// It is new here.
    Added(&'a Arc<Entry<K>>),
    /// It has another version: old, new.
    Updated(&'a Arc<Entry<K>>, &'a Arc<Entry<K>>),
    /// It is gone: the last version seen.
    Deleted(&'a Arc<Entry<K>>),
}

type Handler<K> = Box<dyn Fn(Change<'_, K>) + Send>;

/// The objects of one kind.
pub struct Informer<K: Kind> {
    objects: RwLock<BTreeMap<String, Arc<Entry<K>>>>,
    /// Held while a change is made and told, so that every handler sees every change once and in order.
    handlers: Mutex<Vec<Handler<K>>>,
    synced: watch::Sender<bool>,
}

impl<K: Kind> Default for Informer<K> {
    fn default() -> Self {
        Self { objects: RwLock::default(), handlers: Mutex::default(), synced: watch::Sender::new(false) }
    }
}

impl<K: Kind> Informer<K> {
    /// The object of this key, see [`Entry::key`].
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Entry<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Entry<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds a handler. It sees all present objects as added, then every change. Handlers are called one at a time and must
    /// not wait.
    pub fn subscribe(&self, handler: impl Fn(Change<'_, K>) + Send + 'static) {
        let mut handlers = self.handlers();
        for entry in self.list() {
            handler(Change::Added(&entry));
        }
        handlers.push(Box::new(handler));
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        // The sender lives as long as self.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// True once the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Keeps the objects up to date, for ever.
    pub async fn run(&self, client: Client) {
        let mut pause = Duration::ZERO;
        loop {
            let begin = Instant::now();
            self.follow(client.clone()).await;
            pause = pause_after(pause, begin.elapsed());
            sleep(pause).await;
        }
    }

    /// Lists and watches until all must be listed anew.
    async fn follow(&self, client: Client) {
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = watcher(Api::<K::Read>::all(client), config).backoff(Capped::default()).boxed();
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(self.apply(object.into()));
                }
                Ok(Event::InitDone) => {
                    self.retain(&std::mem::take(&mut listed));
                    self.synced.send_replace(true);
                }
                Ok(Event::Apply(object)) => {
                    self.apply(object.into());
                }
                Ok(Event::Delete(object)) => self.delete(&Entry::<K>::new(object.into()).key()),
                // A refusal of the watch itself: kube asks again with the same version, to which the answer stays the same.
                Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if status.code == 410 => {
                    tracing::debug!(kind = %K::plural(&()), "listing again: {}", status.message);
                    return;
                }
                // The version is too old to go on from: normal after a pause, and all is listed again.
                Err(watcher::Error::WatchError(status)) if status.code == 410 => {
                    tracing::debug!(kind = %K::plural(&()), "listing again: {}", status.message);
                }
                Err(error) => tracing::warn!(kind = %K::plural(&()), "cannot watch: {}", explain::<K>(error)),
            }
        }
    }

    /// As when the first list is complete.
    #[cfg(test)]
    pub(crate) fn complete(&self) {
        self.synced.send_replace(true);
    }

    /// Puts an object in and tells the handlers.
    pub(crate) fn apply(&self, object: K) -> String {
        let new = Arc::new(Entry::new(object));
        let key = new.key();
        let handlers = self.handlers();
        let old = self.write().insert(key.clone(), Arc::clone(&new));
        match &old {
            Some(old) if !new.resource_version().is_empty() && old.resource_version() == new.resource_version() => {}
            Some(old) => handlers.iter().for_each(|handler| handler(Change::Updated(old, &new))),
            None => handlers.iter().for_each(|handler| handler(Change::Added(&new))),
        }
        key
    }

    /// Takes an object out and tells the handlers.
    pub(crate) fn delete(&self, key: &str) {
        let handlers = self.handlers();
        let old = self.write().remove(key);
        if let Some(old) = &old {
            handlers.iter().for_each(|handler| handler(Change::Deleted(old)));
        }
    }

    fn retain(&self, listed: &HashSet<String>) {
        let gone: Vec<String> =
            self.list().iter().map(|entry| entry.key()).filter(|key| !listed.contains(key)).collect();
        gone.iter().for_each(|key| self.delete(key));
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<K>>> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Arc<Entry<K>>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a watcher waits before it repeats what failed: as client-go's reflectors do, whose jitter makes a minute of 30 s, but
/// never longer than [`LONGEST_PAUSE`].
#[derive(Default)]
struct Capped(DefaultBackoff);

impl Iterator for Capped {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause.min(LONGEST_PAUSE))
    }
}

impl Backoff for Capped {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// How long to wait before all is listed anew, after the pause before and so long a time of watching.
fn pause_after(before: Duration, held: Duration) -> Duration {
    let was_well = held > 2 * LONGEST_PAUSE;
    if was_well { PAUSE } else { (2 * before).clamp(PAUSE, LONGEST_PAUSE) }
}

/// Watch errors in words; one of missing rights says which.
fn explain<K: Kind>(error: watcher::Error) -> String {
    let action = |verb| Action { verb, resource: K::plural(&()).to_string() };
    match error {
        watcher::Error::InitialListFailed(error) => ApiError::new(action("list"), error).to_string(),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            ApiError::new(action("watch"), error).to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
