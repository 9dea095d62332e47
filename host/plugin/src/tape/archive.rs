//! The directory of recordings: a file for each instance, and a limit for all.
//!
//! A thread writes the files, so that a slow or failing disk delays no call. What it cannot write
//! is missing, and the log says so.

mod writer;

use std::{
    fmt,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use self::writer::{Message, Writer, cut};
use super::mask::{Known, Masks};

/// End of the names of recordings.
pub(super) const SUFFIX: &str = ".jsonl";

/// Maximum bytes that wait to be written.
const BACKLOG: usize = 64 << 20;

/// Size from which an instance is replaced, so that old files can be removed.
const LARGE: u64 = 64 << 20;

/// Time that the end of the process waits for what is not written yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reasons why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordingsError {
    /// The directory cannot be used.
    #[error("cannot use the directory for recordings {}: {source}", path.display())]
    Io {
        /// Path of the directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Others can read it.
    #[error("the directory for recordings {} is accessible by other users (mode {mode:04o}): `chmod 0700` it", path.display())]
    Open {
        /// Path of the directory.
        path: PathBuf,
        /// Mode of the directory.
        mode: u32,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread that writes recordings: {0}")]
    Thread(io::Error),
}

/// Writes recordings into a directory. Clones share it.
#[derive(Clone)]
pub struct Recordings(Arc<Archive>);

impl fmt::Debug for Recordings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recordings").finish_non_exhaustive()
    }
}

struct Archive {
    /// None only while it is dropped.
    sender: Option<Sender<Message>>,
    ended: Mutex<Receiver<()>>,
    backlog: Arc<AtomicUsize>,
    instances: AtomicU64,
    large: u64,
    known: Arc<Mutex<Known>>,
}

impl Recordings {
    /// Uses a directory, which is created with mode 0700 if it does not exist. Its recordings take
    /// at most `limit` bytes: the oldest are removed.
    ///
    /// # Errors
    /// [`RecordingsError`].
    pub fn open(directory: &Path, limit: u64) -> Result<Self, RecordingsError> {
        let failed = |source| RecordingsError::Io {
            path: directory.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed)?;
        let mode = fs::metadata(directory).map_err(failed)?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(RecordingsError::Open {
                path: directory.to_owned(),
                mode,
            });
        }
        let (sender, receiver) = channel();
        let (ending, ended) = channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let mut writer = Writer::new(directory, limit, Arc::clone(&backlog)).map_err(failed)?;
        let thread = thread::Builder::new().name("recordings".to_owned());
        thread
            .spawn(move || {
                receiver.iter().for_each(|message| writer.take(message));
                // Nobody waits any longer if this fails.
                let _ = ending.send(());
            })
            .map_err(RecordingsError::Thread)?;
        Ok(Self(Arc::new(Archive {
            sender: Some(sender),
            ended: Mutex::new(ended),
            backlog,
            instances: AtomicU64::new(0),
            large: LARGE.min(limit / 4),
            known: Arc::default(),
        })))
    }

    /// Opens the file of an instance. Names of files are ordered by time.
    pub(super) fn open_reel(&self, plugin: &str, generation: u64, started_ms: u64) -> Reel {
        let instance = self.0.instances.fetch_add(1, Ordering::Relaxed) + 1;
        let plugin: String = plugin
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let name = format!("{started_ms:014}-{plugin}-{generation}-{instance}{SUFFIX}");
        self.0.send(Message::Open {
            file: instance,
            name,
        });
        Reel {
            archive: Arc::clone(&self.0),
            file: instance,
            size: 0,
            cut: false,
        }
    }

    /// Returns masks that know the secrets of all instances.
    pub(super) fn masks(&self) -> Masks {
        Masks::sharing(Arc::clone(&self.0.known))
    }
}

impl Archive {
    fn send(&self, message: Message) {
        // The thread does not end before the sender is gone.
        if let Some(sender) = &self.sender {
            let _ = sender.send(message);
        }
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        drop(self.sender.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(ended.recv_timeout(PATIENCE), Err(RecvTimeoutError::Timeout)) {
            tracing::warn!(
                "the last recordings are incomplete: the disk did not accept them in time"
            );
        }
    }
}

/// The file of one instance.
pub(super) struct Reel {
    archive: Arc<Archive>,
    file: u64,
    size: u64,
    /// A line was lost. What follows would make no sense.
    cut: bool,
}

impl Reel {
    /// Returns the number of the instance, which counts those of all plugins in this process.
    pub(super) fn instance(&self) -> u64 {
        self.file
    }

    /// Writes a line later.
    pub(super) fn write(&mut self, line: Vec<u8>) {
        if self.cut {
            return;
        }
        if self.archive.backlog.load(Ordering::Relaxed) > BACKLOG {
            return self.stop("the disk was too slow");
        }
        self.send(line);
    }

    /// Writes why the rest is missing.
    pub(super) fn stop(&mut self, why: &str) {
        if !std::mem::replace(&mut self.cut, true) {
            tracing::warn!("a recording is incomplete: {why}");
            self.send(cut(why));
        }
    }

    fn send(&mut self, line: Vec<u8>) {
        self.size += line.len() as u64;
        self.archive
            .backlog
            .fetch_add(line.len(), Ordering::Relaxed);
        self.archive.send(Message::Line {
            file: self.file,
            line,
        });
    }

