//! The limit on memory for bodies of a plugin that are buffered to inspect, sign or resend them.

use std::sync::Arc;

use bytes::Bytes;
use skydock_cloud::CallKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::{Cause, Code, Refusal};

/// Maximum number of bytes that are buffered for the requests of one kind of calls of a plugin: a
/// third of 32 MiB, so that bodies that do not end leave the other kinds their part.
pub(crate) const MOST: usize = (32 << 20) / CallKind::ALL.len();

/// The memory for buffered bodies of one kind of calls. Clones share the same memory.
#[derive(Clone, Debug)]
pub(crate) struct Held(Arc<Semaphore>);

/// A reserved part of the memory.
#[derive(Debug)]
pub(crate) struct Room(OwnedSemaphorePermit);

impl Default for Held {
    /// Returns memory that is completely free.
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Held {
    /// Waits until this number of bytes is free, and reserves them. They are reserved at once and
    /// not as a body grows, since growing bodies could deadlock.
    pub(crate) async fn room(&self, bytes: u64) -> Result<Room, Refusal> {
        // The semaphore is never closed.
        let closed = |_| {
            Refusal::new(
                Code::InternalError,
                Cause::Internal,
                "the gateway is closed",
            )
        };
        self.0
            .clone()
            .acquire_many_owned(number(bytes))
            .await
            .map(Room)
            .map_err(closed)
    }

    /// Reserves this number of bytes if they are free now.
    pub(crate) fn try_room(&self, bytes: u64) -> Option<Room> {
        self.0
            .clone()
            .try_acquire_many_owned(number(bytes))
            .ok()
            .map(Room)
    }
}

impl Room {
    /// Merges two reservations.
    pub(crate) fn join(&mut self, other: Self) {
        self.0.merge(other.0);
    }

    /// Releases the unused part, and the rest when the last reference to these bytes is dropped.
    pub(crate) fn hold(mut self, bytes: Bytes) -> Bytes {
        let over = self.0.num_permits().saturating_sub(bytes.len());
        drop(self.0.split(over));
        Bytes::from_owner(Owner { bytes, _room: self })
    }
}

/// Bytes with their reservation.
struct Owner {
    bytes: Bytes,
    _room: Room,
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

    #[tokio::test]
    async fn room_is_released_with_the_last_share() {
        let held = Held::default();
        let mut room = held.room(MOST as u64 - 10).await.unwrap();
        assert!(held.try_room(11).is_none());
        room.join(held.try_room(10).unwrap());
        assert!(held.try_room(1).is_none());
        let bytes = room.hold(Bytes::from_static(b"four"));
        let share = bytes.slice(1..2);
        drop(bytes);
        assert!(held.try_room(MOST as u64 - 3).is_none());
        drop(held.try_room(MOST as u64 - 4).unwrap());
        drop(share);
        assert!(held.try_room(MOST as u64).is_some());
    }
}
