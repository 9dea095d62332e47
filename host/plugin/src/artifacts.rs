//! Compiled plugins on disk: what one process has compiled, the next one finds.

mod directory;
mod seal;
mod surplus;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

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
    /// The operator's directory.
    parent: PathBuf,
    /// Our own in it, as long as nobody removes it.
    directory: Mutex<Arc<Directory>>,
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
        let (parent, temporary) = match parent {
            Some(parent) => (parent, None),
            None => {
                let made = tempfile::Builder::new().prefix("skydock-").tempdir().map_err(CacheDirError::Temporary)?;
                (made.path().to_owned(), Some(made))
            }
        };
        let directory = Mutex::new(Arc::new(Directory::open(&parent)?));
        Ok(Self { parent, directory, _temporary: temporary })
    }

    /// Our own directory, made anew if somebody has removed it: what keeps temporary files few does so in the end. Blocks.
    fn directory(&self) -> Result<Arc<Directory>, CacheDirError> {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if directory.is_gone() {
            *directory = Arc::new(Directory::open(&self.parent)?);
        }
        Ok(Arc::clone(&directory))
    }

    /// What was compiled earlier, if it is there and whole. Blocks.
    pub(crate) fn find(&self, key: &Key) -> Option<Artifact> {
        let (directory, name) = (self.directory().ok()?, key.file());
        let file = directory.file(&name, LARGEST).ok()?;
        let artifact = Artifact::check(file, &key.component).ok().flatten();
        if artifact.is_none() {
            let path = directory.path().join(name);
            tracing::warn!(path = %path.display(), "a compiled plugin is damaged: compiling again");
            return None;
        }
        // What was used last is kept longest; nothing else depends on it.
        let _ = directory.touch(&name);
        artifact
    }

    /// A place for a compiler to write to. Blocks.
    ///
    /// # Errors
    /// If the directory was removed, and cannot be made anew.
    pub(crate) fn begin(&self) -> Result<Unfinished, CacheDirError> {
        Ok(Unfinished { directory: self.directory()?, number: rand::random() })
    }
}

/// A file that is being written, by a number that nobody else draws. It is removed with this, unless it is kept.
pub(crate) struct Unfinished {
    directory: Arc<Directory>,
    number: u64,
}

impl Unfinished {
    /// Where the compiler is to work.
    pub(crate) fn for_a_child(&self) -> PathBuf {
        self.directory.for_a_child()
    }

    /// The number of the file.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Keeps what a compiler has just finished, and removes what is old. Blocks.
    ///
    /// # Errors
    /// If it is not there, or not whole.
    pub(crate) fn keep(self, key: &Key) -> io::Result<Artifact> {
        let name = unfinished(self.number);
        let file = self.directory.file(&name, LARGEST)?;
        let artifact = Artifact::check(file, &key.component)?.ok_or(io::ErrorKind::InvalidData)?;
        self.directory.rename(&name, &key.file())?;
        if let Err(error) = self.tidy() {
            tracing::warn!(%error, directory = %self.directory.path().display(), "old compiled plugins cannot be removed");
        }
        Ok(artifact)
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

impl Drop for Unfinished {
    fn drop(&mut self) {
        // There may be none, or it is kept by now; what stays behind is removed in a day.
        let _ = self.directory.remove(&unfinished(self.number));
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
        let begun = artifacts.begin().unwrap();
        let bytes = [b"code".to_vec(), seal(component, b"code")].concat();
        fs::write(begun.for_a_child().join(unfinished(begun.number())), bytes).unwrap();
        begun
    }

    fn path(artifacts: &Artifacts) -> PathBuf {
        artifacts.directory().unwrap().path().to_owned()
    }

    #[test]
    fn what_was_kept_is_found_by_component_and_engine() {
        let parent = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(Some(parent.path().to_owned())).unwrap();
        assert!(artifacts.find(&key(b"a")).is_none());
        let kept = finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
        let machine_code = |artifact: &Artifact| fs::read(artifact.path()).unwrap()[..4].to_vec();
        assert_eq!(machine_code(&kept), b"code");
        let next = Artifacts::open(Some(parent.path().to_owned())).unwrap();
        assert_eq!(machine_code(&next.find(&key(b"a")).unwrap()), b"code");
        assert!(next.find(&key(b"b")).is_none());
        assert!(next.find(&Key { engine: "1".repeat(64), ..key(b"a") }).is_none());
    }

    #[test]
    fn what_was_compiled_from_something_else_is_not_kept() {
        let artifacts = Artifacts::open(None).unwrap();
        assert!(finish(&artifacts, b"b").keep(&key(b"a")).is_err());
        assert!(artifacts.begin().unwrap().keep(&key(b"a")).is_err());
        let left = fs::read_dir(path(&artifacts)).unwrap().map(|it| it.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["CACHEDIR.TAG"], "nothing is left behind");
    }

    #[test]
    fn a_torn_or_exchanged_file_is_not_found() {
        let artifacts = Artifacts::open(None).unwrap();
        finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
        finish(&artifacts, b"b").keep(&key(b"b")).unwrap();
        let path = |key: &Key| path(&artifacts).join(key.file());
        let whole = fs::read(path(&key(b"a"))).unwrap();
        fs::write(path(&key(b"a")), &whole[..whole.len() - 1]).unwrap();
        assert!(artifacts.find(&key(b"a")).is_none());
        fs::rename(path(&key(b"b")), path(&key(b"a"))).unwrap();
        assert!(artifacts.find(&key(b"a")).is_none());
    }

    // Holds: OPS-68
    #[test]
    fn a_directory_that_was_removed_is_made_anew() {
        let parent = tempfile::tempdir().unwrap();
        let named = parent.path().join("cache");
        for artifacts in [Artifacts::open(Some(named.clone())).unwrap(), Artifacts::open(None).unwrap()] {
            finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
            for gone in [path(&artifacts), path(&artifacts).parent().unwrap().to_owned()] {
                fs::remove_dir_all(gone).unwrap();
                assert!(artifacts.find(&key(b"a")).is_none());
                finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
                assert!(artifacts.find(&key(b"a")).is_some());
            }
        }
    }

    // Holds: OPS-69
    #[test]
    fn a_directory_nobody_named_goes_with_the_process() {
        let artifacts = Artifacts::open(None).unwrap();
        let path = path(&artifacts);
        finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
        assert!(path.is_dir());
        drop(artifacts);
        assert!(!path.parent().unwrap().exists());
    }
}
