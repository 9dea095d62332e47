//! What a guest may leave with the host: the resources it holds handles of.
//!
//! Requests, bodies, streams and timers live in the host's memory for as long as the guest keeps their handles, also
//! between calls: a guest may send a request in one call and look for the answer in a later one. So they are not
//! punished, but counted: all instances of a plugin together have [`Limits::handles`](crate::Limits) of them. Each one is worth
//! [`BYTES`], which [`http`](super::http) sees to, and is charged to the plugin's memory with that.

use std::sync::Arc;

use wasmtime::component::ResourceTable;

use super::Refusal;
use crate::account::{Account, Share};

/// Handles that an instance takes at a time.
const STEP: usize = 8;

/// Handles that one function of the host makes at most.
const AT_ONCE: usize = 2;

/// What a handle keeps alive at most: a request with its headers and trailers (16 KiB each, which take up to 42 KiB in
/// memory), its path (8 KiB) and two pieces of a body (16 KiB each).
pub(super) const BYTES: usize = 128 << 10;

/// The handles of one instance, and what it has taken for them.
pub(super) struct Handles {
    table: ResourceTable,
    count: Share,
    bytes: Share,
    /// More was refused during the running call.
    pub(super) refused: Option<Refusal>,
}

impl Handles {
    pub(super) fn new(count: &Arc<Account>, memory: &Arc<Account>) -> Self {
        let (count, bytes) = (Share::new(count), Share::new(memory));
        Self { table: empty(), count, bytes, refused: None }
    }

    /// The table, with room for what one function of the host makes, if the plugin has any left.
    pub(super) fn table(&mut self) -> &mut ResourceTable {
        // Entries are made at the end, or where one has gone; so if the last of those that were taken is free, there is room.
        let taken = self.count.taken();
        let last = taken.saturating_sub(AT_ONCE)..taken;
        let mut last = last.filter_map(|index| u32::try_from(index).ok());
        if taken == 0 || last.any(|index| self.table.get_any_mut(index).is_ok()) {
            self.grow();
        }
        &mut self.table
    }

    fn grow(&mut self) {
        if self.count.take(STEP) {
            if self.bytes.take(STEP * BYTES) {
                self.table.set_max_capacity(self.count.taken());
                return;
            }
            self.count.keep(self.count.taken() - STEP);
        }
        let alone = self.count.would_suffice(STEP) && self.bytes.would_suffice(STEP * BYTES);
        self.refused = Some(if alone { Refusal::Total } else { Refusal::Instance });
    }

    /// Gives back what was taken, once the guest has let go of all. A table that has held many stays as large as it was.
    pub(super) fn tidy(&mut self) {
        if self.count.taken() > 0 && self.table.is_empty() {
            self.table = empty();
            self.count.keep(0);
            self.bytes.keep(0);
        }
    }
}

fn empty() -> ResourceTable {
    let mut table = ResourceTable::new();
    table.set_max_capacity(0);
    table
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Resource;

    use super::*;

    fn fill(handles: &mut Handles) -> Vec<Resource<u8>> {
        std::iter::from_fn(|| handles.table().push(0_u8).ok()).collect()
    }

    #[test]
    fn all_instances_share_the_handles_and_give_them_back() {
        let (count, memory) = (Account::new(30), Account::new(1 << 30));
        let (mut one, mut other) = (Handles::new(&count, &memory), Handles::new(&count, &memory));
        assert!(other.table().push(0_u8).is_ok());
        let held = fill(&mut one);
        assert_eq!((held.len(), one.refused), (16, Some(Refusal::Total)), "in steps of eight");
        assert_eq!(memory.taken(), 24 * BYTES);
        one.tidy();
        assert_eq!(count.taken(), 24, "they are still open");
        for handle in held {
            one.table().delete(handle).unwrap();
        }
        one.tidy();
        assert_eq!((count.taken(), memory.taken()), (8, 8 * BYTES));
        assert_eq!(fill(&mut one).len(), 16);
        drop((one, other));
        assert_eq!((count.taken(), memory.taken()), (0, 0));
    }

    #[test]
    fn one_that_goes_makes_room_for_one() {
        let (count, memory) = (Account::new(8), Account::new(1 << 30));
        let mut handles = Handles::new(&count, &memory);
        let mut held = fill(&mut handles);
        assert_eq!((held.len(), handles.refused), (8, Some(Refusal::Instance)), "nobody else has any");
        handles.table().delete(held.remove(3)).unwrap();
        assert_eq!(fill(&mut handles).len(), 1);
    }

    #[test]
    fn what_they_keep_alive_is_memory_of_the_plugin() {
        let (count, memory) = (Account::new(100), Account::new(20 * BYTES));
        let mut handles = Handles::new(&count, &memory);
        assert_eq!(fill(&mut handles).len(), 16);
        assert_eq!(count.taken(), 16, "what could not be paid for is given back");
    }
}
