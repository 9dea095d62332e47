//! All objects and their history: a pure state machine.
//!
//! One counter numbers all changes. Each collection keeps its latest changes, so that a watch can
//! continue from any revision that the history contains, and a list can be continued at the
//! revision at which it started. Older revisions are *compacted*: requests for them fail, and
//! clients then list again.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    registry::ServiceLister,
    resources::{
        object::{self, Object},
        resource::Storage,
    },
};

/// Changes kept for each collection: enough to create and update every node of a large cluster once
/// while a client is disconnected.
const HISTORY: usize = 10_000;

/// Namespace, empty for objects without one, and name.
pub(crate) type Key = (String, String);

/// The objects of one collection.
pub(crate) type Objects = BTreeMap<Key, Arc<Object>>;

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The object after the change; for a deletion, its last state with the revision of the
    /// deletion.
    pub(crate) object: Arc<Object>,
    /// The object before the change; none for a creation.
    pub(crate) previous: Option<Arc<Object>>,
    pub(crate) deleted: bool,
}

/// A revision that the history does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the history begins after revision {oldest}")]
pub(crate) struct Compacted {
    pub(crate) oldest: u64,
}

/// Objects that are stored together, and their history.
#[derive(Debug)]
struct Collection {
    objects: Objects,
    history: VecDeque<Change>,
    /// The history contains all changes after this revision.
    compacted: u64,
}

/// All objects and their history; see the module.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    collections: BTreeMap<Storage, Collection>,
    history_limit: usize,
    controllers: bool,
}

impl Store {
    /// Creates a store with `objects` at `revision`, without a history.
    pub(crate) fn new(
        revision: u64,
        objects: impl IntoIterator<Item = (Storage, Arc<Object>)>,
    ) -> Self {
        let empty = |storage| {
            (
                storage,
                Collection {
                    objects: BTreeMap::new(),
                    history: VecDeque::new(),
                    compacted: revision,
                },
            )
        };

        let mut collections: BTreeMap<_, _> = Storage::ALL.into_iter().map(empty).collect();
        for (storage, object) in objects {
            if let Some(collection) = collections.get_mut(&storage) {
                collection.objects.insert(key(&object.value), object);
            }
        }

        Self {
            revision,
            collections,
            history_limit: HISTORY,
            controllers: true,
        }
    }

    /// Sets whether Kubernetes' own controllers are simulated. They are by default.
    pub(crate) fn with_controllers(self, controllers: bool) -> Self {
        Self {
            controllers,
            ..self
        }
    }

    /// Returns whether Kubernetes' own controllers are simulated.
    pub(crate) fn has_controllers(&self) -> bool {
        self.controllers
    }

    /// Returns the number of the latest change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(
        &self,
        storage: Storage,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Object>> {
        self.collections
            .get(&storage)?
            .objects
            .get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns all objects, or those of one namespace, in the order of their keys.
    pub(crate) fn objects(
        &self,
        storage: Storage,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Object>> {
        let start = (namespace.unwrap_or_default().to_owned(), String::new());
        self.collections
            .get(&storage)
            .into_iter()
            .flat_map(move |collection| collection.objects.range(start.clone()..))
            .take_while(move |((of, _), _)| namespace.is_none_or(|namespace| namespace == of))
            .map(|(_, object)| object)
    }

    /// Creates or replaces an object, which gets the next revision as its
    /// `metadata.resourceVersion`.
    pub(crate) fn put(&mut self, storage: Storage, value: Value) -> Arc<Object> {
        let object = self.with_next_revision(value);
        if let Some(collection) = self.collections.get_mut(&storage) {
            let previous = collection
                .objects
                .insert(key(&object.value), Arc::clone(&object));
            collection.record(
                Change {
                    object: Arc::clone(&object),
                    previous,
                    deleted: false,
                },
                self.history_limit,
            );
        }

        object
    }

    /// Removes an object and returns its last state. The deletion is a change with its own
    /// revision.
    pub(crate) fn remove(
        &mut self,
        storage: Storage,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        let previous = self
            .collections
            .get_mut(&storage)?
            .objects
            .remove(&(namespace.to_owned(), name.to_owned()))?;

        let object = self.with_next_revision(previous.value.clone());
        let change = Change {
            object: Arc::clone(&object),
            previous: Some(previous),
            deleted: true,
        };
        self.collections
            .get_mut(&storage)?
            .record(change, self.history_limit);

        Some(object)
    }

    /// Returns at most `limit` changes after `revision`, oldest first.
    pub(crate) fn changes_since(
        &self,
        storage: Storage,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Change>, Compacted> {
        let Some(collection) = self.collections.get(&storage) else {
            return Ok(Vec::new());
        };
        let start = collection.index_after(revision)?;
        Ok(collection
            .history
            .range(start..)
            .take(limit)
            .cloned()
            .collect())
    }

    /// Returns the objects at an earlier revision.
    pub(crate) fn objects_at(&self, storage: Storage, revision: u64) -> Result<Objects, Compacted> {
        let Some(collection) = self.collections.get(&storage) else {
            return Ok(Objects::new());
        };
        let start = collection.index_after(revision)?;

        let mut objects = collection.objects.clone();
        // Later changes are undone, the latest first.
        for change in collection.history.range(start..).rev() {
            let key = key(&change.object.value);
            match &change.previous {
                Some(previous) => objects.insert(key, Arc::clone(previous)),
                None => objects.remove(&key),
            };
        }

        Ok(objects)
    }

    /// Deletes the history: all earlier revisions are compacted.
    pub(crate) fn compact(&mut self) {
        for collection in self.collections.values_mut() {
            collection.history.clear();
            collection.compacted = self.revision;
        }
    }

    fn with_next_revision(&mut self, mut value: Value) -> Arc<Object> {
        self.revision += 1;
        object::child(&mut value, "metadata")
            .insert("resourceVersion".into(), self.revision.to_string().into());
        Arc::new(Object::new(value, self.revision))
    }
}

impl ServiceLister for Store {
    fn services(&self) -> Vec<&Value> {
        self.objects(Storage::Services, None)
            .map(|service| &service.value)
            .collect()
    }
}

impl Collection {
    fn record(&mut self, change: Change, limit: usize) {
        self.history.push_back(change);
        if self.history.len() > limit
            && let Some(oldest) = self.history.pop_front()
        {
            self.compacted = oldest.object.revision;
        }
    }

    /// Returns the index of the first change after `revision`.
    fn index_after(&self, revision: u64) -> Result<usize, Compacted> {
        if revision < self.compacted {
            return Err(Compacted {
                oldest: self.compacted,
            });
        }
        Ok(self
            .history
            .partition_point(|change| change.object.revision <= revision))
    }
}

fn key(value: &Value) -> Key {
    (
        object::namespace(value).to_owned(),
        object::name(value).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn store(history_limit: usize) -> Store {
        Store {
            history_limit,
            ..Store::new(0, [])
        }
    }

    fn config_map(namespace: &str, name: &str, data: u8) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}, "data": data})
    }

