//! Limits the memory of an instance.

use std::sync::Arc;

use skydock_resources::{
    account::{Account, Share},
    limits::Limits,
};
use wasmtime::ResourceLimiter;

/// Maximum number of core instances in one store. A compiled guest has two or three, and an
/// interpreter one for each of its shared libraries: CPython has about 20.
pub(crate) const CORE_INSTANCES: u32 = 64;

/// Maximum number of tables, and of memories, in one store: one of each for the guest, and a few
/// small ones for the adapters that tools add.
pub(crate) const CORE_TABLES: u32 = 8;

/// The limit that denied memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// That of the instance.
    Memory,
    /// The elements of a table.
    Table,
    /// That of all instances of the plugin together; this one alone would have had enough.
    Total,
}

/// Grants memory and tables up to the limits, and remembers what it denied.
pub(crate) struct MemoryLimiter {
    memory: usize,
    table_elements: usize,
    /// The instance's share of the plugin's memory.
    share: Share,
    /// Maximum memory granted so far, in bytes.
    pub(crate) peak: usize,
    /// The limit that denied something during the current call. The guest may handle that; if it
    /// traps next, this is the reason.
    pub(crate) denied: Option<Denied>,
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits, total: &Arc<Account>) -> Self {
        Self {
            memory: limits.memory,
            table_elements: limits.table_elements,
            share: Share::new(total),
            peak: 0,
            denied: None,
        }
    }

    fn deny(&mut self, denied: Denied) -> wasmtime::Result<bool> {
        self.denied = Some(denied);
        Ok(false)
    }
}

impl ResourceLimiter for MemoryLimiter {
    /// Limits all memories of the store together.
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if beyond(desired, maximum) {
            return Ok(false);
        }

        let more = desired.saturating_sub(current);
        let wanted = self.share.taken().saturating_add(more);
        // The guest is at fault only if it exceeds a limit alone, not if others use the memory.
        if wanted > self.memory || !self.share.would_suffice(more) {
            return self.deny(Denied::Memory);
        }

        if !self.share.take(more) {
            return self.deny(Denied::Total);
        }

        self.peak = self.peak.max(wanted);
        Ok(true)
    }

    /// The maximum of a table from a pool is that of the pool, which is our own limit.
    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if beyond(
            desired,
            maximum.filter(|maximum| *maximum < self.table_elements),
        ) {
            return Ok(false);
        }
        if desired > self.table_elements {
            return self.deny(Denied::Table);
        }

        Ok(true)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        CORE_TABLES as usize
    }

    fn memories(&self) -> usize {
        CORE_TABLES as usize
    }
}

/// Returns true if the guest asks for more than the component itself declares. It would not get
/// that without our limits either, so no limit is recorded as the reason.
fn beyond(desired: usize, maximum: Option<usize>) -> bool {
    maximum.is_some_and(|maximum| desired > maximum)
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    fn limiter(memory: usize, total: &Arc<Account>) -> MemoryLimiter {
        MemoryLimiter::new(
            &Limits {
                memory,
                table_elements: 10,
                ..Limits::default()
            },
            total,
        )
    }

    #[test]
    fn memories_of_an_instance_share_one_limit() {
        let mut limiter = limiter(100, &Account::new(1000, Gauge::default()));
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 41, None).unwrap());
        assert_eq!(limiter.denied, Some(Denied::Memory));
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert_eq!(limiter.peak, 100);
    }

    // Holds: SEC-04
    #[test]
    fn instances_of_a_plugin_share_the_total_limit() {
        let total = Account::new(150, Gauge::default());
        let (mut one, mut other) = (limiter(100, &total), limiter(100, &total));
        assert!(one.memory_growing(0, 100, None).unwrap());
        assert!(!other.memory_growing(0, 51, None).unwrap());
        assert_eq!(other.denied, Some(Denied::Total));
        drop(one);
        assert!(other.memory_growing(0, 51, None).unwrap());
    }

    #[test]
    fn exceeding_the_total_alone_counts_against_the_instance() {
        let mut limiter = limiter(100, &Account::new(50, Gauge::default()));
        assert!(!limiter.memory_growing(0, 51, None).unwrap());
        assert_eq!(limiter.denied, Some(Denied::Memory));
    }

    // Holds: SEC-04
    #[test]
    fn a_table_has_its_own_limit() {
        let mut limiter = limiter(100, &Account::new(100, Gauge::default()));
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert_eq!(limiter.denied, None);
        for maximum in [None, Some(10), Some(20)] {
            assert!(!limiter.table_growing(10, 11, maximum).unwrap());
            assert_eq!(limiter.denied.take(), Some(Denied::Table), "{maximum:?}");
        }
    }

    #[test]
    fn a_maximum_declared_by_the_plugin_is_not_a_denial() {
        let mut limiter = limiter(100, &Account::new(100, Gauge::default()));
        assert!(
            limiter.memory_growing(0, 60, Some(60)).unwrap()
                && limiter.table_growing(0, 5, Some(5)).unwrap()
        );
        assert!(
            !limiter.memory_growing(60, 61, Some(60)).unwrap()
                && !limiter.table_growing(5, 6, Some(5)).unwrap()
        );
        assert_eq!((limiter.denied, limiter.peak), (None, 60));
    }

    #[test]
    fn instances_tables_and_memories_of_a_store_are_limited() {
        let engine = wasmtime::Engine::default();
        let holds = |inner: &str, count: usize| {
            let module = wat::parse_str(format!("(module {inner})")).unwrap();
            let module = wasmtime::Module::new(&engine, module).unwrap();
            let mut store =
                wasmtime::Store::new(&engine, limiter(0, &Account::new(0, Gauge::default())));
            store.limiter(|limiter| limiter);
            (0..count).all(|_| wasmtime::Instance::new(&mut store, &module, &[]).is_ok())
        };
        for (inner, most) in [
            ("", CORE_INSTANCES as usize),
            ("(table 0 funcref)", CORE_TABLES as usize),
            ("(memory 0)", CORE_TABLES as usize),
        ] {
            assert!(holds(inner, most) && !holds(inner, most + 1), "{inner}");
        }
    }
}
