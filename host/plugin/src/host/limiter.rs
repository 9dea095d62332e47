//! How much memory an instance may have.

use wasmtime::ResourceLimiter;

use crate::limits::Limits;

/// Core instances, memories and tables in one store: as many as the largest component adapters use.
const MAX_CORE: usize = 64;

/// Grants memory and tables up to the limits, and remembers what it refused.
pub(crate) struct MemoryLimiter {
    memory: usize,
    table_elements: usize,
    used: usize,
    /// Largest amount of memory granted so far, in bytes.
    pub(crate) peak: usize,
    /// Something was refused during the running call. The guest may live with that; if it traps next, this is why.
    pub(crate) refused: bool,
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { memory: limits.memory, table_elements: limits.table_elements, used: 0, peak: 0, refused: false }
    }
}

impl ResourceLimiter for MemoryLimiter {
    /// All memories of the store together stay within the limit.
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        let granted = used <= self.memory && maximum.is_none_or(|maximum| desired <= maximum);
        if granted {
            self.used = used;
            self.peak = self.peak.max(used);
        }
        self.refused |= !granted;
        Ok(granted)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let granted = desired <= self.table_elements && maximum.is_none_or(|maximum| desired <= maximum);
        self.refused |= !granted;
        Ok(granted)
    }

    fn instances(&self) -> usize {
        MAX_CORE
    }

    fn tables(&self) -> usize {
        MAX_CORE
    }

    fn memories(&self) -> usize {
        MAX_CORE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memories_of_an_instance_share_one_limit() {
        let mut limiter = MemoryLimiter::new(&Limits { memory: 100, ..Limits::default() });
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 41, None).unwrap());
        assert!(limiter.refused);
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert_eq!(limiter.peak, 100);
    }

    // Holds: SEC-04
    #[test]
    fn a_table_has_its_own_limit() {
        let mut limiter = MemoryLimiter::new(&Limits { table_elements: 10, ..Limits::default() });
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(!limiter.refused);
        assert!(!limiter.table_growing(10, 11, None).unwrap());
        assert!(limiter.refused);
    }
}
