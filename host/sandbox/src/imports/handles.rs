//! Handles: the resources that a guest keeps in the host.
//!
//! Requests, bodies, streams and timers stay in the host's memory while the guest holds their
//! handles, also between calls: a guest may send a request in one call and read its response in a
//! later one. This is therefore not an error, but limited: all instances of a plugin together have
//! [`Limits::handles`](crate::Limits) of them. Each handle keeps at most [`BYTES`] in memory, which
//! [`http`](super::http) ensures, and that much of the plugin's memory is charged for it.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::{CallKind, PerKind};
use skydock_resources::account::{Account, Share};
use wasmtime::component::ResourceTable;

use crate::call_error::HandleLimit;

/// Handles that an instance takes from the plugin's at a time.
const STEP: usize = 8;

/// Maximum number of handles that one function of the host creates.
const AT_ONCE: usize = 2;

/// Maximum bytes that a handle keeps in memory: a request with its headers and trailers (16 KiB
/// each, which take up to 42 KiB in memory), its path (8 KiB) and two chunks of a body (16 KiB
/// each).
pub(super) const BYTES: usize = 128 << 10;

/// Whose limit denied a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeniedBy {
    /// That of the instance.
    Instance,
    /// That of all instances of the plugin together; this one alone would have had enough.
    Total,
}

/// Part of a plugin's handles that is reserved for each kind of calls, as a divisor.
const RESERVED: usize = 8;

/// The handles of a plugin: a part is reserved for each kind of calls, so that one that hangs leaves
/// the others some, and all use the rest.
pub(super) struct HandleAccounts {
    reserved: PerKind<Arc<Account>>,
    common: Arc<Account>,
    /// How many one kind of calls may have.
    most: usize,
}

impl HandleAccounts {
    /// Divides `all` handles. With few, nothing is reserved.
    pub(super) fn new(all: usize, shown: &Gauge) -> Self {
        // Handles are taken in steps, so a remainder could not be used.
        let part = all / RESERVED / STEP * STEP;

        let kinds = CallKind::ALL.len();
        Self {
            reserved: PerKind::of(|_| Account::new(part, shown.clone())),
            common: Account::new(all - kinds * part, shown.clone()),
            most: all - (kinds - 1) * part,
        }
    }

    #[cfg(test)]
    fn taken(&self) -> usize {
        let reserved = self.reserved.all().map(|account| account.taken());
        reserved.into_iter().sum::<usize>() + self.common.taken()
    }
}

/// The handles of one instance, and the shares that it has taken for them.
pub(super) struct Handles {
    table: ResourceTable,
    reserved: PerKind<Share>,
    common: Share,
    /// How many one kind of calls may have.
    most: usize,
    /// The kind of the current call.
    pub(super) kind: CallKind,
    bytes: Share,
    /// The limits that denied a handle during the current call.
    pub(super) denied: Option<(DeniedBy, HandleLimit)>,
}

impl Handles {
    pub(super) fn new(accounts: &HandleAccounts, memory: &Arc<Account>) -> Self {
        Self {
            table: empty(),
            reserved: PerKind::of(|kind| Share::new(accounts.reserved.get(kind))),
            common: Share::new(&accounts.common),
            most: accounts.most,
            kind: CallKind::Nodes,
            bytes: Share::new(memory),
            denied: None,
        }
    }

    fn taken(&self) -> usize {
        let reserved = self.reserved.all().map(Share::taken);
        reserved.into_iter().sum::<usize>() + self.common.taken()
    }

    /// Returns the table, with room for the handles that one function of the host creates, if the
    /// plugin has any left.
    pub(super) fn table(&mut self) -> &mut ResourceTable {
        // New entries use freed slots, or the end of the table. So if one of the last slots taken
        // is free, there is room.
        let taken = self.taken();
        let last = taken.saturating_sub(AT_ONCE)..taken;
        let mut last = last.filter_map(|index| u32::try_from(index).ok());

        if taken == 0 || last.any(|index| self.table.get_any_mut(index).is_ok()) {
            self.grow();
        }

        &mut self.table
    }

