//! The instances of one generation: a few idle ones are kept, and each handles one call at a time.

mod shares;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant as Clock},
};

use parking_lot::{Mutex, MutexGuard};
use skydock_cloud::Capability;
use tokio::sync::SemaphorePermit;

use self::shares::InstanceShares;
use crate::{answers::overlap::Overlap, execution::instance::Instance, imports::PluginData};

/// Idle instances that are kept for [`Limits::idle`](crate::Limits::idle); more than these come
/// from a burst, and are kept for a quarter of that time.
const FEW: usize = 8;

/// Divisor of the plugin's memory: this part must be free to keep an idle instance, because running
/// calls have priority.
const FREE_MEMORY_DIVISOR: usize = 4;

/// Idle instances, and permits for all instances.
pub(crate) struct Pool {
    shared: Arc<PluginData>,
    shares: InstanceShares,
    overlap: Overlap,
    idle: Mutex<Idle>,
}

/// An idle instance.
struct Waiting {
    instance: Instance,
    used: Clock,
    /// The capability whose calls it handles, if it does not handle all.
    of: Option<Capability>,
}

#[derive(Default)]
struct Idle {
    /// Ordered by last use. The most recently used instance is taken first, so that those at the
    /// front become cold.
    instances: Vec<Waiting>,
    /// The generation is out of service: no instance is kept.
    closed: bool,
}

impl Pool {
    pub(crate) fn new(
        shared: Arc<PluginData>,
        capabilities: &BTreeSet<Capability>,
        overlap: Overlap,
    ) -> Self {
        let shares = InstanceShares::new(shared.limits.instances, capabilities, overlap);

        Self {
            shared,
            shares,
            overlap,
            idle: Mutex::default(),
        }
    }

    /// Returns the capability to which the instance for such a call is bound.
    fn owner(&self, capability: Capability) -> Option<Capability> {
        (self.overlap == Overlap::PerInterface).then_some(capability)
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock()
    }

    fn count(&self, state: &'static str, change: i64) {
        self.shared
            .metrics
            .instances(&self.shared.plugin, state, change);
    }

    /// Waits for a permit for an instance for this capability, and takes an idle instance if there
    /// is one.
    pub(crate) async fn acquire(&self, capability: Capability) -> Slot<'_> {
        let permit = self.shares.acquire(capability).await;

        // After the wait, in which another call may have returned its instance.
        let owner = self.owner(capability);
        let warm = self.idle().take_warm(owner);

        if warm.is_some() {
            self.count("idle", -1);
        }
        self.count("busy", 1);

        Slot {
            pool: self,
            warm,
            owner,
            _permit: permit,
        }
    }

    /// Adds an instance that was created outside of a call.
    pub(crate) fn put_first(&self, instance: Instance, capabilities: &BTreeSet<Capability>) {
        // With one instance for each capability, it belongs to the first one.
        self.put(
            instance,
            capabilities
                .first()
                .and_then(|capability| self.owner(*capability)),
        );
    }

    fn put(&self, instance: Instance, of: Option<Capability>) {
        let memory = &self.shared.memory;
        // An instance that is not kept is dropped under the lock: if two are returned at the same
        // time, the second one sees the memory that the first has released.
        let mut idle = self.idle();

        let scarce = memory.taken() > memory.limit() - memory.limit() / FREE_MEMORY_DIVISOR;
        if !idle.closed && instance.uses_left > 0 && !instance.store.data().retired && !scarce {
            idle.instances.push(Waiting {
                instance,
                used: Clock::now(),
                of,
            });
            self.count("idle", 1);
        } else {
            drop(instance);
        }
    }

    /// Drops instances that have been idle for too long. Instances that keep state between calls
    /// are not dropped.
    pub(crate) fn shrink(&self, now: Clock) {
        if self.overlap != Overlap::Any {
            return;
        }

        let limit = self.shared.limits.idle;
        let cold = self
            .idle()
            .take(|later, used| is_cold(later, now.saturating_duration_since(used), limit));

        // The instances are dropped after this, when the lock is free: freeing their memory takes
        // time.
        self.count("idle", -i64::try_from(cold.len()).unwrap_or(0));
    }

    /// Keeps no instances from this point on: running calls finish, and their instances are
    /// dropped.
    pub(crate) fn close(&self) {
        let all = {
            let mut idle = self.idle();
            idle.closed = true;
            idle.take(|_, _| true)
        };
        self.count("idle", -i64::try_from(all.len()).unwrap_or(0));
    }
}

/// Returns true for an instance that has been idle for this long, and `later` instances were used
/// after it.
fn is_cold(later: usize, idle: Duration, limit: Duration) -> bool {
    idle > if later < FEW { limit } else { limit / 4 }
}

impl Idle {
    /// Takes the most recently used instance of this owner.
    fn take_warm(&mut self, owner: Option<Capability>) -> Option<Instance> {
        let at = self
            .instances
            .iter()
            .rposition(|waiting| waiting.of == owner)?;
        Some(self.instances.remove(at).instance)
    }

    /// Takes the instances that are cold, given how many were used later, and when they were last
    /// used.
    fn take(&mut self, cold: impl Fn(usize, Clock) -> bool) -> Vec<Waiting> {
        let count = self.instances.len();
        // The least recently used instances are at the front, so the cold ones are a prefix.
        let warm = self
            .instances
            .iter()
            .enumerate()
            .position(|(index, it)| !cold(count - 1 - index, it.used));

        self.instances.drain(..warm.unwrap_or(count)).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// A permit for one instance.
pub(crate) struct Slot<'a> {
    pool: &'a Pool,
    warm: Option<Instance>,
    owner: Option<Capability>,
    _permit: SemaphorePermit<'a>,
}

impl<'a> Slot<'a> {
    /// Returns the idle instance, if there was one.
    pub(crate) fn warm(&mut self) -> Option<Instance> {
        self.warm.take()
    }

    /// Puts an instance into the slot for one call.
    pub(crate) fn occupy(self, instance: Instance) -> BusyInstance<'a> {
        BusyInstance {
            slot: self,
            instance,
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.pool.count("busy", -1);
    }
}

/// An instance during one call. Unless it is given back, it is dropped with this: after a
/// trap, after a timeout, or if the caller was canceled, its store must not be used again.
pub(crate) struct BusyInstance<'a> {
    slot: Slot<'a>,
    instance: Instance,
}

impl BusyInstance<'_> {
    pub(crate) fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }

    /// Returns the instance to the pool after a successful call.
    pub(crate) fn give_back(self) {
        let Self { slot, instance } = self;
        slot.pool.put(instance, slot.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_instances_of_a_burst_are_removed_sooner() {
        let limit = Duration::from_secs(60);
        for (later, seconds, expected) in [
            (0, 60, false),
            (0, 61, true),
            (7, 60, false),
            (8, 15, false),
            (8, 16, true),
        ] {
            assert_eq!(
                is_cold(later, Duration::from_secs(seconds), limit),
                expected,
                "{later} later, {seconds} s"
            );
        }
    }
}
