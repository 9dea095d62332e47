//! A work queue with client-go's semantics: an item that is added twice is processed once, no item
//! is processed twice at the same time, and an item that is added while it is processed is
//! processed again afterwards.
//!
//! In addition to client-go's features, items have a [`Priority`], can be taken in batches of one
//! priority, and [`Queue::add`] replaces a delayed addition of the same item. Re-checks can be
//! spread over time, each in its slot, see [`Pace`].
//!
//! The ways to add an item:
//!
//! | Method | When it is added | Failures | Token of the bucket | A re-check |
//! | --- | --- | --- | --- | --- |
//! | [`Queue::add`] | now | | | waits for its slot |
//! | [`Queue::add_all`] | now | | | needs no slot |
//! | [`Queue::add_after`] | after the delay | | | then waits for its slot |
//! | [`Queue::add_attempt_after`] | after the delay | | | has had its slot |
//! | [`Queue::retry`], client-go's `AddRateLimited` | after its back-off | one more | taken | has had its slot |
//! | [`Queue::retry_after_conflict`] | after its back-off | one more | | has had its slot |
//! | [`Queue::retry_together`] | after its back-off | one more | one for all | becomes a change |
//!
//! [`Queue::forget`], [`Queue::take`] and [`Queue::done`] are client-go's `Forget`, `Get` and
//! `Done`.

mod limiter;
mod metrics;
mod pace;
mod ready;
mod state;
mod workers;

use std::{hash::Hash, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use self::state::{Delayed, Dirty, Processing, SlotState, State};
pub use self::{
    limiter::{Bucket, Limiter, Rate, with_jitter},
    metrics::{QueueMetrics, WorkqueueMetrics},
    pace::Pace,
};

/// Period of updating the gauges of unfinished work, as in client-go.
const GAUGE_PERIOD: Duration = Duration::from_millis(500);

/// Priority of an item; changes go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Something has changed, or an earlier attempt failed.
    Change,
    /// Nothing is known to have changed: after a start, after the plugin was replaced, or because
    /// the last check was long ago.
    Recheck,
}