    #[test]
    fn all_collections_share_one_revision_counter() {
        let mut store = store(10);
        assert_eq!(
            store
                .put(Storage::ConfigMaps, config_map("a", "b", 1))
                .revision,
            1
        );
        assert_eq!(
            store.put(Storage::Leases, config_map("a", "b", 1)).revision,
            2
        );
        let removed = store.remove(Storage::ConfigMaps, "a", "b").unwrap();
        assert_eq!(removed.value["metadata"]["resourceVersion"], "3");
        assert!(store.remove(Storage::ConfigMaps, "a", "b").is_none());
        assert_eq!(store.revision(), 3);
    }

    #[test]
    fn a_namespace_is_listed_without_its_neighbors() {
        let mut store = store(10);
        for namespace in ["a", "ab", "b"] {
            store.put(Storage::ConfigMaps, config_map(namespace, "x", 1));
        }
        let listed: Vec<_> = store
            .objects(Storage::ConfigMaps, Some("ab"))
            .map(|object| object.revision)
            .collect();
        assert_eq!(listed, [2]);
        assert_eq!(store.objects(Storage::ConfigMaps, None).count(), 3);
    }

    #[test]
    fn a_revision_before_the_history_is_compacted() {
        let mut store = store(2);
        for data in 0..4 {
            store.put(Storage::ConfigMaps, config_map("a", "b", data));
        }
        assert_eq!(
            store.changes_since(Storage::ConfigMaps, 1, 9).unwrap_err(),
            Compacted { oldest: 2 }
        );
        assert_eq!(
            store
                .changes_since(Storage::ConfigMaps, 2, 9)
                .unwrap()
                .len(),
            2
        );
        assert_eq!(
            store
                .changes_since(Storage::ConfigMaps, 2, 1)
                .unwrap()
                .len(),
            1
        );
        store.compact();
        assert!(store.changes_since(Storage::ConfigMaps, 3, 9).is_err());
        assert!(
            store
                .changes_since(Storage::ConfigMaps, 4, 9)
                .unwrap()
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn a_watch_from_any_revision_replays_to_the_state_of_a_list(
            steps in prop::collection::vec((0..3u8, 0..4u8, any::<u8>()), 1..60),
            from in 0..60u64,
        ) {
            let mut store = store(30);
            let mut states = vec![Objects::new()];

            for (namespace, name, data) in steps {
                let (namespace, name) = (namespace.to_string(), name.to_string());
                if data % 3 == 0 {
                    store.remove(Storage::ConfigMaps, &namespace, &name);
                } else {
                    store.put(Storage::ConfigMaps, config_map(&namespace, &name, data));
                }
                if states.len() as u64 <= store.revision() {
                    states.push(store.collections[&Storage::ConfigMaps].objects.clone());
                }
            }

            let values = |objects: &Objects| objects.values().map(|object| object.value.clone()).collect::<Vec<_>>();
            let from = from.min(store.revision());
            let oldest = store.collections[&Storage::ConfigMaps].compacted;

            match (store.objects_at(Storage::ConfigMaps, from), store.changes_since(Storage::ConfigMaps, from, usize::MAX)) {
                (Ok(mut objects), Ok(changes)) => {
                    prop_assert_eq!(values(&objects), values(&states[usize::try_from(from).unwrap()]));
                    for change in changes {
                        let key = key(&change.object.value);
                        prop_assert_eq!(objects.contains_key(&key), change.previous.is_some());
                        if change.deleted { objects.remove(&key) } else { objects.insert(key, change.object) };
                    }
                    prop_assert_eq!(values(&objects), values(states.last().unwrap()));
                }
                (Err(error), Err(_)) => prop_assert!(from < oldest && error.oldest == oldest),
                _ => prop_assert!(false, "a list and a watch disagree on what is compacted"),
            }
        }
    }
}
