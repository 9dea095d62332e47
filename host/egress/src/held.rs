//! How much memory the bodies of one plugin take that this host holds, to look at them, sign them or send them again.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::{Cause, Code, Refusal};

/// Bytes of one plugin that are held at a time.
pub(crate) const MOST: usize = 32 << 20;

/// The memory for held bodies of one plugin. Clones are the same memory.
#[derive(Clone, Debug)]
pub(crate) struct Held(Arc<Semaphore>);

/// A part of it.
#[derive(Debug)]
pub(crate) struct Room(OwnedSemaphorePermit);

impl Default for Held {
    /// All of it free.
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Held {
    /// Waits for room for so many bytes. It is taken at once and not as a body grows, or bodies would wait for each other.
    pub(crate) async fn room(&self, bytes: u64) -> Result<Room, Refusal> {
        // It is never closed.
        let closed = |_| Refusal::new(Code::InternalError, Cause::Internal, "the gateway is closed");
        self.0.clone().acquire_many_owned(number(bytes)).await.map(Room).map_err(closed)
    }

    /// Room for so many bytes, if there is some now.
    pub(crate) fn try_room(&self, bytes: u64) -> Option<Room> {
        self.0.clone().try_acquire_many_owned(number(bytes)).ok().map(Room)
    }
}

impl Room {
    /// Makes one of two.
    pub(crate) fn join(&mut self, other: Self) {
        self.0.merge(other.0);
    }

    /// Gives what is left over back, and the rest when the last share in these bytes is gone.
    pub(crate) fn hold(mut self, bytes: Bytes) -> Bytes {
        let over = self.0.num_permits().saturating_sub(bytes.len());
        drop(self.0.split(over));
        Bytes::from_owner(Owner { bytes, _room: self })
    }
}

/// Bytes and their room.
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
    async fn room_comes_back_with_the_last_share() {
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
