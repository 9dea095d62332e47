//! The seal after the machine code in a file: what the code was compiled from, and a digest that
//! shows whether the file is intact.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    os::fd::AsRawFd as _,
    path::PathBuf,
};

use sha2::{Digest as _, Sha256};

/// Start of each seal; the number changes with the format of the files.
const MAGIC: &[u8] = b"skydock-compiled-2\n";

/// Bytes of a SHA-256.
const DIGEST: usize = 32;

/// Bytes of a seal.
const LENGTH: usize = MAGIC.len() + DIGEST + DIGEST;

/// Returns the seal for machine code that was compiled from this component.
pub(crate) fn seal(component: &[u8], machine_code: &[u8]) -> Vec<u8> {
    let component = Sha256::digest(component);
    written(
        component.into(),
        begun(component.into()).chain_update(machine_code),
    )
}

/// Starts the digest of both, component and machine code, so that neither can be exchanged. The
/// machine code is added later.
fn begun(component: [u8; DIGEST]) -> Sha256 {
    Sha256::new().chain_update(MAGIC).chain_update(component)
}

fn written(component: [u8; DIGEST], both: Sha256) -> Vec<u8> {
    [MAGIC, &component, &both.finalize()].concat()
}

/// A file whose seal was valid when it was read. The machine code comes first in the file, because
/// it must be mappable.
pub(crate) struct Artifact(File);

impl Artifact {
    /// Accepts a file if it is intact and was compiled from the component with this SHA-256 (in
    /// hexadecimal). Blocks.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn check(mut file: File, component: &str) -> io::Result<Option<Self>> {
        let Some(machine_code) = file.metadata()?.len().checked_sub(LENGTH as u64) else {
            return Ok(None);
        };
        let mut from = [0; DIGEST];
        if hex::decode_to_slice(component, &mut from).is_err() {
            return Ok(None);
        }

        let mut both = begun(from);
        // In pieces, because machine code is mapped and never copied.
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

    /// Returns a path by which this process finds the file while `self` exists, even if the file is
    /// renamed.
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
    fn a_seal_detects_changed_and_missing_bytes() {
        let (component, code) = (b"component", b"machine code");
        let whole = [code.to_vec(), seal(component, code)].concat();
        let name = hex::encode(Sha256::digest(component));
        let holds =
            |bytes: &[u8], name: &str| Artifact::check(file(bytes), name).unwrap().is_some();
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
    fn an_artifact_is_readable_after_its_file_was_removed() {
        let whole = [b"code".to_vec(), seal(b"a", b"code")].concat();
        let artifact = Artifact::check(file(&whole), &hex::encode(Sha256::digest(b"a")))
            .unwrap()
            .unwrap();
        assert_eq!(std::fs::read(artifact.path()).unwrap(), whole);
    }
}
