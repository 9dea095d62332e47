//! What stands behind machine code in a file: what it was compiled from, and a digest that tells whether it is whole.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    os::fd::AsRawFd as _,
    path::PathBuf,
};

use sha2::{Digest as _, Sha256};

/// Begins each seal; the number changes with what a file looks like.
const MAGIC: &[u8] = b"skydock-compiled-2\n";

/// Bytes of a SHA-256.
const DIGEST: usize = 32;

/// Bytes behind the machine code.
const LENGTH: usize = MAGIC.len() + DIGEST + DIGEST;

/// What to write behind machine code that was compiled from this component.
pub(crate) fn seal(component: &[u8], machine_code: &[u8]) -> Vec<u8> {
    let component = Sha256::digest(component);
    written(component.into(), begun(component.into()).chain_update(machine_code))
}

/// The digest of both, so that neither can be exchanged: without the machine code yet.
fn begun(component: [u8; DIGEST]) -> Sha256 {
    Sha256::new().chain_update(MAGIC).chain_update(component)
}

fn written(component: [u8; DIGEST], both: Sha256) -> Vec<u8> {
    [MAGIC, &component, &both.finalize()].concat()
}

/// A file whose seal held when it was read: machine code first, where it can be mapped.
pub(crate) struct Artifact(File);

impl Artifact {
    /// Takes a file, if it is whole and was compiled from the component with this SHA-256 (in hexadecimal). Blocks.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn check(mut file: File, component: &str) -> io::Result<Option<Self>> {
        let Some(machine_code) = file.metadata()?.len().checked_sub(LENGTH as u64) else { return Ok(None) };
        let mut from = [0; DIGEST];
        if hex::decode_to_slice(component, &mut from).is_err() {
            return Ok(None);
        }
        let mut both = begun(from);
        let mut rest = BufReader::new((&mut file).take(machine_code));
        while let bytes @ [_, ..] = rest.fill_buf()? {
            both.update(bytes);
            let length = bytes.len();
            rest.consume(length);
        }
        let mut seal = Vec::with_capacity(LENGTH);
        file.read_to_end(&mut seal)?;
        Ok((seal == written(from, both)).then_some(Self(file)))
    }

    /// A name under which this process finds the file as long as this is there, whatever it is called by then.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/dev/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file.reopen().unwrap()
    }

    // Holds: SEC-14
    #[test]
    fn a_seal_holds_until_a_byte_changes_or_is_lost() {
        let (component, code) = (b"component", b"machine code");
        let whole = [code.to_vec(), seal(component, code)].concat();
        let name = hex::encode(Sha256::digest(component));
        let holds = |bytes: &[u8], name: &str| Artifact::check(file(bytes), name).unwrap().is_some();
        assert!(holds(&whole, &name));
        assert!(!holds(&whole, &hex::encode(Sha256::digest(b"another"))));
        assert!(!holds(&[&whole[..], b"more"].concat(), &name));
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(!holds(&changed, &name), "byte {at}");
            assert!(!holds(&whole[..at], &name), "cut at {at}");
        }
    }

    #[test]
    fn a_file_is_found_after_it_was_removed() {
        let whole = [b"code".to_vec(), seal(b"a", b"code")].concat();
        let artifact = Artifact::check(file(&whole), &hex::encode(Sha256::digest(b"a"))).unwrap().unwrap();
        assert_eq!(std::fs::read(artifact.path()).unwrap(), whole);
    }
}