    /// Returns true if another file should follow: this one is so large, or it was cut and the disk
    /// has caught up.
    pub(super) fn is_full(&self) -> bool {
        let caught_up = self.archive.backlog.load(Ordering::Relaxed) <= BACKLOG / 2;
        self.cut && caught_up || self.size > self.archive.large
    }
}

impl Drop for Reel {
    fn drop(&mut self) {
        self.archive.send(Message::Close { file: self.file });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{super::recorder::Recorder, *};

    fn files(dir: &Path) -> Vec<(PathBuf, String)> {
        let mut found: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|it| it.unwrap().path())
            .collect();
        found.sort();
        found
            .into_iter()
            .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
            .collect()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_can_read_recordings() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        let recordings = Recordings::open(&dir, 1 << 20).unwrap();
        Recorder::begin(&recordings, "p", 1, "digest").call("plugin.info", &());
        drop(recordings);
        let files = files(&dir);
        assert_eq!(
            (files.len(), mode(&dir), mode(&files[0].0)),
            (1, 0o700, 0o600)
        );
        assert_eq!(files[0].1.lines().count(), 2, "{files:?}");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        let error = Recordings::open(&dir, 1).unwrap_err().to_string();
        assert!(
            error.ends_with("is accessible by other users (mode 0750): `chmod 0700` it"),
            "{error}"
        );
    }

    #[test]
    fn the_oldest_recordings_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        for _ in 0..3 {
            // Each process finds those of earlier ones. It starts in a later millisecond, which is
            // in the names of its files.
            thread::sleep(Duration::from_millis(2));
            let recordings = Recordings::open(dir.path(), 2500).unwrap();
            for _ in 0..3 {
                Recorder::begin(&recordings, "p", 1, "digest")
                    .call("plugin.info", &["x".repeat(500)]);
            }
        }
        let files = files(dir.path());
        let total: usize = files.iter().map(|(_, text)| text.len()).sum();
        assert!(
            files.len() == 3 && total <= 2500,
            "{} files, {total} bytes",
            files.len()
        );
        assert!(
            files.iter().all(|(_, text)| text.lines().count() == 2),
            "{files:?}"
        );
    }

    #[test]
    fn files_of_others_are_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(dir.path().join("0-data.jsonl"), "x".repeat(5000)).unwrap();
        let recordings = Recordings::open(dir.path(), 1000).unwrap();
        for _ in 0..3 {
            Recorder::begin(&recordings, "p", 1, "digest").call("plugin.info", &["x".repeat(500)]);
        }
        drop(recordings);
        let files = files(dir.path());
        assert_eq!((files.len(), files[0].1.len()), (2, 5000), "{files:?}");
    }

    // Holds: SEC-26
    #[test]
    fn a_secret_in_two_pieces_or_another_instance_is_masked() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let recordings = Recordings::open(dir.path(), 1 << 20).unwrap();
        let (one, other) = (
            Recorder::begin(&recordings, "p", 1, "digest"),
            Recorder::begin(&recordings, "p", 1, "digest"),
        );
        let pieces =
            ["{\"pass", "word\": \"hunter2-", "hunter2\"}"].map(|piece| piece.as_bytes().to_vec());
        one.pieces(1, &pieces);
        other.host(
            "cache.get",
            serde_json::json!(["session"]),
            serde_json::json!({"text": "hunter2-hunter2"}),
        );
        other.request_body(1, b"password=hunter3-hunter3&user=\xff".to_vec(), true);
        drop((one, other, recordings));
        let text: String = files(dir.path())
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        let piece = "{\"piece\":{\"exchange\":1,\"body\":{\"text\":\"word\\\": \\\"xxxxxxxx\"}}}";
        assert!(text.contains(piece), "{text}");
        let encoded = "{\"base64\":\"cGFzc3dvcmQ9eHh4";
        assert!(
            !text.contains("hunter2") && text.contains(encoded),
            "{text}"
        );
    }

    #[test]
    fn instances_are_kept_while_the_disk_is_too_slow() {
        let dir = tempfile::tempdir().unwrap();
        let recordings = Recordings::open(&dir.path().join("new"), 1 << 20).unwrap();
        let recorder = Recorder::begin(&recordings, "p", 1, "digest");
        recordings
            .0
            .backlog
            .fetch_add(2 * BACKLOG, Ordering::Relaxed);
        recorder.answer(&());
        assert!(
            !recorder.is_full(),
            "another one could not be recorded either"
        );
        recordings
            .0
            .backlog
            .fetch_sub(2 * BACKLOG, Ordering::Relaxed);
        recorder.answer(&());
        assert!(recorder.is_full());
    }

    #[test]
    fn a_recording_that_reaches_the_limit_says_so() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let recordings = Recordings::open(dir.path(), 2000).unwrap();
        let recorder = Recorder::begin(&recordings, "p", 1, "digest");
        for _ in 0..5 {
            recorder.call("plugin.info", &["x".repeat(500)]);
        }
        recorder.answer(&());
        assert!(recorder.is_full());
        drop((recorder, recordings));
        let [(_, text)] = &*files(dir.path()) else {
            panic!()
        };
        assert!(
            text.ends_with("{\"cut\":\"the limit of all recordings was reached\"}\n"),
            "{text}"
        );
    }

    #[test]
    fn a_disk_that_fails_breaks_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        let recordings = Recordings::open(&gone, 1 << 20).unwrap();
        fs::remove_dir_all(&gone).unwrap();
        let recorder = Recorder::begin(&recordings, "p", 1, "digest");
        recorder.call("plugin.info", &());
        recorder.answer(&());
        assert!(!recorder.is_full());
    }
}
