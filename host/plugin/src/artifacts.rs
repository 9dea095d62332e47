//! Compiled plugins on disk: what one process has compiled, the next one finds.

mod directory;
mod seal;
mod surplus;

use std::{io, path::PathBuf, time::SystemTime};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

pub use directory::CacheDirError;
pub(crate) use seal::{Artifact, seal};
pub(crate) use surplus::unfinished;

use self::directory::Directory;

/// Bytes of the largest artifact: machine code has some three times the size of what it was compiled from.
pub(crate) const LARGEST: u64 = 1 << 30;

/// All artifacts of this process.
pub(crate) struct Artifacts {
    directory: Directory,
    /// Without a directory of the operator's, one that goes with the process.
    _temporary: Option<TempDir>,
}

/// Names what was compiled, and by what: the SHA-256 of the component, and [`crate::engine::compatibility`].
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) component: String,
    pub(crate) engine: String,
}

impl Key {
    fn file(&self) -> String {
        let both = Sha256::new().chain_update(&self.component).chain_update("\n").chain_update(&self.engine);
        surplus::artifact(&hex::encode(both.finalize()))
    }
}

impl Artifacts {
    /// Opens the directory that the operator names, or one that is removed at the end.
    ///
    /// # Errors
    /// If it cannot be used, or others can write in it.
    pub(crate) fn open(parent: Option<PathBuf>) -> Result<Self, CacheDirError> {
        let Some(parent) = parent else {
            let temporary = tempfile::Builder::new().prefix("skydock-").tempdir().map_err(CacheDirError::Temporary)?;
            return Ok(Self { directory: Directory::open(temporary.path())?, _temporary: Some(temporary) });
        };
        Ok(Self { directory: Directory::open(&parent)?, _temporary: None })
    }

    /// What was compiled earlier, if it is there and whole. Blocks.
    pub(crate) fn find(&self, key: &Key) -> Option<Artifact> {
        let name = key.file();
        let bytes = self.directory.read(&name, LARGEST).ok()?;
        let artifact = Artifact::check(bytes, &key.component);
        if artifact.is_none() {
            let path = self.directory.path().join(name);
            tracing::warn!(path = %path.display(), "a compiled plugin is damaged: compiling again");
            return None;
        }
        // What was used last is kept longest; nothing else depends on it.
        let _ = self.directory.touch(&name);
        artifact
    }

    /// Keeps what a compiler has just finished, and removes what is old. Blocks.
    ///
    /// # Errors
    /// If it is not there, or not whole.
    pub(crate) fn keep(&self, unfinished: &Unfinished, key: &Key) -> io::Result<Artifact> {
        let bytes = self.directory.read(&unfinished.name(), LARGEST)?;
        let artifact = Artifact::check(bytes, &key.component).ok_or(io::ErrorKind::InvalidData)?;
        self.directory.rename(&unfinished.name(), &key.file())?;
        if let Err(error) = self.tidy() {
            tracing::warn!(%error, directory = %self.directory.path().display(), "old compiled plugins cannot be removed");
        }
        Ok(artifact)
    }

    /// Where the compiler is to work.
    pub(crate) fn for_a_child(&self) -> PathBuf {
        self.directory.for_a_child()
    }

    /// Removes a file that was not finished.
    pub(crate) fn abandon(&self, unfinished: &Unfinished) {
        // There may be none; what stays behind is removed in a day.
        let _ = self.directory.remove(&unfinished.name());
    }

    fn tidy(&self) -> io::Result<()> {
        for name in surplus::surplus(self.directory.files()?, SystemTime::now()) {
            match self.directory.remove(&name) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

/// A file that is being written, by a number that nobody else draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unfinished(pub(crate) u64);

impl Unfinished {
    pub(crate) fn new() -> Self {
        Self(rand::random())
    }

    fn name(self) -> String {
        unfinished(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(component: &[u8]) -> Key {
        Key { component: hex::encode(Sha256::digest(component)), engine: "0".repeat(64) }
    }

    fn finish(artifacts: &Artifacts, component: &[u8]) -> Unfinished {
        let unfinished = Unfinished::new();
        let bytes = [seal(component, b"code"), b"code".to_vec()].concat();
        fs::write(artifacts.for_a_child().join(unfinished.name()), bytes).unwrap();
        unfinished
    }

    #[test]
    fn what_was_kept_is_found_by_component_and_engine() {
        let parent = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(Some(parent.path().to_owned())).unwrap();
        assert!(artifacts.find(&key(b"a")).is_none());
        let kept = artifacts.keep(&finish(&artifacts, b"a"), &key(b"a")).unwrap();
        assert_eq!(kept.machine_code(), b"code");
        let next = Artifacts::open(Some(parent.path().to_owned())).unwrap();
        assert_eq!(next.find(&key(b"a")).unwrap().machine_code(), b"code");
        assert!(next.find(&key(b"b")).is_none());
        assert!(next.find(&Key { engine: "1".repeat(64), ..key(b"a") }).is_none());
    }

    #[test]
    fn what_was_compiled_from_something_else_is_not_kept() {
        let artifacts = Artifacts::open(None).unwrap();
        assert!(artifacts.keep(&finish(&artifacts, b"b"), &key(b"a")).is_err());
        assert!(artifacts.keep(&Unfinished::new(), &key(b"a")).is_err());
    }

    #[test]
    fn a_torn_or_exchanged_file_is_not_found() {
        let artifacts = Artifacts::open(None).unwrap();
        artifacts.keep(&finish(&artifacts, b"a"), &key(b"a")).unwrap();
        artifacts.keep(&finish(&artifacts, b"b"), &key(b"b")).unwrap();
        let path = |key: &Key| artifacts.directory.path().join(key.file());
        let whole = fs::read(path(&key(b"a"))).unwrap();
        fs::write(path(&key(b"a")), &whole[..whole.len() - 1]).unwrap();
        assert!(artifacts.find(&key(b"a")).is_none());
        fs::rename(path(&key(b"b")), path(&key(b"a"))).unwrap();
        assert!(artifacts.find(&key(b"a")).is_none());
    }

    // Holds: OPS-69
    #[test]
    fn a_directory_nobody_named_goes_with_the_process() {
        let artifacts = Artifacts::open(None).unwrap();
        let path = artifacts.directory.path().to_owned();
        artifacts.keep(&finish(&artifacts, b"a"), &key(b"a")).unwrap();
        assert!(path.is_dir());
        drop(artifacts);
        assert!(!path.parent().unwrap().exists());
    }
}
