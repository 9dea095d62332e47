//! Files with secrets. A file is read again when it changes, whether it is written in place,
//! replaced by a rename, or reached through a symbolic link that a projected volume switches.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use crate::masking::secret::Secret;

/// Maximum size in bytes. Keys with certificates and service account tokens have a few thousand
/// bytes.
const MAX_FILE: u64 = 256 * 1024;

/// File systems have coarse timestamps (ext4: a timer tick; others: one or two seconds). A file
/// that changed this recently before it was read may change again without a change of its
/// timestamp.
const COARSEST_STAMP: Duration = Duration::from_secs(2);

/// Why a file does not provide a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    #[error("file {} cannot be read: {kind}", path.display())]
    Read { path: PathBuf, kind: io::ErrorKind },
    #[error("{} is not a regular file", path.display())]
    Kind { path: PathBuf },
    #[error("file {} is empty", path.display())]
    Empty { path: PathBuf },
    #[error("file {} is larger than {MAX_FILE} bytes, the maximum for secrets", path.display())]
    Large { path: PathBuf },
    #[error("file {} is not UTF-8", path.display())]
    Text { path: PathBuf },
}

/// Metadata that differs between two states of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What was read from a file.
struct Contents {
    stamp: Stamp,
    /// True if the timestamp was old enough when the file was read that every later change gets a
    /// different one.
    sure: bool,
    value: Secret,
}

/// What was read last.
#[derive(Clone, Debug)]
struct Read {
    stamp: Stamp,
    /// Like [`Contents::sure`].
    sure: bool,
    value: Secret,
    /// Version of the value, from 1. It increases when the value changes.
    version: u64,
}

/// A file with a secret. Clones are cheap and share the value that was read.
#[derive(Clone, Debug)]
pub(crate) struct SecretFile {
    path: Arc<Path>,
    last: Arc<Mutex<Option<Read>>>,
}

