//! The instances of one generation: a few, warm, each with one call at a time.

mod shares;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant as Clock},
};

use skydock_cloud::Capability;
use tokio::sync::SemaphorePermit;

use self::shares::Shares;
use crate::{host::Shared, instance::Instance};

/// Idle instances that are kept for [`Limits::idle`](crate::Limits::idle); more than these come from a burst, and stay for a
/// quarter of it.
const FEW: usize = 8;

/// Part of the plugin's memory that must be free for an idle instance to be kept: those that work come first.
const RESERVE: usize = 4;

/// Which calls of a plugin may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Any, each in an instance of its own.
    Any,
    /// One for each capability, all in the same instance of that capability.
    PerInterface,
    /// One, all in the same instance.
    None,
}

/// Idle instances, and permits for all that may be.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    shares: Shares,
    overlap: Overlap,
    idle: Mutex<Idle>,
}

/// An instance that waits for its next call.
struct Waiting {
    instance: Instance,
    used: Clock,
    /// Whose calls it serves, if it does not serve all.
    of: Option<Capability>,
}

#[derive(Default)]
struct Idle {
    /// Last used last. The warmest serves first, so that those at the front grow cold and go.
    instances: Vec<Waiting>,
    /// The generation is out of service: nothing is kept.
    closed: bool,
}

impl Pool {
    pub(crate) fn new(shared: Arc<Shared>, capabilities: &BTreeSet<Capability>, overlap: Overlap) -> Self {
        let shares = Shares::new(shared.limits.instances, capabilities, overlap);
        Self { shared, shares, overlap, idle: Mutex::default() }
    }

    /// Whose instance a call of this capability has.
    fn owner(&self, capability: Capability) -> Option<Capability> {
        (self.overlap == Overlap::PerInterface).then_some(capability)
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, state: &'static str, change: i64) {
        self.shared.metrics.instances(&self.shared.plugin, state, change);
    }

    /// Waits for leave to have an instance for this capability, and takes a warm one if there is one.
    pub(crate) async fn acquire(&self, capability: Capability) -> Slot<'_> {
        // The semaphores are never closed.
        let permit = self.shares.acquire(capability).await.ok();
        let owner = self.owner(capability);
        let warm = self.idle().take_warm(owner);
        if warm.is_some() {
            self.count("idle", -1);
        }
        self.count("busy", 1);
        Slot { pool: self, warm, owner, _permit: permit }
    }

    /// Takes an instance that has just been made, outside of any call.
    pub(crate) fn put_first(&self, instance: Instance, capabilities: &BTreeSet<Capability>) {
        self.put(instance, capabilities.first().and_then(|capability| self.owner(*capability)));
    }

    fn put(&self, instance: Instance, of: Option<Capability>) {
        let memory = &self.shared.memory;
        // Of two that come at the same time, the second one sees what the first has given back.
        let mut idle = self.idle();
        let scarce = memory.taken() > memory.limit() - memory.limit() / RESERVE;
        if !idle.closed && instance.uses_left > 0 && !instance.store.data().retired && !scarce {
            idle.instances.push(Waiting { instance, used: Clock::now(), of });
            self.count("idle", 1);
        } else {
            drop(instance);
        }
    }

    /// Gives back the memory of instances that have not served for a while. Those that keep what they know between calls stay.
    pub(crate) fn shrink(&self, now: Clock) {
        if self.overlap != Overlap::Any {
            return;
        }
        let limit = self.shared.limits.idle;
        let cold = self.idle().take(|later, used| is_cold(later, now.saturating_duration_since(used), limit));
        self.count("idle", -i64::try_from(cold.len()).unwrap_or(0));
    }

    /// Keeps nothing from now on: calls under way end as they would, their instances go with them.
    pub(crate) fn close(&self) {
        let all = {
            let mut idle = self.idle();
            idle.closed = true;
            idle.take(|_, _| true)
        };
        self.count("idle", -i64::try_from(all.len()).unwrap_or(0));
    }

    /// Keeps instances again.
    pub(crate) fn open(&self) {
        self.idle().closed = false;
    }
}

/// True of an instance that has stood idle for so long, while so many others have served later.
fn is_cold(later: usize, idle: Duration, limit: Duration) -> bool {
    idle > if later < FEW { limit } else { limit / 4 }
}

impl Idle {
    /// The instance of this owner that has served last.
    fn take_warm(&mut self, owner: Option<Capability>) -> Option<Instance> {
        let at = self.instances.iter().rposition(|waiting| waiting.of == owner)?;
        Some(self.instances.remove(at).instance)
    }

    /// Takes out the instances that are cold, told by how many have served later, and by when they served last.
    fn take(&mut self, cold: impl Fn(usize, Clock) -> bool) -> Vec<Waiting> {
        let count = self.instances.len();
        // Those that have served longest ago are at the front, so coldness ends somewhere.
        let warm = self.instances.iter().enumerate().position(|(index, it)| !cold(count - 1 - index, it.used));
        self.instances.drain(..warm.unwrap_or(count)).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Leave to have one instance.
pub(crate) struct Slot<'a> {
    pool: &'a Pool,
    warm: Option<Instance>,
    owner: Option<Capability>,
    _permit: Option<SemaphorePermit<'a>>,
}

impl<'a> Slot<'a> {
    /// The warm instance, if there was one.
    pub(crate) fn warm(&mut self) -> Option<Instance> {
        self.warm.take()
    }

    /// Puts an instance into the slot for one call.
    pub(crate) fn lease(self, instance: Instance) -> Lease<'a> {
        Lease { slot: self, instance: Some(instance) }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.pool.count("busy", -1);
    }
}

/// An instance during one call. Unless it is given back it is dropped with the lease: after a trap, a timeout, or when the
/// caller went away in the middle, a store is in no state to be used again.
pub(crate) struct Lease<'a> {
    slot: Slot<'a>,
    instance: Option<Instance>,
}

impl Lease<'_> {
    /// The instance.
    pub(crate) fn instance(&mut self) -> Option<&mut Instance> {
        self.instance.as_mut()
    }

    /// The call ended well: the instance may serve again.
    pub(crate) fn give_back(mut self) {
        if let Some(instance) = self.instance.take() {
            self.slot.pool.put(instance, self.slot.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: OPS-85
    #[test]
    fn instances_of_a_burst_go_sooner() {
        let limit = Duration::from_secs(60);
        for (later, seconds, expected) in [(0, 60, false), (0, 61, true), (7, 60, false), (8, 15, false), (8, 16, true)]
        {
            assert_eq!(is_cold(later, Duration::from_secs(seconds), limit), expected, "{later} later, {seconds} s");
        }
    }
}
