//! Caches all objects of one kind: lists and watches them, and calls handlers for each change.
//!
//! Lists are paginated and consistent ("most recent"); watches use bookmarks; failures back off up to 30 s. A deletion that the
//! watch missed is found when the objects are listed again.

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

pub use self::read::Read;

/// Objects per page of a list. While a page is decoded, it is in memory three times, and a node has some 20 KiB: with the 500
/// of client-go, pages would take most of the memory at startup.
const PAGE: u32 = 100;
/// First delay before a new watcher, which has no back-off of its own yet, lists all objects again; it doubles each time.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A kind of object that can be watched, and what is kept of each object.
pub trait Kind: Debug + Sized + 'static {
    /// The object.
    type Object: Resource<DynamicType = ()>;
    /// The object as it is read from the API server.
    type Read: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Into<Self::Object> + Send + 'static;
    /// Data that is computed once for each version of an object.
    type View: Debug + Send + Sync + 'static;
    /// The part of an object that is kept in addition to its view: nothing of thousands of nodes should be in memory twice.
    type Kept: Debug + Send + Sync + 'static;

    /// Splits an object into the kept part and the view.
    fn split(object: Self::Object) -> (Self::Kept, Self::View);

    /// Returns the identity and version of an object.
    fn identity(entry: &Entry<Self>) -> Identity<'_>;
}

/// Identity and version of an object; missing values are empty.
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
    /// The part of the object that is not in the view.
    pub object: K::Kept,
    /// Its view.
    pub view: K::View,
}

impl<K: Kind> Entry<K> {
    /// Creates an entry for this object.
    pub fn new(object: K::Object) -> Self {
        let (object, view) = K::split(object);
        Self { object, view }
    }

    /// Returns `NAME` or `NAMESPACE/NAME`.
    #[must_use]
    pub fn key(&self) -> String {
        match K::identity(self) {
            Identity { namespace: "", name, .. } => name.to_owned(),
            Identity { namespace, name, .. } => format!("{namespace}/{name}"),
        }
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        K::identity(self).name
    }

    /// Returns `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        K::identity(self).uid
    }

    /// Returns `metadata.resourceVersion`.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        K::identity(self).resource_version
    }

    /// Returns a reference for events on the object, without a version.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        let Identity { namespace, name, uid, .. } = K::identity(self);
        ObjectReference {
            api_version: Some(K::Object::api_version(&()).into_owned()),
            kind: Some(K::Object::kind(&()).into_owned()),
            namespace: filled(namespace),
            name: filled(name),
            uid: filled(uid),
            ..ObjectReference::default()
        }
    }
}

/// A change of an object.
#[derive(Debug)]
pub enum Change<'a, K: Kind> {
    /// The object was added.
    Added(&'a Arc<Entry<K>>),
    /// The object has a different version: old, new.
    Updated(&'a Arc<Entry<K>>, &'a Arc<Entry<K>>),
    /// The object was deleted: its last known version.
    Deleted(&'a Arc<Entry<K>>),
}

type Handler<K> = Box<dyn Fn(Change<'_, K>) + Send>;

/// A cache of all objects of one kind.
pub struct Informer<K: Kind> {
    objects: RwLock<BTreeMap<String, Arc<Entry<K>>>>,
    /// Locked while an object is changed and the handlers are called, so that each handler sees every change once and in order.
    handlers: Mutex<Vec<Handler<K>>>,
    synced: watch::Sender<bool>,
}

impl<K: Kind> Default for Informer<K> {
    fn default() -> Self {
        Self { objects: RwLock::default(), handlers: Mutex::default(), synced: watch::Sender::new(false) }
    }
}

impl<K: Kind> Informer<K> {
    /// Returns the object with this key, see [`Entry::key`].
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Entry<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Returns all objects, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Entry<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds a handler. It is called with all present objects as added, and then with every change. Handlers are called one at a
    /// time and must not block.
    pub fn subscribe(&self, handler: impl Fn(Change<'_, K>) + Send + 'static) {
        let mut handlers = self.handlers();
        for entry in self.list() {
            handler(Change::Added(&entry));
        }
        handlers.push(Box::new(handler));
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        // The sender exists as long as `self`.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Returns true once the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Keeps the cache up to date; never returns.
    pub async fn run(&self, client: Client) {
        let mut pause = Duration::ZERO;
        loop {
            let begin = Instant::now();
            self.follow(client.clone()).await;
            pause = pause_after(pause, begin.elapsed());
            sleep(pause).await;
        }
    }

    /// Lists and watches until a new watcher is needed.
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
                // The API server rejected the start of the watch: kube would retry with the same version, which would be
                // rejected again.
                Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if status.code == 410 => {
                    tracing::debug!(kind = %K::Object::plural(&()), "relisting: {}", status.message);
                    return;
                }
                // The version is too old to continue from, which is normal after a pause. All objects are listed again.
                Err(watcher::Error::WatchError(status)) if status.code == 410 => {
                    tracing::debug!(kind = %K::Object::plural(&()), "relisting: {}", status.message);
                }
                Err(error) => tracing::warn!(kind = %K::Object::plural(&()), "cannot watch: {}", explain::<K>(error)),
            }
        }
    }

    /// Marks the first list as complete.
    #[cfg(any(test, feature = "testing"))]
    pub fn complete(&self) {
        self.synced.send_replace(true);
    }

    /// Adds or replaces an object and calls the handlers.
    pub fn apply(&self, object: K::Object) -> String {
        let new = Arc::new(Entry::<K>::new(object));
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

    /// Removes an object and calls the handlers.
    pub fn delete(&self, key: &str) {
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

/// Back-off of a watcher: as in client-go's reflectors, whose jitter can turn 30 s into a minute, but at most
/// [`LONGEST_PAUSE`].
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

/// Returns the delay before all objects are listed again, from the previous delay and the time for which the last watcher ran.
fn pause_after(before: Duration, held: Duration) -> Duration {
    let was_well = held > 2 * LONGEST_PAUSE;
    if was_well { PAUSE } else { (2 * before).clamp(PAUSE, LONGEST_PAUSE) }
}

/// Describes a watch error; if a permission is missing, says which one.
fn explain<K: Kind>(error: watcher::Error) -> String {
    let action = |verb| Action { verb, resource: K::Object::plural(&()).to_string() };
    match error {
        watcher::Error::InitialListFailed(error) => ApiError::new(action("list"), error).to_string(),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            ApiError::new(action("watch"), error).to_string()
        }
        other => other.to_string(),
    }
}

/// Returns `None` for an empty string, as the API does.
fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
