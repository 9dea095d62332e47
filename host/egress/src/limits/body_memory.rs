//! The limit on memory for bodies of a plugin that are buffered to inspect, sign or resend them.

use std::sync::Arc;

use bytes::Bytes;
use skydock_cloud::CallKind;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    limits::shares::{Kinds, Shares},
    request_error::RequestError,
};

/// Maximum number of bytes that are buffered for one plugin.
pub const MOST: usize = 32 << 20;

/// How many of these are reserved for each kind of calls: four bodies of the largest size, so that
/// bodies that do not end leave the other kinds their part.
pub(crate) const PART: usize = 4 << 20;

/// The memory for buffered bodies of one kind of calls of a plugin.
#[derive(Clone, Debug)]
pub(crate) struct BodyMemory {
    shares: Arc<Shares>,
    kind: CallKind,
}

/// Reserved parts of the memory.
#[derive(Debug)]
pub(crate) struct Reservation(Vec<OwnedSemaphorePermit>);

/// Returns the memory of a plugin, divided among these kinds of calls.
pub(crate) fn shares(kinds: Kinds) -> Arc<Shares> {
    Arc::new(Shares::new(MOST, PART, kinds))
}

impl BodyMemory {
    /// Returns the memory for this kind of calls.
    pub(crate) fn of(shares: &Arc<Shares>, kind: CallKind) -> Self {
        Self {
            shares: Arc::clone(shares),
            kind,
        }
    }

    /// Waits until this number of bytes is free, and reserves them. They are reserved at once and
    /// not as a body grows, since growing bodies could deadlock.
    pub(crate) async fn reserve(&self, bytes: u64) -> Result<Reservation, RequestError> {
        let permit = self.shares.acquire_many(self.kind, number(bytes)).await?;
        Ok(Reservation(vec![permit]))
    }

    /// Reserves this number of bytes if they are free now.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let permit = self.shares.try_acquire_many(self.kind, number(bytes))?;
        Some(Reservation(vec![permit]))
    }
}

impl Reservation {
    /// Merges two reservations.
    pub(crate) fn merge(&mut self, other: Self) {
        for permit in other.0 {
            // `merge` panics if the permits are not of the same semaphore.
            let is_same = |known: &&mut OwnedSemaphorePermit| {
                Arc::ptr_eq(known.semaphore(), permit.semaphore())
            };

            match self.0.iter_mut().find(is_same) {
                Some(known) => known.merge(permit),
                None => self.0.push(permit),
            }
        }
    }

    /// Releases the unused part, and the rest when the last reference to these bytes is dropped.
    pub(crate) fn attach_to(mut self, bytes: Bytes) -> Bytes {
        let all: usize = self.0.iter().map(OwnedSemaphorePermit::num_permits).sum();
        let mut over = all.saturating_sub(bytes.len());

        for permit in &mut self.0 {
            let part = over.min(permit.num_permits());
            drop(permit.split(part));
            over -= part;
        }

        Bytes::from_owner(Owner {
            bytes,
            _reservation: self,
        })
    }
}

/// Bytes with their reservation.
struct Owner {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn number(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind can have four MiB, and one of the kinds the 20 that are left.
    fn memory() -> BodyMemory {
        BodyMemory::of(&shares(Kinds::ALL), CallKind::Nodes)
    }

    #[tokio::test]
    async fn memory_is_released_with_the_last_share() {
        let memory = memory();
        let common = MOST - CallKind::ALL.len() * PART;
        let _common = memory.reserve(common as u64).await.unwrap();
        let mut reservation = memory.reserve(PART as u64 - 10).await.unwrap();
        assert!(memory.try_reserve(11).is_none());
        reservation.merge(memory.try_reserve(10).unwrap());
        assert!(memory.try_reserve(1).is_none());
        let bytes = reservation.attach_to(Bytes::from_static(b"four"));
        let share = bytes.slice(1..2);
        drop(bytes);
        assert!(memory.try_reserve(PART as u64 - 3).is_none());
        drop(memory.try_reserve(PART as u64 - 4).unwrap());
        drop(share);
        assert!(memory.try_reserve(PART as u64).is_some());
    }

    #[test]
    fn a_body_may_be_in_both_parts() {
        let memory = memory();
        let mut reservation = memory.try_reserve(PART as u64).unwrap();
        reservation.merge(memory.try_reserve(5).unwrap());
        let bytes = reservation.attach_to(Bytes::from_static(b"four"));
        drop(memory.try_reserve(PART as u64 - 4).unwrap());
        drop(bytes);
        assert!(memory.try_reserve(PART as u64).is_some());
    }
}
