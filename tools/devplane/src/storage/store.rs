//! All objects and their history: a pure state machine.
//!
//! One counter numbers all changes. Each shelf keeps its latest changes, so that a watch can
//! continue from any revision that the history contains, and a list can be continued at the
//! revision at which it started. Older revisions are *compacted*: requests for them fail, and
//! clients then list again.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use crate::resources::{
    object::{self, Object},
    resource::Shelf,
};

/// Changes kept for each shelf: enough to create and update every node of a large cluster once
/// while a client is disconnected.
const HISTORY: usize = 10_000;

/// Namespace, empty for objects without one, and name.
pub(crate) type Key = (String, String);

/// The objects of one shelf.
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

#[derive(Debug)]
struct Stack {
    objects: Objects,
    history: VecDeque<Change>,
    /// The history contains all changes after this revision.
    compacted: u64,
}

/// All objects and their history; see the module.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    shelves: BTreeMap<Shelf, Stack>,
    history_limit: usize,
    controllers: bool,
}

impl Store {
    /// Creates a store with `objects` at `revision`, without a history.
    pub(crate) fn new(
        revision: u64,
        objects: impl IntoIterator<Item = (Shelf, Arc<Object>)>,
    ) -> Self {
        let empty = |shelf| {
            (
                shelf,
                Stack {
                    objects: BTreeMap::new(),
                    history: VecDeque::new(),
                    compacted: revision,
                },
            )
        };

        let mut shelves: BTreeMap<_, _> = Shelf::ALL.into_iter().map(empty).collect();
        for (shelf, object) in objects {
            if let Some(stack) = shelves.get_mut(&shelf) {
                stack.objects.insert(key(&object.value), object);
            }
        }

        Self {
            revision,
            shelves,
            history_limit: HISTORY,
            controllers: true,
        }
    }

    /// Disables the simulation of Kubernetes' own controllers.
    pub(crate) fn without_controllers(mut self) -> Self {
        self.controllers = false;
        self
    }

    /// Returns whether Kubernetes' own controllers are simulated.
    pub(crate) fn has_controllers(&self) -> bool {
        self.controllers
    }

