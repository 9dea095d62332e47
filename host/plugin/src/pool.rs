//! The instances of one generation: a few, warm, each with one call at a time.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant as Clock},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{host::Shared, instance::Instance};

/// Idle instances, and permits for all that may be.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    permits: Semaphore,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// Last used last. The warmest serves first, so that those at the front grow cold and go.
    instances: Vec<(Instance, Clock)>,
    /// The generation is out of service: nothing is kept.
    closed: bool,
}

impl Pool {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let permits = Semaphore::new(shared.limits.instances);
        Self { shared, permits, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, state: &'static str, change: i64) {
        self.shared.metrics.instances(&self.shared.plugin, state, change);
    }

    /// Waits for leave to have an instance, and takes a warm one if there is one.
    pub(crate) async fn acquire(&self) -> Slot<'_> {
        // The semaphore is never closed.
        let permit = self.permits.acquire().await.ok();
        let warm = self.idle().instances.pop().map(|(instance, _)| instance);
        if warm.is_some() {
            self.count("idle", -1);
        }
        self.count("busy", 1);
        Slot { pool: self, warm, _permit: permit }
    }

    /// Takes an instance that has just been made, outside of any call.
    pub(crate) fn put(&self, instance: Instance) {
        let mut idle = self.idle();
        if !idle.closed && instance.uses_left > 0 {
            idle.instances.push((instance, Clock::now()));
            self.count("idle", 1);
        }
    }

    /// Gives back the memory of instances that have not served since then.
    pub(crate) fn shrink(&self, since: Clock) {
        let cold: Vec<_> = {
            let mut idle = self.idle();
            let cold = idle.instances.partition_point(|(_, used)| *used < since);
            idle.instances.drain(..cold).collect()
        };
        self.count("idle", -i64::try_from(cold.len()).unwrap_or(0));
    }

    /// Keeps nothing from now on: calls under way end as they would, their instances go with them.
    pub(crate) fn close(&self) {
        self.idle().closed = true;
        self.shrink(Clock::now() + Duration::from_secs(1));
    }

    /// Keeps instances again.
    pub(crate) fn open(&self) {
        self.idle().closed = false;
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
        self.account();
        if let Some(instance) = self.instance.take() {
            self.slot.pool.put(instance);
        }
    }

    fn account(&mut self) {
        let Shared { metrics, plugin, .. } = &*self.slot.pool.shared;
        if let Some(instance) = &mut self.instance {
            let state = instance.store.data_mut();
            metrics.cpu(plugin, std::mem::take(&mut state.cpu_ticks));
            metrics.memory(plugin, state.limiter.peak);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.account();
    }
}
