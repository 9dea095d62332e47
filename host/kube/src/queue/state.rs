//! The items of a queue, and what it knows of each.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

use super::{Bucket, Limiter, Pace, Priority, pace::Slots, ready::Ready};

/// Number of batches of changes that are handed out while a re-check waits, before it is the
/// re-check's turn. Items that keep failing are changes; without this, they could occupy all
/// workers and keep re-checks waiting forever.
const PRECEDENCE: u32 = 20;

pub(super) struct State<K> {
    /// Items that can be handed out.
    pub(super) ready: Ready<K>,
    /// Number of batches of changes handed out while a re-check waited.
    pub(super) preceded: u32,
    /// Items that are ready, or become ready when their current processing ends.
    pub(super) dirty: HashMap<K, Dirty>,
    /// Items that are being processed.
    pub(super) processing: HashMap<K, Processing>,
    /// Items to be added later; the number distinguishes items with the same time.
    pub(super) delayed: BTreeMap<(Instant, u64), Delayed<K>>,
    pub(super) delayed_at: HashMap<K, (Instant, u64)>,
    pub(super) sequence: u64,
    pub(super) failures: HashMap<K, u32>,
    pub(super) bucket: Option<Bucket>,
    /// `None` means that re-checks are handed out as soon as no change waits.
    pub(super) pace: Option<Pace>,
    pub(super) slots: Slots,
    /// Until this time, only full batches are handed out.
    pub(super) held: Option<Instant>,
    pub(super) closed: bool,
}

pub(super) struct Dirty {
    pub(super) priority: Priority,
    pub(super) added: Instant,
}

pub(super) struct Processing {
    pub(super) priority: Priority,
    pub(super) since: Instant,
}

pub(super) struct Delayed<K> {
    pub(super) key: K,
    pub(super) priority: Priority,
    pub(super) slot: SlotState,
}

/// State of a delayed item with regard to the pace of re-checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// It gets a slot when the delay is over.
    Needed,
    /// The delay is that of its slot.
    Assigned,
    /// It has had its slot, failed, and is retried.
    Used,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(limiter: &Limiter) -> Self {
        Self {
            ready: Ready::default(),
            preceded: 0,
            dirty: HashMap::new(),
            processing: HashMap::new(),
            delayed: BTreeMap::new(),
            delayed_at: HashMap::new(),
            sequence: 0,
            failures: HashMap::new(),
            bucket: limiter
                .bucket
                .map(|rate| Bucket::full(rate, Instant::now())),
            pace: None,
            slots: Slots::default(),
            held: None,
            closed: false,
        }
    }

    /// Returns the priority of the next batch.
    pub(super) fn next_priority(&mut self) -> Priority {
        let waits = !self.ready.is_empty(Priority::Recheck);

        let overdue = self.preceded >= PRECEDENCE || self.ready.is_empty(Priority::Change);
        if overdue && waits && self.may_take(Priority::Recheck) {
            self.preceded = 0;
            return Priority::Recheck;
        }

        self.preceded = if waits {
            self.preceded.saturating_add(1)
        } else {
            0
        };
        Priority::Change
    }

    pub(super) fn may_take(&self, priority: Priority) -> bool {
        priority == Priority::Change
            || self
                .pace
                .is_none_or(|pace| self.rechecks_in_flight() < pace.in_flight)
    }

    /// Counts a failure, and returns how many there were before.
    pub(super) fn failed(&mut self, key: &K) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures - 1
    }

    /// Takes a token from the bucket of all items, and returns how long to wait for it.
    pub(super) fn reserve(&mut self) -> Duration {
        self.bucket
            .as_mut()
            .map_or(Duration::ZERO, |bucket| bucket.reserve(Instant::now()))
    }

    fn rechecks_in_flight(&self) -> usize {
        self.processing
            .values()
            .filter(|it| it.priority == Priority::Recheck)
            .count()
    }

    /// Returns the slot of a re-check; `None` if it may be added now.
    pub(super) fn slot(&mut self, key: &K, priority: Priority) -> Option<Instant> {
        // An item that waits already needs no slot.
        let pace = self
            .pace
            .filter(|_| priority == Priority::Recheck && !self.dirty.contains_key(key))?;
        let now = Instant::now();
        Some(self.slots.reserve(&pace, now)).filter(|at| *at > now)
    }

    pub(super) fn has_slot(&self, key: &K) -> bool {
        self.delayed_at
            .get(key)
            .and_then(|at| self.delayed.get(at))
            .is_some_and(|delayed| delayed.slot != SlotState::Needed)
    }

    pub(super) fn cancel_delayed(&mut self, key: &K) -> Option<(Instant, Delayed<K>)> {
        let at = self.delayed_at.remove(key)?;
        Some((at.0, self.delayed.remove(&at)?))
    }

    pub(super) fn delay(&mut self, key: K, at: Instant, priority: Priority, slot: SlotState) {
        let mut next = (
            at,
            Delayed {
                key,
                priority,
                slot,
            },
        );

        if let Some(earlier) = self.cancel_delayed(&next.1.key) {
            let priority = earlier.1.priority.min(priority);
            if earlier.0 <= at {
                next = earlier;
            }
            next.1.priority = priority;
        }

        self.sequence += 1;
        self.delayed_at
            .insert(next.1.key.clone(), (next.0, self.sequence));
        self.delayed.insert((next.0, self.sequence), next.1);
    }
}