    /// Returns the number of the latest change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, shelf: Shelf, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.shelves
            .get(&shelf)?
            .objects
            .get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns all objects, or those of one namespace, in the order of their keys.
    pub(crate) fn objects(
        &self,
        shelf: Shelf,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Object>> {
        let start = (namespace.unwrap_or_default().to_owned(), String::new());
        self.shelves
            .get(&shelf)
            .into_iter()
            .flat_map(move |stack| stack.objects.range(start.clone()..))
            .take_while(move |((of, _), _)| namespace.is_none_or(|namespace| namespace == of))
            .map(|(_, object)| object)
    }

    /// Creates or replaces an object, which gets the next revision as its
    /// `metadata.resourceVersion`.
    pub(crate) fn put(&mut self, shelf: Shelf, value: Value) -> Arc<Object> {
        let object = self.stamped(value);
        if let Some(stack) = self.shelves.get_mut(&shelf) {
            let previous = stack
                .objects
                .insert(key(&object.value), Arc::clone(&object));
            stack.record(
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
        shelf: Shelf,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        let previous = self
            .shelves
            .get_mut(&shelf)?
            .objects
            .remove(&(namespace.to_owned(), name.to_owned()))?;

        let object = self.stamped(previous.value.clone());
        let change = Change {
            object: Arc::clone(&object),
            previous: Some(previous),
            deleted: true,
        };
        self.shelves
            .get_mut(&shelf)?
            .record(change, self.history_limit);

        Some(object)
    }

    /// Returns at most `limit` changes after `revision`, oldest first.
    pub(crate) fn changes_since(
        &self,
        shelf: Shelf,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Change>, Compacted> {
        let Some(stack) = self.shelves.get(&shelf) else {
            return Ok(Vec::new());
        };
        let start = stack.covered(revision)?;
        Ok(stack.history.range(start..).take(limit).cloned().collect())
    }

    /// Returns the objects at an earlier revision.
    pub(crate) fn objects_at(&self, shelf: Shelf, revision: u64) -> Result<Objects, Compacted> {
        let Some(stack) = self.shelves.get(&shelf) else {
            return Ok(Objects::new());
        };
        let start = stack.covered(revision)?;

        let mut objects = stack.objects.clone();
        // Later changes are undone, the latest first.
        for change in stack.history.range(start..).rev() {
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
        for stack in self.shelves.values_mut() {
            stack.history.clear();
            stack.compacted = self.revision;
        }
    }

    fn stamped(&mut self, mut value: Value) -> Arc<Object> {
        self.revision += 1;
        object::child(&mut value, "metadata")
            .insert("resourceVersion".into(), self.revision.to_string().into());
        Arc::new(Object::new(value, self.revision))
    }
}

impl Stack {
    fn record(&mut self, change: Change, limit: usize) {
        self.history.push_back(change);
        if self.history.len() > limit
            && let Some(oldest) = self.history.pop_front()
        {
            self.compacted = oldest.object.revision;
        }
    }

    /// Returns the index of the first change after `revision`.
    fn covered(&self, revision: u64) -> Result<usize, Compacted> {
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
    fn all_shelves_share_one_revision_counter() {
        let mut store = store(10);
        assert_eq!(
            store
                .put(Shelf::ConfigMaps, config_map("a", "b", 1))
                .revision,
            1
        );
        assert_eq!(
            store.put(Shelf::Leases, config_map("a", "b", 1)).revision,
            2
        );
        let removed = store.remove(Shelf::ConfigMaps, "a", "b").unwrap();
        assert_eq!(removed.value["metadata"]["resourceVersion"], "3");
        assert!(store.remove(Shelf::ConfigMaps, "a", "b").is_none());
        assert_eq!(store.revision(), 3);
    }

    #[test]
    fn a_namespace_is_listed_without_its_neighbors() {
        let mut store = store(10);
        for namespace in ["a", "ab", "b"] {
            store.put(Shelf::ConfigMaps, config_map(namespace, "x", 1));
        }
        let listed: Vec<_> = store
            .objects(Shelf::ConfigMaps, Some("ab"))
            .map(|object| object.revision)
            .collect();
        assert_eq!(listed, [2]);
        assert_eq!(store.objects(Shelf::ConfigMaps, None).count(), 3);
    }

    #[test]
    fn a_revision_before_the_history_is_compacted() {
        let mut store = store(2);
        for data in 0..4 {
            store.put(Shelf::ConfigMaps, config_map("a", "b", data));
        }
        assert_eq!(
            store.changes_since(Shelf::ConfigMaps, 1, 9).unwrap_err(),
            Compacted { oldest: 2 }
        );
        assert_eq!(
            store.changes_since(Shelf::ConfigMaps, 2, 9).unwrap().len(),
            2
        );
        assert_eq!(
            store.changes_since(Shelf::ConfigMaps, 2, 1).unwrap().len(),
            1
        );
        store.compact();
        assert!(store.changes_since(Shelf::ConfigMaps, 3, 9).is_err());
        assert!(
            store
                .changes_since(Shelf::ConfigMaps, 4, 9)
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
                    store.remove(Shelf::ConfigMaps, &namespace, &name);
                } else {
                    store.put(Shelf::ConfigMaps, config_map(&namespace, &name, data));
                }
                if states.len() as u64 <= store.revision() {
                    states.push(store.shelves[&Shelf::ConfigMaps].objects.clone());
                }
            }

            let values = |objects: &Objects| objects.values().map(|object| object.value.clone()).collect::<Vec<_>>();
            let from = from.min(store.revision());
            let oldest = store.shelves[&Shelf::ConfigMaps].compacted;

            match (store.objects_at(Shelf::ConfigMaps, from), store.changes_since(Shelf::ConfigMaps, from, usize::MAX)) {
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
