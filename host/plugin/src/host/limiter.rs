//! How much memory an instance may have.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::{
    account::{Account, Share},
    limits::Limits,
};

/// Core instances in one store: as many as the largest component adapters use.
const MAX_CORE: usize = 64;

/// Tables and memories in one store: one of each for the guest, a few small ones for adapters.
const MAX_TABLES: usize = 16;

/// What was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// What the instance may have.
    Instance,
    /// What all instances of the plugin may have together, while this one alone would have had enough.
    Total,
}

/// Grants memory and tables up to the limits, and remembers what it refused.
pub(crate) struct MemoryLimiter {
    memory: usize,
    table_elements: usize,
    /// What the instance has of the plugin's memory.
    share: Share,
    /// Largest amount of memory granted so far, in bytes.
    pub(crate) peak: usize,
    /// Something was refused during the running call. The guest may live with that; if it traps next, this is why.
    pub(crate) refused: Option<Refusal>,
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits, total: &Arc<Account>) -> Self {
        Self {
            memory: limits.memory,
            table_elements: limits.table_elements,
            share: Share::new(total),
            peak: 0,
            refused: None,
        }
    }

    fn refuse(&mut self, refusal: Refusal) -> wasmtime::Result<bool> {
        self.refused = Some(refusal);
        Ok(false)
    }
}

impl ResourceLimiter for MemoryLimiter {
    /// All memories of the store together stay within the limit.
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let wanted = self.share.taken().saturating_add(more);
        let fits = wanted <= self.memory && self.share.would_suffice(more);
        if !fits || maximum.is_some_and(|maximum| desired > maximum) {
            return self.refuse(Refusal::Instance);
        }
        if !self.share.take(more) {
            return self.refuse(Refusal::Total);
        }
        self.peak = self.peak.max(wanted);
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.table_elements || maximum.is_some_and(|maximum| desired > maximum) {
            return self.refuse(Refusal::Instance);
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        MAX_CORE
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_TABLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(memory: usize, total: &Arc<Account>) -> MemoryLimiter {
        MemoryLimiter::new(&Limits { memory, table_elements: 10, ..Limits::default() }, total)
    }

    #[test]
    fn all_memories_of_an_instance_share_one_limit() {
        let mut limiter = limiter(100, &Account::new(1000));
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 41, None).unwrap());
        assert_eq!(limiter.refused, Some(Refusal::Instance));
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert_eq!(limiter.peak, 100);
    }

    // Holds: SEC-04
    #[test]
    fn all_instances_of_a_plugin_share_another() {
        let total = Account::new(150);
        let (mut one, mut other) = (limiter(100, &total), limiter(100, &total));
        assert!(one.memory_growing(0, 100, None).unwrap());
        assert!(!other.memory_growing(0, 51, None).unwrap());
        assert_eq!(other.refused, Some(Refusal::Total));
        drop(one);
        assert!(other.memory_growing(0, 51, None).unwrap());
    }

    #[test]
    fn what_would_not_fit_alone_is_its_own_fault() {
        let mut limiter = limiter(100, &Account::new(50));
        assert!(!limiter.memory_growing(0, 51, None).unwrap());
        assert_eq!(limiter.refused, Some(Refusal::Instance));
    }

    // Holds: SEC-04, OPS-85
    #[test]
    fn a_table_has_its_own_limit() {
        let mut limiter = limiter(100, &Account::new(100));
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert_eq!(limiter.refused, None);
        assert!(!limiter.table_growing(10, 11, None).unwrap());
        assert_eq!(limiter.refused, Some(Refusal::Instance));
    }
}
