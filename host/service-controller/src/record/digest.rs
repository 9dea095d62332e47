//! Hashes that are the same in each process.

use std::hash::Hasher;

use sha2::{Digest as _, Sha256};

/// The first 128 bits of a SHA-256: nobody can name a node or write a Service so that it is taken
/// for another.
///
/// How std feeds a hasher may change with the compiler and with the architecture. Then hashes of
/// equal values differ, which costs what an unknown value costs.
#[derive(Clone, Default)]
pub(crate) struct Digest {
    hash: Sha256,
    /// What was written since. Most writes are a few bytes, and each update of the hash has a cost
    /// of its own.
    pending: Vec<u8>,
}

/// Size of [`Digest::pending`].
const PENDING: usize = 4096;

impl Digest {
    pub(crate) fn result(mut self) -> u128 {
        self.hash.update(&self.pending);
        let bytes = self.hash.finalize();
        let half = bytes.iter().take(16);
        half.fold(0, |digest, byte| (digest << 8) | u128::from(*byte))
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PENDING {
            self.hash.update(&self.pending);
            self.pending.clear();
        }
    }

    fn finish(&self) -> u64 {
        let result = self.clone().result();
        u64::try_from(result >> 64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    #[test]
    fn a_digest_is_the_same_in_each_process() {
        let mut digest = Digest::default();
        digest.write(b"abc");
        // FIPS 180-4, example of SHA-256.
        assert_eq!(digest.finish(), 0xba78_16bf_8f01_cfea);
        assert_eq!(digest.result(), 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223);

        let long = vec![b'a'; 1_000_000];
        let (mut whole, mut pieces) = (Digest::default(), Digest::default());
        whole.write(&long);
        long.chunks(7).for_each(|piece| pieces.write(piece));
        // The same example.
        assert_eq!(whole.finish(), 0xcdc7_6e5c_9914_fb92);
        assert_eq!(pieces.finish(), whole.finish());

        let of = |value: (&str, &str)| {
            let mut digest = Digest::default();
            value.hash(&mut digest);
            digest.result()
        };
        assert_eq!(of(("ab", "c")), of(("ab", "c")));
        assert_ne!(of(("ab", "c")), of(("a", "bc")));
    }
}
