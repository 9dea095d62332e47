//! The directory of recordings: a file for each instance, and a limit for all.
//!
//! A thread masks what is recorded and writes the files, so that neither that nor a slow or failing
//! disk delays a call. What waits for it counts toward the memory of the plugin. What it cannot
//! write is missing, and the log says so.
//!
//! A limit is a constant here, and enforced by `EventSender`, or by the thread in `writer.rs`. The
//! limit for all files is that of `--record-limit`.

mod event;
mod writer;

use std::{
    fmt,
    fs::DirBuilder,
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use skydock_resources::{
    account::{Account, Share},
    own_directory::{self, NotOwn},
};

pub(super) use self::event::Event;
pub use self::writer::recording_file::COMPRESSED;
use self::writer::{Message, Writer};

/// End of the names of recordings.
pub(super) const SUFFIX: &str = ".jsonl";

/// Maximum bytes that wait for the thread.
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
    /// It is a file, or a symbolic link.
    #[error("the directory for recordings {} is not a directory: set another one with --record", .0.display())]
    NotDirectory(PathBuf),
    /// It belongs to another user.
    #[error(
        "the directory for recordings {} belongs to user {owner}, but this process runs as user {user}: \
         set another one with --record", path.display()
    )]
    Owner {
        /// Path of the directory.
        path: PathBuf,
        /// User who owns it.
        owner: u32,
        /// User of this process.
        user: u32,
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
            .or_else(|error| match error.kind() {
                // Only a link to nowhere: what it is shows below.
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })
            .map_err(failed)?;
        let opened = opened(directory)?;

        let (sender, receiver) = channel();
        let (ending, ended) = channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let mut writer =
            Writer::new(opened, directory, limit, Arc::clone(&backlog)).map_err(failed)?;

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
            // Several files must fit below a small limit, so that old ones can be removed.
            large: LARGE.min(limit / 4),
        })))
    }

    /// Opens the file of an instance. Names of files are ordered by time. What waits to be written
    /// counts toward the memory of the plugin.
    pub(super) fn open_file(
        &self,
        plugin: &str,
        generation: u64,
        started_ms: u64,
        memory: &Arc<Account>,
    ) -> EventSender {
        let instance = self.0.instances.fetch_add(1, Ordering::Relaxed) + 1;
        // The operator's name for the plugin may have any characters.
        let plugin: String = plugin
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();

        let name = format!("{started_ms:014}-{plugin}-{generation}-{instance}{SUFFIX}");
        self.0.send(Message::Open {
            file: instance,
            name,
        });

        EventSender {
            archive: Arc::clone(&self.0),
            memory: Arc::clone(memory),
            file: instance,
            size: 0,
            cut: false,
        }
    }
}

/// Opens the directory, which must be this user's own: nobody else may read what is recorded, or
/// decide where it goes.
fn opened(directory: &Path) -> Result<OwnedFd, RecordingsError> {
    let path = directory.to_owned();
    match own_directory::open(rustix::fs::CWD, directory) {
        Ok((_, mode)) | Err(NotOwn::Writable(mode)) if mode & 0o077 != 0 => {
            Err(RecordingsError::Open { path, mode })
        }
        Ok((fd, _)) => Ok(fd),
        Err(NotOwn::Writable(mode)) => Err(RecordingsError::Open { path, mode }),
        Err(NotOwn::Io(source)) => Err(RecordingsError::Io { path, source }),
        Err(NotOwn::NotDirectory) => Err(RecordingsError::NotDirectory(path)),
        Err(NotOwn::Owner { owner, user }) => Err(RecordingsError::Owner { path, owner, user }),
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
        // Without a sender, the thread ends when it has written what waits.
        drop(self.sender.take());

        let ended = self.ended.get_mut();
        if matches!(ended.recv_timeout(PATIENCE), Err(RecvTimeoutError::Timeout)) {
            tracing::warn!(
                "the last recordings are incomplete: the disk did not accept them in time"
            );
        }
    }
}

/// The file of one instance.
pub(super) struct EventSender {
    archive: Arc<Archive>,
    /// The memory of the plugin.
    memory: Arc<Account>,
    file: u64,
    size: u64,
    /// A line was lost. What follows would make no sense.
    cut: bool,
}

impl EventSender {
    /// Returns the number of the instance, which counts those of all plugins in this process.
    pub(super) fn instance(&self) -> u64 {
        self.file
    }

