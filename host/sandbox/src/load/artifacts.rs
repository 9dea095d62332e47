//! The compile cache: compiled plugins (machine code) on disk, which later processes reuse.

mod directory;
mod last_good;
mod seal;
mod surplus;

use std::{io, path::PathBuf, sync::Arc, time::SystemTime};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

pub use directory::CacheDirError;
pub(crate) use seal::{Artifact, seal};
pub(crate) use surplus::unfinished;

use self::directory::Directory;

/// Maximum bytes of an artifact: machine code is about three times as large as the component that
/// it was compiled from.
pub(crate) const LARGEST: u64 = 1 << 30;

/// A directory in memory to which every process of a container can write.
const SHARED_MEMORY: &str = "/dev/shm";

/// All artifacts of this process.
pub(crate) struct Artifacts {
    /// The operator's directory.
    parent: PathBuf,
    /// Skydock's own directory in it, which is recreated if someone deletes it.
    directory: Mutex<Arc<Directory>>,
    /// If the operator names no directory: a temporary one, which is deleted with the process.
    temporary: Option<TempDir>,
}

/// Identifies an artifact by what was compiled and by what compiled it: the SHA-256 of the
/// component, and [`crate::load::engine::compatibility`].
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) component: String,
    pub(crate) engine: String,
}

impl Key {
    fn file(&self) -> String {
        let both = Sha256::new()
            .chain_update(&self.component)
            .chain_update("\n")
            .chain_update(&self.engine);
        surplus::artifact(&hex::encode(both.finalize()))
    }
}

impl Artifacts {
    /// Opens the operator's directory, or a temporary one that is deleted at the end.
    ///
    /// # Errors
    /// If it cannot be used, or if others can write to it.
    pub(crate) fn open(parent: Option<PathBuf>) -> Result<Self, CacheDirError> {
        let (parent, temporary) = match parent {
            Some(parent) => (parent, None),
            None => {
                let mut builder = tempfile::Builder::new();
                let builder = builder.prefix("skydock-");
                // Also in a container whose root file system is read-only.
                let made = builder
                    .tempdir()
                    .or_else(|error| builder.tempdir_in(SHARED_MEMORY).map_err(|_| error))
                    .map_err(CacheDirError::Temporary)?;
                (made.path().to_owned(), Some(made))
            }
        };
        let directory = Mutex::new(Arc::new(Directory::open(&parent)?));

        Ok(Self {
            parent,
            directory,
            temporary,
        })
    }

    /// Returns true if later processes can use the artifacts.
    pub(crate) fn outlive(&self) -> bool {
        self.temporary.is_none()
    }

    /// Returns Skydock's own directory, and recreates it if someone has deleted it, as programs
    /// that clean up temporary files eventually do. Blocks.
    fn directory(&self) -> Result<Arc<Directory>, CacheDirError> {
        let mut directory = self.directory.lock();

        if directory.is_gone() {
            *directory = Arc::new(Directory::open(&self.parent)?);
        }
        Ok(Arc::clone(&directory))
    }

    /// Returns an artifact that was compiled earlier, if it exists and is intact. Blocks.
    pub(crate) fn find(&self, key: &Key) -> Option<Artifact> {
        let directory = self.directory().ok()?;
        let name = key.file();

        let file = directory.file(&name, LARGEST).ok()?;
        let artifact = Artifact::check(file, &key.component).ok().flatten();
        if artifact.is_none() {
            let path = directory.path().join(name);
            tracing::warn!(path = %path.display(), "compiled plugin is damaged; compiling again");
            return None;
        }

        // The most recently used artifact is kept longest. A failure only affects that order.
        let _ = directory.touch(&name);
        artifact
    }

    /// Prepares a file that a compiler can write, and deletes surplus files to make room for it.
    /// Blocks.
    ///
    /// # Errors
    /// If the directory was deleted and cannot be recreated.
    pub(crate) fn begin(&self) -> Result<Unfinished, CacheDirError> {
        let directory = self.directory()?;
        directory.tidy();
        Ok(Unfinished {
            directory,
            number: rand::random(),
        })
    }
}

/// A file that is being written, identified by a random number. It is deleted on drop, unless it is
/// kept.
pub(crate) struct Unfinished {
    directory: Arc<Directory>,
    number: u64,
}

