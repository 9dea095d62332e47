//! Queues Services when they change. The plan decides whether a change matters, and how soon.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use skydock_controller_base::{
    controller::annotations::WrittenAnnotations, objects::address_holders::LeftToOthers,
};
use skydock_kube::queue::{Priority, Queue};
use tokio::time::Instant;

use super::{
    Classes, ServiceEntry,
    known::{KnownServices, state::State},
    plan::schedule::{self, Facts, Schedule},
};

/// Time after which a status that someone else has written is replaced: they may write it again
/// each time.
const REPLACE_STATUS: Duration = Duration::from_secs(10);

/// Handles the changes of Services.
pub(crate) struct ServiceFollower {
    pub(crate) queue: Arc<Queue<String>>,
    pub(crate) known: Arc<KnownServices>,
    pub(crate) classes: Classes,
    pub(crate) written_annotations: Arc<WrittenAnnotations>,
    pub(crate) left_to_others: Arc<LeftToOthers>,
    /// Set until it is known when the load balancers that exist at the start are to be checked.
    pub(crate) restoring: Arc<AtomicBool>,
}

impl ServiceFollower {
    pub(crate) fn added(&self, new: &ServiceEntry) {
        let Some(priority) = schedule::appeared(&new.object, &self.classes) else {
            return;
        };

        if priority == Priority::Recheck {
            // So that changes of nodes reach it even before its own check.
            self.known.remember(&new.key(), new);
            if self.restoring.load(Ordering::SeqCst) {
                return;
            }
        }
        self.queue.add(new.key(), priority);
    }

    pub(crate) fn updated(&self, old: &ServiceEntry, new: &ServiceEntry) {
        let key = new.key();
        let known = self.known.get(&key);
        let ours = known.filter(|known| !known.read(State::is_left_to_others));

        let schedule = schedule::schedule(
            old,
            new,
            &self.classes,
            &Facts {
                written_by_skydock: &|key, value| {
                    self.written_annotations.contains(new.uid(), key, value)
                },
                is_ours: ours.is_some(),
                left_to_others: self.left_to_others.has(&key),
                written_status: ours
                    .as_ref()
                    .and_then(|ours| ours.read(|state| state.written_status.clone())),
            },
        );

        match (schedule, ours) {
            (Some(Schedule::Now), _) => self.queue.add(key, Priority::Change),
            (Some(Schedule::Restore), Some(ours)) => {
                let delay = ours.restore_delay(Instant::now());
                self.queue.add_after(key, delay, Priority::Change);
            }
            (Some(Schedule::ReplaceStatus), _) => {
                self.queue.add_after(key, REPLACE_STATUS, Priority::Change);
            }
            (Some(Schedule::Restore), None) | (None, _) => {}
        }
    }

    /// A finalizer that someone else has removed does not keep the object: the load balancer is
    /// still to be deleted.
    pub(crate) fn deleted(&self, old: &ServiceEntry) {
        self.queue.add(old.key(), Priority::Change);
    }
}