    fn grow(&mut self) {
        // The reserved part first, so that the common one is left to others.
        let shares = [self.reserved.get_mut(self.kind), &mut self.common];
        let from = shares
            .into_iter()
            .find_map(|share| share.take(STEP).then_some(share));
        let counted = from.is_some();

        // A handle needs both: a free number, and memory for what it keeps.
        if let Some(share) = from {
            if self.bytes.take(STEP * BYTES) {
                self.table.set_max_capacity(self.taken());
                return;
            }
            // Without memory for them, the handles go back to the plugin.
            share.keep(share.taken() - STEP);
        }

        let count = HandleLimit::Count(self.most);
        let memory = HandleLimit::Memory(self.bytes.limit());

        self.denied = Some(
            match (
                self.taken() + STEP <= self.most,
                self.bytes.would_suffice(STEP * BYTES),
            ) {
                (false, _) => (DeniedBy::Instance, count),
                (true, false) => (DeniedBy::Instance, memory),
                (true, true) => (DeniedBy::Total, if counted { memory } else { count }),
            },
        );
    }

    /// Returns the shares when the guest has dropped all its handles. The table is replaced,
    /// because it would keep its largest size.
    pub(super) fn tidy(&mut self) {
        if self.taken() > 0 && self.table.is_empty() {
            self.table = empty();
            for kind in CallKind::ALL {
                self.reserved.get_mut(kind).keep(0);
            }
            self.common.keep(0);
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
    fn all_instances_share_and_release_the_handles() {
        let (count, memory) = (
            HandleAccounts::new(30, &Gauge::default()),
            Account::new(1 << 30, Gauge::default()),
        );
        let (mut one, mut other) = (Handles::new(&count, &memory), Handles::new(&count, &memory));
        assert!(other.table().push(0_u8).is_ok());

        let held = fill(&mut one);
        let denied = Some((DeniedBy::Total, HandleLimit::Count(30)));
        assert_eq!((held.len(), one.denied), (16, denied), "in steps of eight");
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

    // Holds: SEC-30
    #[test]
    fn each_kind_of_calls_has_a_part_of_the_handles() {
        let (count, memory) = (
            HandleAccounts::new(1024, &Gauge::default()),
            Account::new(1 << 30, Gauge::default()),
        );
        let of = |kind| {
            let mut handles = Handles::new(&count, &memory);
            handles.kind = kind;
            handles
        };
        let mut balancers = of(CallKind::LoadBalancers);
        assert_eq!(fill(&mut balancers).len(), 640);

        let limit = HandleLimit::Count(640);
        assert_eq!(balancers.denied, Some((DeniedBy::Instance, limit)));
        for kind in [CallKind::Nodes, CallKind::Routes, CallKind::Volumes] {
            // An instance serves calls of all kinds.
            balancers.kind = kind;
            assert_eq!(fill(&mut balancers).len(), 128, "{kind:?}");
        }
        drop(balancers);
        let mut nodes = of(CallKind::Nodes);
        assert_eq!((count.taken(), fill(&mut nodes).len()), (0, 640));
    }

    #[test]
    fn a_deleted_handle_makes_room_for_another() {
        let (count, memory) = (
            HandleAccounts::new(8, &Gauge::default()),
            Account::new(1 << 30, Gauge::default()),
        );
        let mut handles = Handles::new(&count, &memory);
        let mut held = fill(&mut handles);
        let denied = Some((DeniedBy::Instance, HandleLimit::Count(8)));

        assert_eq!(
            (held.len(), handles.denied),
            (8, denied),
            "nobody else has any"
        );
        handles.table().delete(held.remove(3)).unwrap();
        assert_eq!(fill(&mut handles).len(), 1);
    }

    #[test]
    fn handles_count_as_memory_of_the_plugin() {
        let (count, memory) = (
            HandleAccounts::new(60, &Gauge::default()),
            Account::new(20 * BYTES, Gauge::default()),
        );
        let mut handles = Handles::new(&count, &memory);
        assert_eq!(fill(&mut handles).len(), 16);
        assert_eq!(
            count.taken(),
            16,
            "what could not be paid for is given back"
        );

        let limit = HandleLimit::Memory(20 * BYTES);
        assert_eq!(
            handles.denied,
            Some((DeniedBy::Instance, limit)),
            "more handles would not help"
        );

        let mut other = Handles::new(&count, &memory);
        assert!(fill(&mut other).is_empty());
        assert_eq!(other.denied, Some((DeniedBy::Total, limit)));
    }
}
