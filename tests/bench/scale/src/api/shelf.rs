//! The objects of one kind, and their history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The number of stored changes: those of some minutes, as in a real API server.
const HISTORY: usize = 300_000;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    Added,
    Modified,
    Deleted,
}

impl Happened {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change with its revision.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub(crate) revision: u64,
    pub(crate) happened: Happened,
    pub(crate) object: Arc<T>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self {
            object: Arc::clone(&self.object),
            ..*self
        }
    }
}

/// Objects by name.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    objects: BTreeMap<String, Arc<T>>,
    history: VecDeque<Change<T>>,
    /// The history has all changes after this revision.
    forgotten: u64,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            forgotten: 0,
        }
    }
}

impl<T> Shelf<T> {
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<T>> {
        self.objects.get(name).cloned()
    }

    /// Stores an object at this revision. Returns it and the previous one.
    pub(crate) fn put(&mut self, revision: u64, name: &str, object: T) -> (Arc<T>, Option<Arc<T>>) {
        let object = Arc::new(object);
        let before = self.objects.insert(name.to_owned(), Arc::clone(&object));
        let happened = if before.is_some() {
            Happened::Modified
        } else {
            Happened::Added
        };
        self.remember(Change {
            revision,
            happened,
            object: Arc::clone(&object),
        });
        (object, before)
    }

    /// Removes an object. `last` is its final state, with this revision.
    pub(crate) fn remove(&mut self, revision: u64, name: &str, last: T) {
        self.objects.remove(name);
        self.remember(Change {
            revision,
            happened: Happened::Deleted,
            object: Arc::new(last),
        });
    }

    /// Returns a page with the objects after this name, and the name after which the next page
    /// starts.
    pub(crate) fn page(&self, after: &str, limit: usize) -> (Vec<Arc<T>>, Option<String>) {
        let mut rest = self
            .objects
            .range::<str, _>((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let last = page
            .last()
            .filter(|_| rest.next().is_some())
            .map(|(name, _)| (*name).clone());
        (
            page.into_iter()
                .map(|(_, object)| Arc::clone(object))
                .collect(),
            last,
        )
    }

    /// Returns the first changes after a revision, or `None` if the history does not have them.
    pub(crate) fn since(&self, revision: u64, limit: usize) -> Option<Vec<Change<T>>> {
        if revision < self.forgotten {
            return None;
        }
        let start = self
            .history
            .partition_point(|change| change.revision <= revision);
        Some(self.history.range(start..).take(limit).cloned().collect())
    }

    /// Returns the number of changes after a revision.
    pub(crate) fn behind(&self, revision: u64) -> usize {
        self.history.len()
            - self
                .history
                .partition_point(|change| change.revision <= revision)
    }

    fn remember(&mut self, change: Change<T>) {
        self.history.push_back(change);
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf() -> Shelf<u32> {
        let mut shelf = Shelf::default();
        for (revision, name) in (1..).zip(["b", "a", "c", "a"]) {
            shelf.put(revision, name, 0);
        }
        shelf
    }

    #[test]
    fn pages_are_ordered_by_name_and_the_last_has_no_token() {
        let shelf = shelf();
        let (first, next) = shelf.page("", 2);
        assert_eq!((first.len(), next.as_deref()), (2, Some("b")));
        let (second, next) = shelf.page("b", 2);
        assert_eq!((second.len(), next), (1, None));
        assert_eq!(shelf.page("", 3).1, None);
    }

    #[test]
    fn a_watch_continues_from_its_revision() {
        let mut shelf = shelf();
        shelf.remove(5, "a", 1);
        let happened: Vec<_> = shelf
            .since(2, 9)
            .unwrap()
            .iter()
            .map(|change| change.happened)
            .collect();
        assert_eq!(
            happened,
            [Happened::Added, Happened::Modified, Happened::Deleted]
        );
        assert_eq!(
            (
                shelf.since(2, 1).unwrap().len(),
                shelf.behind(2),
                shelf.len()
            ),
            (1, 3, 2)
        );
        assert!(shelf.get("a").is_none());
    }

    #[test]
    fn a_watch_from_a_forgotten_revision_fails() {
        let mut shelf = Shelf::default();
        for revision in 1..=u64::try_from(HISTORY).unwrap() + 1 {
            shelf.put(revision, "a", 0);
        }
        assert!(shelf.since(0, 1).is_none());
        assert_eq!(shelf.since(1, 1).unwrap()[0].revision, 2);
    }
}
