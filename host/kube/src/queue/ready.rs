//! Items that can be handed out, by priority.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use super::Priority;

/// Items by priority, in the order of their addition, without duplicates.
#[derive(Debug)]
pub(super) struct Ready<K> {
    /// Items by priority and position.
    items: BTreeMap<(Priority, i64), K>,
    positions: HashMap<K, (Priority, i64)>,
    /// Number of positions assigned at the back.
    behind: i64,
    /// Number of positions assigned at the front.
    ahead: i64,
}

impl<K> Default for Ready<K> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            positions: HashMap::new(),
            behind: 0,
            ahead: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Ready<K> {
    /// Adds an item behind all items of its priority; an existing item is moved.
    pub(super) fn push(&mut self, key: K, priority: Priority) {
        self.behind += 1;
        self.place(key, (priority, self.behind));
    }

    /// Like [`Ready::push`], but ahead of all items of its priority.
    pub(super) fn push_ahead(&mut self, key: K, priority: Priority) {
        self.ahead += 1;
        self.place(key, (priority, -self.ahead));
    }

    fn place(&mut self, key: K, position: (Priority, i64)) {
        if let Some(before) = self.positions.insert(key.clone(), position) {
            self.items.remove(&before);
        }
        self.items.insert(position, key);
    }

    /// Removes and returns the first item of a priority.
    pub(super) fn pop(&mut self, priority: Priority) -> Option<K> {
        let position = self.first(priority)?;
        let key = self.items.remove(&position)?;
        self.positions.remove(&key);
        Some(key)
    }

    /// Returns the number of items of all priorities.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.positions.contains_key(key)
    }

    pub(super) fn is_empty(&self, priority: Priority) -> bool {
        self.first(priority).is_none()
    }

    fn first(&self, priority: Priority) -> Option<(Priority, i64)> {
        self.items
            .range((priority, i64::MIN)..=(priority, i64::MAX))
            .next()
            .map(|(position, _)| *position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_item_pushed_ahead_last_comes_first() {
        let mut ready = Ready::default();
        ready.push(1, Priority::Recheck);
        ready.push(2, Priority::Recheck);
        ready.push_ahead(3, Priority::Recheck);
        ready.push_ahead(4, Priority::Recheck);
        ready.push_ahead(2, Priority::Recheck);
        let order: Vec<_> = std::iter::from_fn(|| ready.pop(Priority::Recheck)).collect();
        assert_eq!(order, [2, 4, 3, 1]);
        assert!(ready.is_empty(Priority::Recheck) && !ready.contains(&1));
    }
}
