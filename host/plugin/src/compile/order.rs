//! What the host tells the compiler's process on its standard input: a few numbers, then the component.

use std::io::{self, Read};

/// Begins an order; the number changes with what follows. Both sides are the same program, unless a test says otherwise.
const MAGIC: u64 = u64::from_le_bytes(*b"skydock2");

/// Numbers of an order, [`MAGIC`] included.
const NUMBERS: usize = 6;

/// Bytes in front of the component.
const HEAD: usize = NUMBERS * size_of::<u64>();

/// What to compile, and within which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Bytes of address space.
    pub(super) memory: u64,
    /// Seconds of CPU time.
    pub(super) cpu: u64,
    /// Bytes of address space for a memory of the component; 0 if there is enough of it.
    pub(super) reservation: u64,
    /// Number of the file to write.
    pub(super) unfinished: u64,
    /// Bytes of the component, which follow.
    pub(super) component: u64,
}

impl Order {
    pub(super) fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let numbers = [MAGIC, self.memory, self.cpu, self.reservation, self.unfinished, self.component];
        for (place, number) in head.chunks_exact_mut(size_of::<u64>()).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        head
    }

    /// Reads all but the component.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut number = || {
            let mut bytes = [0; size_of::<u64>()];
            input.read_exact(&mut bytes).map(|()| u64::from_le_bytes(bytes))
        };
        if number()? != MAGIC {
            return Err(io::Error::other("standard input holds no order: this command is for Skydock's own use"));
        }
        let (memory, cpu, reservation) = (number()?, number()?, number()?);
        Ok(Self { memory, cpu, reservation, unfinished: number()?, component: number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = Order { memory: 1, cpu: 2, reservation: 3, unfinished: u64::MAX, component: 4 };
        let bytes = order.head();
        assert_eq!(Order::read(&mut &bytes[..]).unwrap(), order);
        assert!(Order::read(&mut &bytes[..HEAD - 1]).is_err());
        let error = Order::read(&mut &[b'x'; HEAD][..]).unwrap_err();
        assert!(error.to_string().contains("for Skydock's own use"), "{error}");
    }
}
