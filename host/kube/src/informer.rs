//! Caches all objects of one kind: lists and watches them, and calls handlers for each change.
//!
//! ```text
//!  API server
//!      │  lists in pages of 100 objects, and a watch
//!      ▼
//!  wire.rs            requests; pages, and frames of the watch, in protobuf or JSON
//!      │  bytes of one page or one event
//!      ▼
//!  wire/protobuf.rs   the envelope; `Kind::PROTOBUF` decodes the object, if it has changed
//!  wire/json.rs       all of it; `Kind::Read` omits what cannot be decoded (read.rs)
//!      │  `Kind::Object`, one at a time
//!      ▼
//!  entry.rs           `Kind::split`: an `Entry`, the parts of the object that are kept
//!      │
//!      ▼
//!  follow.rs          when to list, watch, resume and back off
//!      │  put, delete, retain
//!      ▼
//!  Informer           the cache ──▶ handlers ──▶ queues of the controllers
//! ```
//!
//! Lists are consistent ("most recent"); watches use bookmarks; failures back off up to 30 s. A
//! deletion that the watch missed is found when the objects are listed again.

mod entry;
mod follow;
mod read;
mod wire;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use tokio::sync::watch;

pub use self::{
    entry::{Before, Entry, FromProtobuf, Identity, Kind},
    read::Read,
};

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
    /// Locked while an object is changed and the handlers are called, so that each handler sees
    /// every change once and in order.
    handlers: Mutex<Vec<Handler<K>>>,
    synced: watch::Sender<bool>,
    /// The API server has rejected a list.
    forbidden: watch::Sender<bool>,
}

impl<K: Kind> Default for Informer<K> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            handlers: Mutex::default(),
            synced: watch::Sender::new(false),
            forbidden: watch::Sender::new(false),
        }
    }
}

impl<K: Kind> Informer<K> {
    /// Returns the object with this key, see [`Entry::key`].
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<Entry<K>>> {
        self.objects.read().get(key).cloned()
    }

    /// Returns all objects, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Entry<K>>> {
        self.objects.read().values().cloned().collect()
    }

    /// Adds a handler. It is called with all present objects as added, and then with every change.
    /// Handlers are called one at a time and must not block.
    pub fn subscribe(&self, handler: impl Fn(Change<'_, K>) + Send + 'static) {
        // Locked first, so that no change falls between the list and the subscription.
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

    /// Waits until the API server has rejected a list because a permission is missing.
    pub async fn forbidden(&self) {
        // The sender exists as long as `self`.
        drop(
            self.forbidden
                .subscribe()
                .wait_for(|forbidden| *forbidden)
                .await,
        );
    }

    /// Returns true if the API server has rejected a list because a permission is missing.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        *self.forbidden.borrow()
    }

    /// Returns true once the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Marks the first list as complete.
    #[cfg(any(test, feature = "testing"))]
    pub fn complete(&self) {
        self.synced.send_replace(true);
    }

    /// Adds or replaces an object and calls the handlers.
    #[cfg(any(test, feature = "testing"))]
    pub fn apply(&self, object: K::Object) -> String {
        self.put(Entry::new(object))
    }

    /// Adds or replaces an entry and calls the handlers. Returns its key.
    fn put(&self, mut entry: Entry<K>) -> String {
        let key = entry.key();
        let handlers = self.handlers();
        let (old, new) = {
            let mut objects = self.write();
            let old = objects.get(&key).cloned();
            if let Some(old) = &old {
                K::share(&mut entry, old);
            }
            let new = Arc::new(entry);
            objects.insert(key.clone(), Arc::clone(&new));
            (old, new)
        };

        match &old {
            // A list has all objects, also those that have not changed.
            Some(old)
                if !new.resource_version().is_empty()
                    && old.resource_version() == new.resource_version() => {}
            Some(old) => handlers
                .iter()
                .for_each(|handler| handler(Change::Updated(old, &new))),
            None => handlers
                .iter()
                .for_each(|handler| handler(Change::Added(&new))),
        }
        key
    }

    /// Removes an object and calls the handlers.
    pub fn delete(&self, key: &str) {
        let handlers = self.handlers();
        let old = self.write().remove(key);
        if let Some(old) = &old {
            handlers
                .iter()
                .for_each(|handler| handler(Change::Deleted(old)));
        }
    }

    fn retain(&self, listed: &HashSet<String>) {
        let gone: Vec<String> = self
            .list()
            .iter()
            .map(|entry| entry.key())
            .filter(|key| !listed.contains(key))
            .collect();
        gone.iter().for_each(|key| self.delete(key));
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Handler<K>>> {
        self.handlers.lock()
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<Entry<K>>>> {
        self.objects.write()
    }
}

#[cfg(test)]
mod tests;