/// A work queue.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    /// Notified when items are handed out, for [`Queue::observe`].
    busy: Notify,
    limiter: Limiter,
    metrics: QueueMetrics,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(limiter: Limiter, metrics: QueueMetrics) -> Self {
        Self {
            state: Mutex::new(State::new(&limiter)),
            wake: Notify::new(),
            busy: Notify::new(),
            limiter,
            metrics,
        }
    }

    /// Hands out only full batches for this time or until [`Queue::release`], so that items that
    /// are added in the meantime are handed out together.
    pub fn hold(&self, time: Duration) {
        self.lock().held = Some(Instant::now() + time);
    }

    /// Ends [`Queue::hold`].
    pub fn release(&self) {
        self.lock().held = None;
        self.wake.notify_waiters();
    }

    /// Sets how re-checks that are added after this call are spread over time.
    pub fn pace(&self, pace: Pace) {
        self.lock().pace = Some(pace);
    }

    /// Adds an item now; a re-check is delayed until its slot.
    pub fn add(&self, key: K, priority: Priority) {
        let mut state = self.lock();
        // A re-check that has a slot keeps it.
        if state.closed || (priority == Priority::Recheck && state.has_slot(&key)) {
            return;
        }

        match state.slot(&key, priority) {
            Some(at) => state.delay(key, at, priority, SlotState::Assigned),
            None => {
                state.cancel_delayed(&key);
                self.insert(&mut state, key, priority);
            }
        }
        // Unlocked first, since those that are woken lock it.
        drop(state);
        self.wake.notify_waiters();
    }

    /// Adds many items now and without slots, so that they can be taken in full batches.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>, priority: Priority) {
        let mut state = self.lock();
        for key in keys {
            state.cancel_delayed(&key);
            self.insert(&mut state, key, priority);
        }
        drop(state);
        self.wake.notify_waiters();
    }

    /// Adds an item after a delay. If it is delayed already, the earlier time and the higher
    /// priority apply. A re-check then waits for its slot.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) {
        if delay.is_zero() {
            return self.add(key, priority);
        }
        self.add_later(key, delay, priority, SlotState::Needed);
    }

    /// Like [`Queue::add_after`], for an item that is retried: a re-check that failed has had its
    /// slot. It is added after exactly this delay, ahead of re-checks that have not been processed
    /// yet.
    pub fn add_attempt_after(&self, key: K, delay: Duration, priority: Priority) {
        self.add_later(key, delay, priority, SlotState::Used);
    }

    fn add_later(&self, key: K, delay: Duration, priority: Priority, slot: SlotState) {
        let mut state = self.lock();
        if state.closed {
            return;
        }

        // Every delay counts, as in client-go.
        self.metrics.retries.inc();
        state.delay(key, Instant::now() + delay, priority, slot);
        drop(state);
        self.wake.notify_waiters();
    }

    /// Adds an item after the delay that its number of failures requires, and counts one more
    /// failure. `base` is the delay after the first one, usually [`Queue::base`]. Returns the
    /// delay.
    pub fn retry(&self, key: K, base: Duration, priority: Priority) -> Duration {
        let mut state = self.lock();
        let own = self.limiter.delay(base, state.failed(&key));
        let delay = own.max(state.reserve());
        drop(state);
        self.add_attempt_after(key, delay, priority);
        delay
    }

    /// Like [`Queue::retry`], after a conflict. The delay depends only on the item's own failures:
    /// it takes no token from the bucket of all items.
    pub fn retry_after_conflict(&self, key: K, base: Duration, priority: Priority) -> Duration {
        let failures = self.lock().failed(&key);
        let delay = self.limiter.delay(base, failures);
        self.add_attempt_after(key, delay, priority);
        delay
    }

    /// Adds items that failed in the same call. The call takes one token from the bucket of all
    /// items; `takes_token` is false if it has taken it. The delay of each item is up to 15 %
    /// shorter than its failures require, so that they are not all retried at the same time.
    pub fn retry_together(&self, keys: impl IntoIterator<Item = K>, takes_token: bool) {
        let overall = if takes_token {
            self.lock().reserve()
        } else {
            Duration::ZERO
        };

        for key in keys {
            let failures = self.lock().failed(&key);
            let own = with_jitter(
                self.limiter.delay(self.limiter.base, failures),
                &(&key, failures),
            );
            self.add_after(key, own.max(overall), Priority::Change);
        }
    }

    /// Returns the delay after the first failure.
    pub fn base(&self) -> Duration {
        self.limiter.base
    }

    /// Resets the number of failures of an item.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// Waits for items and takes at most `max` of one priority, changes first. Returns `None` once
    /// the queue is closed. [`Queue::done`] must be called for each item.
    pub async fn take_batch(&self, max: usize) -> Option<Vec<(K, Priority)>> {
        self.take_some(max, State::next_priority).await
    }

    /// Like [`Queue::take_batch`], but takes only changes.
    pub async fn take_changes(&self, max: usize) -> Option<Vec<(K, Priority)>> {
        self.take_some(max, |_| Priority::Change).await
    }

    async fn take_some(
        &self,
        max: usize,
        next_priority: impl Fn(&mut State<K>) -> Priority,
    ) -> Option<Vec<(K, Priority)>> {
        loop {
            // Enabled before the queue is looked at, so that no addition in between is missed.
            let woken = self.wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();

            let next = {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                self.promote(&mut state);

                let held = state
                    .held
                    .filter(|until| *until > Instant::now() && state.ready.len() < max);

                if held.is_none() {
                    let priority = next_priority(&mut state);
                    let batch = self.drain(&mut state, max.max(1), priority);
                    if !batch.is_empty() {
                        return Some(batch);
                    }
                }

                let delayed = state.delayed.first_key_value().map(|(&(at, _), _)| at);
                held.into_iter().chain(delayed).min()
            };

            match next {
                Some(at) => tokio::select! { () = woken => {}, () = sleep_until(at) => {} },
                None => woken.await,
            }
        }
    }

    /// Waits for one item; see [`Queue::take_batch`].
    pub async fn take(&self) -> Option<(K, Priority)> {
        self.take_batch(1).await?.pop()
    }

    /// Marks an item as processed.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        if let Some(Processing { since, .. }) = state.processing.remove(key) {
            self.metrics
                .work_duration
                .observe(since.elapsed().as_secs_f64());
        }
        // It was added again while it was processed.
        let again = state.dirty.get(key).map(|dirty| dirty.priority);
        if let Some(priority) = again {
            state.ready.push(key.clone(), priority);
            self.metrics.depth.inc();
        }

        // Another re-check can be taken in its place.
        let makes_room = state.pace.is_some() && !state.ready.is_empty(Priority::Recheck);
        drop(state);
        // A batch has hundreds of items, and each would wake all workers that wait.
        if again.is_some() || makes_room {
            self.wake.notify_waiters();
        }
    }

    /// Closes the queue: nothing is added or handed out after this.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_waiters();
    }

    /// Updates the gauges of unfinished work periodically, as long as there is some; never returns.
    pub async fn observe(&self) {
        loop {
            let is_idle = {
                let state = self.lock();
                let (total, longest) = state.processing.values().fold(
                    (0.0, 0.0_f64),
                    |(total, longest), Processing { since, .. }| {
                        let seconds = since.elapsed().as_secs_f64();
                        (total + seconds, longest.max(seconds))
                    },
                );

                self.metrics.unfinished_work.set(total);
                self.metrics.longest_running.set(longest);
                state.processing.is_empty()
            };

            // Most queues are idle nearly all the time.
            if is_idle {
                self.busy.notified().await;
            } else {
                sleep(GAUGE_PERIOD).await;
            }
        }
    }

    fn insert(&self, state: &mut State<K>, key: K, priority: Priority) {
        if state.closed {
            return;
        }
        let busy = state.processing.contains_key(&key);
        if let Some(known) = state.dirty.get_mut(&key) {
            let raised = priority < known.priority;
            known.priority = priority.min(known.priority);
            // Moved to the items of the higher priority.
            if raised && !busy {
                state.ready.push(key, priority);
            }
            return;
        }

        self.metrics.adds.inc();
        let added = Instant::now();
        state.dirty.insert(key.clone(), Dirty { priority, added });

        if !busy {
            state.ready.push(key, priority);
            self.metrics.depth.inc();
        }
    }

    /// Moves delayed items whose time has come to the ready ones.
    fn promote(&self, state: &mut State<K>) {
        let now = Instant::now();
        while let Some(entry) = state
            .delayed
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            let Delayed {
                key,
                priority,
                slot: slot_state,
            } = entry.remove();
            state.delayed_at.remove(&key);

            let slot = if slot_state == SlotState::Needed {
                state.slot(&key, priority)
            } else {
                None
            };

            if let Some(at) = slot {
                state.delay(key, at, priority, SlotState::Assigned);
                continue;
            }

            let known = state.dirty.contains_key(&key);
            self.insert(state, key.clone(), priority);
            // A retry goes ahead of re-checks that have not been processed yet.
            if slot_state == SlotState::Used
                && priority == Priority::Recheck
                && !known
                && state.ready.contains(&key)
            {
                state.ready.push_ahead(key, priority);
            }
        }
    }

    fn drain(&self, state: &mut State<K>, max: usize, priority: Priority) -> Vec<(K, Priority)> {
        let mut batch = Vec::new();
        while batch.len() < max && state.may_take(priority) {
            let Some(key) = state.ready.pop(priority) else {
                break;
            };

            self.metrics.depth.dec();
            let Some(Dirty { added, .. }) = state.dirty.remove(&key) else {
                continue;
            };
            self.metrics
                .queue_duration
                .observe(added.elapsed().as_secs_f64());

            state.processing.insert(
                key.clone(),
                Processing {
                    priority,
                    since: Instant::now(),
                },
            );
            batch.push((key, priority));
        }

        if !batch.is_empty() {
            self.busy.notify_one();
        }
        batch
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests;