impl Unfinished {
    /// Returns the working directory for the compiler.
    pub(crate) fn for_a_child(&self) -> PathBuf {
        self.directory.for_a_child()
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Keeps the file that a compiler has finished, and deletes surplus files. Blocks.
    ///
    /// # Errors
    /// If the file does not exist or is not intact.
    pub(crate) fn keep(self, key: &Key) -> io::Result<Artifact> {
        let name = unfinished(self.number);
        let file = self.directory.file(&name, LARGEST)?;
        // Checked before other processes can find it.
        let artifact = Artifact::check(file, &key.component)?.ok_or(io::ErrorKind::InvalidData)?;
        self.directory.rename(&name, &key.file())?;
        self.directory.tidy();

        Ok(artifact)
    }
}

impl Directory {
    /// Deletes surplus files. Blocks.
    fn tidy(&self) {
        if let Err(error) = self.remove_surplus() {
            tracing::warn!(%error, directory = %self.path().display(), "cannot delete old compiled plugins");
        }
    }

    fn remove_surplus(&self) -> io::Result<()> {
        for name in surplus::surplus(self.files()?, SystemTime::now()) {
            match self.remove(&name) {
                // Another process has deleted it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The file may not exist, or may have been kept. If deleting it fails, a later `begin`
        // deletes it.
        let _ = self.directory.remove(&unfinished(self.number));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(component: &[u8]) -> Key {
        Key {
            component: hex::encode(Sha256::digest(component)),
            engine: "0".repeat(64),
        }
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
    fn an_artifact_is_found_by_component_and_engine() {
        let parent = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(Some(parent.path().to_owned())).unwrap();
        assert!(artifacts.find(&key(b"a")).is_none());
        let kept = finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
        let machine_code = |artifact: &Artifact| fs::read(artifact.path()).unwrap()[..4].to_vec();
        assert_eq!(machine_code(&kept), b"code");

        let next = Artifacts::open(Some(parent.path().to_owned())).unwrap();
        assert_eq!(machine_code(&next.find(&key(b"a")).unwrap()), b"code");
        assert!(next.find(&key(b"b")).is_none());
        assert!(
            next.find(&Key {
                engine: "1".repeat(64),
                ..key(b"a")
            })
            .is_none()
        );
    }

    #[test]
    fn artifacts_outlive_the_process_in_a_named_directory() {
        let parent = tempfile::tempdir().unwrap();
        assert!(
            Artifacts::open(Some(parent.path().to_owned()))
                .unwrap()
                .outlive()
        );
        assert!(!Artifacts::open(None).unwrap().outlive());
    }

    #[test]
    fn an_artifact_of_another_component_is_not_kept() {
        let artifacts = Artifacts::open(None).unwrap();
        assert!(finish(&artifacts, b"b").keep(&key(b"a")).is_err());
        assert!(artifacts.begin().unwrap().keep(&key(b"a")).is_err());
        let left = fs::read_dir(path(&artifacts))
            .unwrap()
            .map(|it| it.unwrap().file_name());
        assert_eq!(
            left.collect::<Vec<_>>(),
            ["CACHEDIR.TAG"],
            "nothing is left behind"
        );
    }

    #[test]
    fn abandoned_files_are_removed_by_the_next_compilation() {
        let artifacts = Artifacts::open(None).unwrap();
        let left = path(&artifacts).join(unfinished(7));
        let file = fs::File::create(&left).unwrap();
        drop(artifacts.begin().unwrap());
        assert!(left.exists(), "somebody may be writing it");
        file.set_modified(SystemTime::now() - std::time::Duration::from_secs(3600))
            .unwrap();
        drop(artifacts.begin().unwrap());
        assert!(!left.exists());
    }

    #[test]
    fn a_truncated_or_swapped_file_is_not_found() {
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

    #[test]
    fn a_removed_directory_is_recreated() {
        let parent = tempfile::tempdir().unwrap();
        let named = parent.path().join("cache");
        for artifacts in [
            Artifacts::open(Some(named.clone())).unwrap(),
            Artifacts::open(None).unwrap(),
        ] {
            finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
            for gone in [
                path(&artifacts),
                path(&artifacts).parent().unwrap().to_owned(),
            ] {
                fs::remove_dir_all(gone).unwrap();
                assert!(artifacts.find(&key(b"a")).is_none());
                finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
                assert!(artifacts.find(&key(b"a")).is_some());
            }
        }
    }

    #[test]
    fn the_default_directory_is_removed_when_dropped() {
        let artifacts = Artifacts::open(None).unwrap();
        let path = path(&artifacts);
        finish(&artifacts, b"a").keep(&key(b"a")).unwrap();
        assert!(path.is_dir());
        drop(artifacts);
        assert!(!path.parent().unwrap().exists());
    }
}