    /// Masks and writes something later.
    pub(super) fn write(&mut self, event: Event) {
        if self.cut {
            return;
        }
        if self.archive.backlog.load(Ordering::Relaxed) > BACKLOG {
            return self.stop("it was not masked and written fast enough");
        }

        let size = event.size();
        let mut held = Share::new(&self.memory);
        if !held.take(size) {
            return self.stop("the plugin's limit memory-total was reached");
        }

        self.send(event, size, held);
    }

    /// Writes why the rest is missing.
    pub(super) fn stop(&mut self, why: &str) {
        if !std::mem::replace(&mut self.cut, true) {
            tracing::warn!("a recording is incomplete: {why}");
            // Without a share of the memory: this is written even if nothing is left of it.
            self.send(Event::Cut(why.to_owned()), 0, Share::new(&self.memory));
        }
    }

    fn send(&mut self, event: Event, size: usize, held: Share) {
        self.size += size as u64;
        self.archive.backlog.fetch_add(size, Ordering::Relaxed);
        self.archive.send(Message::Event {
            file: self.file,
            event,
            size,
            held,
        });
    }

    /// Returns true if another file should follow: this one is so large, or it was cut and the disk
    /// has caught up.
    pub(super) fn is_full(&self) -> bool {
        let caught_up = self.archive.backlog.load(Ordering::Relaxed) <= BACKLOG / 2;
        self.cut && caught_up || self.size > self.archive.large
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        self.archive.send(Message::Close { file: self.file });
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::{super::recorder::Recorder, *};

    const ORIGIN: crate::Origin<'static> = crate::Origin {
        contract: "0.1.0",
        plugin: "p",
        generation: 1,
        component: "digest",
    };

    fn memory(limit: usize) -> Arc<Account> {
        Account::new(limit, prometheus_client::metrics::gauge::Gauge::default())
    }

    fn begin(recordings: &Recordings) -> Recorder {
        Recorder::begin(recordings, ORIGIN, &memory(1 << 30))
    }

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
        begin(&recordings).call("plugin.info", &());
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

