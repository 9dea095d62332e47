//! What the host writes to the standard input of the compiler's process: a few numbers, then the
//! component.

use std::io::{self, Read};

/// Start of an order; the number changes with the format. Both sides are the same program, except
/// in tests.
const MAGIC: u64 = u64::from_le_bytes(*b"skydock2");

/// Count of numbers in an order, including [`MAGIC`].
const NUMBERS: usize = 6;

/// Bytes before the component.
const HEAD: usize = NUMBERS * size_of::<u64>();

/// What to compile, and with which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Bytes of address space.
    pub(super) memory: u64,
    /// Seconds of CPU time.
    pub(super) cpu: u64,
    /// Bytes of address space to reserve for a memory of the component; 0 if address space is
    /// plentiful.
    pub(super) reservation: u64,
    /// Number of the file to write.
    pub(super) unfinished: u64,
    /// Bytes of the component, which follows.
    pub(super) component: u64,
}

impl Order {
    pub(super) fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let numbers = [
            MAGIC,
            self.memory,
            self.cpu,
            self.reservation,
            self.unfinished,
            self.component,
        ];

        for (place, number) in head.chunks_exact_mut(size_of::<u64>()).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }

        head
    }

    /// Reads everything before the component.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut number = || {
            let mut bytes = [0; size_of::<u64>()];
            input
                .read_exact(&mut bytes)
                .map(|()| u64::from_le_bytes(bytes))
        };

        if number()? != MAGIC {
            return Err(io::Error::other(
                "invalid input: this command is for Skydock's internal use",
            ));
        }

        let memory = number()?;
        let cpu = number()?;
        let reservation = number()?;

        Ok(Self {
            memory,
            cpu,
            reservation,
            unfinished: number()?,
            component: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_round_trips() {
        let order = Order {
            memory: 1,
            cpu: 2,
            reservation: 3,
            unfinished: u64::MAX,
            component: 4,
        };
        let bytes = order.head();
        assert_eq!(Order::read(&mut &bytes[..]).unwrap(), order);
        assert!(Order::read(&mut &bytes[..HEAD - 1]).is_err());

        let error = Order::read(&mut &[b'x'; HEAD][..]).unwrap_err();
        assert!(
            error.to_string().contains("for Skydock's internal use"),
            "{error}"
        );
    }
}
