//! What stands in front of machine code in a file: what it was compiled from, and a digest that tells whether it is whole.

use sha2::{Digest as _, Sha256};

/// Begins each file; the number changes with what follows.
const MAGIC: &[u8] = b"skydock-compiled-1\n";

/// Bytes of a SHA-256.
const DIGEST: usize = 32;

/// Bytes in front of the machine code.
const LENGTH: usize = MAGIC.len() + DIGEST + DIGEST;

/// The digest of both, so that neither can be exchanged.
fn digest(component: &[u8], machine_code: &[u8]) -> [u8; DIGEST] {
    Sha256::new().chain_update(MAGIC).chain_update(component).chain_update(machine_code).finalize().into()
}

/// What to write in front of machine code that was compiled from this component.
pub(crate) fn seal(component: &[u8], machine_code: &[u8]) -> Vec<u8> {
    let component: [u8; DIGEST] = Sha256::digest(component).into();
    [MAGIC, &component, &digest(&component, machine_code)].concat()
}

/// A file whose seal holds.
pub(crate) struct Artifact(Vec<u8>);

impl Artifact {
    /// Takes the bytes of a file, if they are whole and were compiled from the component with this SHA-256 (in hexadecimal).
    pub(super) fn check(bytes: Vec<u8>, component: &str) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (from, rest) = rest.split_at_checked(DIGEST)?;
        let (written, machine_code) = rest.split_at_checked(DIGEST)?;
        let holds = hex::encode(from) == component && written == digest(from, machine_code);
        holds.then_some(Self(bytes))
    }

    /// What the compiler wrote.
    pub(crate) fn machine_code(&self) -> &[u8] {
        self.0.get(LENGTH..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: SEC-14
    #[test]
    fn a_seal_holds_until_a_byte_changes_or_is_lost() {
        let (component, code) = (b"component", b"machine code");
        let whole = [seal(component, code), code.to_vec()].concat();
        let name = hex::encode(Sha256::digest(component));
        let artifact = Artifact::check(whole.clone(), &name).unwrap();
        assert_eq!(artifact.machine_code(), code);
        assert!(Artifact::check(whole.clone(), &hex::encode(Sha256::digest(b"another"))).is_none());
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(Artifact::check(changed, &name).is_none(), "byte {at}");
            assert!(Artifact::check(whole[..at].to_vec(), &name).is_none(), "cut at {at}");
        }
    }
}