    // Holds: SEC-52
    #[test]
    fn a_directory_that_is_not_ones_own_is_rejected() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let open = |path: &Path| Recordings::open(path, 1 << 20).map(|_| ());
        fs::write(path("file"), "").unwrap();
        open(&path("own")).unwrap();
        for (name, target) in [("link", "own"), ("dangling", "nowhere")] {
            std::os::unix::fs::symlink(path(target), path(name)).unwrap();
        }
        for name in ["file", "link", "dangling", "link/"] {
            let result = open(&path(name));
            assert!(
                matches!(result, Err(RecordingsError::NotDirectory(_))),
                "{name}: {result:?}"
            );
        }
        // Only root can give a directory away.
        if std::os::unix::fs::chown(path("own"), Some(1000), None).is_ok()
            && own_directory::user() != 1000
        {
            assert!(matches!(
                open(&path("own")),
                Err(RecordingsError::Owner { owner: 1000, .. })
            ));
        }
    }

    // Holds: SEC-52
    #[test]
    fn a_directory_swapped_later_is_not_written_to() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, away) = (parent.path().join("dir"), parent.path().join("away"));
        let recordings = Recordings::open(&dir, 1 << 20).unwrap();
        fs::rename(&dir, &away).unwrap();
        fs::create_dir(&dir).unwrap();
        begin(&recordings).call("plugin.info", &());
        drop(recordings);
        assert_eq!((files(&dir).len(), files(&away).len()), (0, 1));
    }

    // Holds: SEC-04
    #[test]
    fn recordings_count_toward_the_memory_of_the_plugin() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new");
        let (recordings, memory) = (Recordings::open(&dir, 1 << 20).unwrap(), memory(100 << 10));
        let recorder = Recorder::begin(&recordings, ORIGIN, &memory);
        for exchange in 1..4 {
            recorder.received(exchange, &[b'.'; 30 << 10]);
        }
        assert!(memory.taken() >= 90 << 10, "until the bodies have ended");

        recorder.sent(4, &[b'.'; 30 << 10]);
        (1..4).for_each(|exchange| recorder.response_body(exchange));
        drop((recorder, recordings));
        assert_eq!(memory.taken(), 0);

        let [(_, text)] = &*files(&dir) else { panic!() };
        assert!(
            text.ends_with("{\"cut\":\"the plugin's limit memory-total was reached\"}\n")
                && !text.contains("piece"),
            "{text}"
        );
    }

    // Holds: SEC-04
    #[test]
    fn masking_takes_no_time_of_a_call() {
        let used = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(
                time.tv_sec.try_into().unwrap(),
                time.tv_nsec.try_into().unwrap(),
            )
        };
        let parent = tempfile::tempdir().unwrap();
        let recordings = Recordings::open(&parent.path().join("new"), 64 << 20).unwrap();
        let recorder = begin(&recordings);
        let body = "\"name\": \"x\", \"token\": \"abc\", ".repeat(16 << 10);
        let begun = used();
        recorder.received(1, body.as_bytes());
        recorder.response_body(1);
        let recorded = used() - begun;
        super::super::mask::Masks::default().mask_bytes(body.as_bytes());
        let masked = used() - begun - recorded;

        assert!(recorded * 10 < masked, "{recorded:?}, {masked:?}");
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
                begin(&recordings).call("plugin.info", &["x".repeat(500)]);
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
            begin(&recordings).call("plugin.info", &["x".repeat(500)]);
        }
        drop(recordings);
        let files = files(dir.path());
        assert_eq!((files.len(), files[0].1.len()), (2, 5000), "{files:?}");
    }

    #[test]
    fn a_recording_that_cannot_be_removed_still_counts() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let stuck = dir.path().join("00000000000001-p-1-1.jsonl");
        let old = dir.path().join("00000000000002-p-1-2.jsonl");
        fs::write(&stuck, "x".repeat(1500)).unwrap();
        fs::write(&old, "x".repeat(500)).unwrap();
        let recordings = Recordings::open(dir.path(), 3000).unwrap();

        // What is not a file cannot be removed, whoever tries it.
        fs::remove_file(&stuck).unwrap();
        fs::create_dir(&stuck).unwrap();
        let recorder = begin(&recordings);
        for _ in 0..4 {
            recorder.call("plugin.info", &["x".repeat(500)]);
        }
        drop((recorder, recordings));

        assert!(!old.exists(), "the next one is removed instead");
        fs::remove_dir(&stuck).unwrap();
        let [(_, text)] = &*files(dir.path()) else {
            panic!()
        };
        assert!(
            text.len() < 1500
                && text.ends_with("{\"cut\":\"the limit of all recordings was reached\"}\n"),
            "{text}"
        );
    }

    // Holds: SEC-26
    #[test]
    fn a_compressed_body_ends_the_recording() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new");
        let recordings = Recordings::open(&dir, 1 << 20).unwrap();
        let recorder = begin(&recordings);
        for piece in [&b"\x1f"[..], b"\x8b", b"\x08compressed"] {
            recorder.received(1, piece);
        }
        recorder.response_body(1);
        recorder.answer(&"later");
        drop((recorder, recordings));
        let [(_, text)] = &*files(&dir) else { panic!() };

        assert!(
            text.ends_with(&format!("{{\"cut\":\"{COMPRESSED}\"}}\n")),
            "{text}"
        );
    }

    // Holds: SEC-26
    #[test]
    fn encoded_secrets_are_masked() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new");
        let recordings = Recordings::open(&dir, 1 << 20).unwrap();
        let recorder = begin(&recordings);
        let secret = "{\"global\": {\"password\": \"hunter2-hunter2\"}}";
        let wide: Vec<u8> = secret.bytes().flat_map(|byte| [byte, 0]).collect();
        let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, secret);
        for (exchange, body) in (1..).zip([wide.as_slice(), base64.as_bytes()]) {
            recorder.received(exchange, body);
            recorder.response_body(exchange);
        }
        drop((recorder, recordings));
        let [(_, text)] = &*files(&dir) else { panic!() };
        let plain = text.replace("\\u0000", "");

        assert!(
            !plain.contains("hunter2") && !text.contains(&base64) && text.contains("piece"),
            "{text}"
        );
    }

    // Holds: SEC-26
    #[test]
    fn a_secret_in_two_pieces_or_another_instance_is_masked() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let recordings = Recordings::open(dir.path(), 1 << 20).unwrap();
        let (one, other) = (begin(&recordings), begin(&recordings));
        let pieces =
            ["{\"pass", "word\": \"hunter2-", "hunter2\"}"].map(|piece| piece.as_bytes().to_vec());
        pieces.iter().for_each(|piece| one.received(1, piece));
        one.response_body(1);
        other.host(
            crate::functions::CACHE_GET,
            serde_json::json!(["session"]),
            serde_json::json!({"text": "hunter2-hunter2"}),
        );
        other.sent(1, b"password=hunter3-");
        other.sent(1, b"hunter3&user=\xff");
        other.request_body(1, true);
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
        let recorder = begin(&recordings);
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
        let recorder = begin(&recordings);
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
        let recorder = begin(&recordings);
        recorder.call("plugin.info", &());
        recorder.answer(&());
        assert!(!recorder.is_full());
    }
}
