//! What is ready to be handed out.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use super::Priority;

/// Items by priority, first come first served. Each is there once.
#[derive(Debug)]
pub(super) struct Ready<K> {
    /// By priority and turn.
    items: BTreeMap<(Priority, u64), K>,
    turns: HashMap<K, (Priority, u64)>,
    next: u64,
}

impl<K> Default for Ready<K> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), turns: HashMap::new(), next: 0 }
    }
}

impl<K: Clone + Eq + Hash> Ready<K> {
    /// Adds an item behind all of its priority; one that is there already changes its place.
    pub(super) fn push(&mut self, key: K, priority: Priority) {
        let turn = (priority, self.next);
        self.next += 1;
        if let Some(before) = self.turns.insert(key.clone(), turn) {
            self.items.remove(&before);
        }
        self.items.insert(turn, key);
    }

    /// Takes the first item of a priority.
    pub(super) fn pop(&mut self, priority: Priority) -> Option<K> {
        let turn = self.first(priority)?;
        let key = self.items.remove(&turn)?;
        self.turns.remove(&key);
        Some(key)
    }

    pub(super) fn is_empty(&self, priority: Priority) -> bool {
        self.first(priority).is_none()
    }

    fn first(&self, priority: Priority) -> Option<(Priority, u64)> {
        self.items.range((priority, 0)..=(priority, u64::MAX)).next().map(|(turn, _)| *turn)
    }
}