impl SecretFile {
    pub(crate) fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().into(),
            last: Arc::default(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the current secret without trailing line breaks.
    pub(crate) async fn read(&self) -> Result<Secret, FileError> {
        let path = self.path.clone();
        let last = self.last();
        let known = last.filter(|last| last.sure).map(|last| last.stamp);

        let found = tokio::task::spawn_blocking(move || read(&path, known, SystemTime::now()))
            .await
            .map_err(|_| FileError::Read {
                path: self.path.to_path_buf(),
                kind: io::ErrorKind::Interrupted,
            })??;

        let mut guard = self.last.lock();
        if let Some(Contents { stamp, sure, value }) = found {
            // A concurrent reader may have finished first: its version is kept if the value is the
            // same.
            let version = match guard.as_ref() {
                Some(last) if last.value == value => last.version,
                Some(last) => last.version.saturating_add(1),
                None => 1,
            };
            *guard = Some(Read {
                stamp,
                sure,
                value,
                version,
            });
        }

        let last = guard.as_ref().ok_or_else(|| FileError::Empty {
            path: self.path.to_path_buf(),
        })?;
        Ok(last.value.clone())
    }

    /// Like [`Self::read`], for files that contain text.
    pub(crate) async fn text(&self) -> Result<Secret, FileError> {
        let value = self.read().await?;
        if value.expose_str().is_none() {
            return Err(FileError::Text {
                path: self.path.to_path_buf(),
            });
        }
        Ok(value)
    }

    /// Returns the number of the version that was read last; 0 if the file was not read yet.
    pub(crate) fn version(&self) -> u64 {
        self.last().map_or(0, |last| last.version)
    }

    fn last(&self) -> Option<Read> {
        self.last.lock().clone()
    }
}

/// Returns a number that changes whenever a file changes, cannot be read any more, or can be read
/// again.
pub(crate) async fn inputs(files: &[SecretFile]) -> u64 {
    let mut inputs = DefaultHasher::new();
    for file in files {
        let is_readable = file.read().await.is_ok();
        (is_readable, file.version()).hash(&mut inputs);
    }
    inputs.finish()
}

/// Reads the file. Returns `None` if it has not changed since `known`, which was sure.
fn read(path: &Path, known: Option<Stamp>, now: SystemTime) -> Result<Option<Contents>, FileError> {
    let failed = |error: io::Error| FileError::Read {
        path: path.to_owned(),
        kind: error.kind(),
    };

    // The stamp is taken before the content: a change between the two is seen at the next read.
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let stamp = stamp(&metadata);
    if known == Some(stamp) {
        return Ok(None);
    }

    // A pipe provides the secret only once, and a second reader would wait forever.
    if !metadata.is_file() {
        return Err(FileError::Kind {
            path: path.to_owned(),
        });
    }

    let mut value = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    // One byte more tells a larger file from one with exactly the maximum size.
    file.take(MAX_FILE + 1)
        .read_to_end(&mut value)
        .map_err(failed)?;

    if value.len() as u64 > MAX_FILE {
        return Err(FileError::Large {
            path: path.to_owned(),
        });
    }

    // Editors and `echo` add a line break, which is no part of the secret.
    while value
        .last()
        .is_some_and(|byte| matches!(byte, b'\n' | b'\r'))
    {
        value.pop();
    }

    if value.is_empty() {
        return Err(FileError::Empty {
            path: path.to_owned(),
        });
    }

    let age = metadata
        .modified()
        .ok()
        .and_then(|modified| now.duration_since(modified).ok());
    Ok(Some(Contents {
        stamp,
        sure: age.is_some_and(|age| age > COARSEST_STAMP),
        value: Secret::new(value),
    }))
}

fn stamp(metadata: &std::fs::Metadata) -> Stamp {
    Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    async fn value(file: &SecretFile) -> (String, u64) {
        let value = file.read().await.unwrap();
        (value.expose_str().unwrap().to_owned(), file.version())
    }

    #[tokio::test]
    async fn trailing_line_ends_are_not_part_of_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, " a b \r\n\n").unwrap();
        assert_eq!(
            value(&SecretFile::new(&path)).await,
            (" a b ".to_owned(), 1)
        );
    }

    #[tokio::test]
    async fn a_file_rewritten_in_place_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "first").unwrap();
        let file = SecretFile::new(&path);
        assert_eq!(value(&file).await, ("first".to_owned(), 1));
        // The value has the same length, and is written within the granularity of timestamps.
        fs::write(&path, "other").unwrap();
        assert_eq!(value(&file).await, ("other".to_owned(), 2));
        assert_eq!(value(&file).await, ("other".to_owned(), 2));
        fs::write(&path, "other\n").unwrap();
        assert_eq!(
            value(&file).await,
            ("other".to_owned(), 2),
            "the same value is the same version"
        );
    }

    #[tokio::test]
    async fn a_projected_secret_is_read_again_when_its_link_changes() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("..1", "first"), ("..2", "other")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            let path = folder.path().join(name).join("token");
            fs::write(&path, text).unwrap();
            let old = SystemTime::now() - Duration::from_secs(3600);
            fs::File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .set_modified(old)
                .unwrap();
        }

        symlink("..1", folder.path().join("..data")).unwrap();
        symlink("..data/token", folder.path().join("token")).unwrap();
        let file = SecretFile::new(folder.path().join("token"));
        assert_eq!(value(&file).await, ("first".to_owned(), 1));
        symlink("..2", folder.path().join("..new")).unwrap();
        fs::rename(folder.path().join("..new"), folder.path().join("..data")).unwrap();
        assert_eq!(value(&file).await, ("other".to_owned(), 2));
    }

    #[tokio::test]
    async fn files_that_are_gone_and_back_are_changes() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let files = paths.each_ref().map(SecretFile::new);
        let [a, b] = &paths;
        fs::write(a, "one").unwrap();
        fs::write(b, "one").unwrap();
        let first = inputs(&files).await;
        assert_eq!(inputs(&files).await, first);

        fs::remove_file(a).unwrap();
        let without_a = inputs(&files).await;
        assert_ne!(without_a, first);
        assert_eq!(inputs(&files).await, without_a);

        fs::write(a, "one").unwrap();
        fs::remove_file(b).unwrap();
        let without_b = inputs(&files).await;
        assert_ne!(without_b, without_a);
        assert_ne!(without_b, first);

        fs::write(b, "one").unwrap();
        assert_eq!(inputs(&files).await, first, "the same values");
        fs::write(b, "two").unwrap();
        assert_ne!(inputs(&files).await, first);
    }

    #[tokio::test]
    async fn an_unusable_secret_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let file = SecretFile::new(&path);
        let error = file.read().await.unwrap_err().to_string();
        assert!(
            error.contains("secret cannot be read: entity not found"),
            "{error}"
        );
        fs::write(&path, "\n").unwrap();
        assert!(matches!(file.read().await, Err(FileError::Empty { .. })));
        fs::write(&path, vec![b'a'; 300_000]).unwrap();
        assert!(matches!(file.read().await, Err(FileError::Large { .. })));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(file.text().await, Err(FileError::Text { .. })));
        // A directory and a device. A pipe is detected in the same way, before it is opened.
        for path in [folder.path(), Path::new("/dev/zero")] {
            assert!(
                matches!(
                    SecretFile::new(path).read().await,
                    Err(FileError::Kind { .. })
                ),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "first").unwrap();
        let later = SystemTime::now() + Duration::from_secs(10);
        let Contents { stamp, sure, .. } = read(&path, None, later).unwrap().unwrap();
        assert!(sure);
        assert!(read(&path, Some(stamp), later).unwrap().is_none());
        assert!(read(&path, None, later).unwrap().is_some());
    }
}
