//! The thread that masks and writes recordings, and removes the oldest ones.

pub(crate) mod recording_file;

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use skydock_resources::account::Share;

use super::{super::mask::Masks, Event, SUFFIX};
use crate::entry::Entry;

use self::recording_file::RecordingFile;

/// What the thread is to do.
pub(super) enum Message {
    Open {
        file: u64,
        name: String,
    },
    Event {
        file: u64,
        event: Event,
        /// Bytes that waited for the thread.
        size: usize,
        /// Returned when it is written.
        held: Share,
    },
    Close {
        file: u64,
    },
}

/// Returns true for a name that [`open_file`](super::Recordings::open_file) gives. Other files are
/// not ours to remove.
fn is_name(name: &str) -> bool {
    let parts = name
        .strip_suffix(SUFFIX)
        .and_then(|name| name.split_once('-'));
    parts.is_some_and(|(time, _)| time.len() == 14 && time.bytes().all(|it| it.is_ascii_digit()))
}

/// The state of the thread.
pub(super) struct Writer {
    /// Held open: whoever can rename a directory above it cannot replace it.
    directory: OwnedFd,
    /// Its path, for messages.
    path: PathBuf,
    limit: u64,
    backlog: Arc<AtomicUsize>,
    open: HashMap<u64, RecordingFile>,
    /// Complete files, the oldest first.
    closed: VecDeque<(String, u64)>,
    /// Bytes of all files.
    total: u64,
    /// That the limit is reached was reported, and there was no room since.
    silent: bool,
    /// They know the secrets of all instances.
    masks: Masks,
}

impl Writer {
    /// Begins with the recordings of earlier processes.
    pub(super) fn new(
        directory: OwnedFd,
        path: &Path,
        limit: u64,
        backlog: Arc<AtomicUsize>,
    ) -> io::Result<Self> {
        let mut writer = Self {
            directory,
            path: path.to_owned(),
            limit,
            backlog,
            open: HashMap::new(),
            closed: VecDeque::new(),
            total: 0,
            silent: false,
            masks: Masks::default(),
        };

        writer.find()?;
        Ok(writer)
    }

    /// Finds the recordings of earlier processes.
    fn find(&mut self) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.directory)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().ok().filter(|name| is_name(name)) else {
                continue;
            };

            let stat = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
                let size = u64::try_from(stat.st_size).unwrap_or_default();
                self.total += size;
                found.push((name.to_owned(), size));
            }
        }

        // Their names begin with the time.
        found.sort_unstable();
        self.closed = found.into();
        Ok(())
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Open { file, name } => {
                let opened = self.create(&name);
                let opened = opened.inspect_err(|error| self.warn(&name, error)).ok();
                self.open.insert(file, RecordingFile::new(name, opened));
            }
            Message::Event {
                file,
                event,
                size,
                held,
            } => {
                self.backlog.fetch_sub(size, Ordering::Relaxed);

                let recording = self.open.get_mut(&file);
                let Some(recording) = recording.filter(|recording| recording.file.is_some()) else {
                    return;
                };

                for line in recording.lines(event, held, &self.masks) {
                    self.write(file, &line);
                }
            }
            Message::Close { file } => {
                if let Some(recording) = self.open.remove(&file) {
                    self.closed.push_back((recording.name, recording.size));
                }
            }
        }
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;

        Ok(rustix::fs::openat(&self.directory, name, flags, mode)?.into())
    }

    fn write(&mut self, file: u64, line: &[u8]) {
        let room = self.make_room(line.len() as u64);
        let silent = std::mem::replace(&mut self.silent, !room);

        let Some(recording) = self.open.get_mut(&file) else {
            return;
        };
        let Some(to) = &mut recording.file else {
            return;
        };

        let last = (!room).then(|| cut("the limit of all recordings was reached"));
        let written = to.write_all(last.as_deref().unwrap_or(line));
        let is_last = last.is_some() || written.is_err();

        if is_last {
            // What follows a gap would make no sense.
            recording.file = None;
        } else {
            recording.size += line.len() as u64;
            self.total += line.len() as u64;
        }

        if let Err(error) = &written {
            let name = recording.name.clone();
            self.warn(&name, error);
        }

        if last.is_some() && !silent {
            tracing::warn!(
                "recording stopped: the recordings of instances in use fill --record-limit; increase it"
            );
        }
    }

    /// Removes the oldest recordings until the line fits. Returns false if it does not.
    fn make_room(&mut self, line: u64) -> bool {
        let mut kept = Vec::new();

        while self.total + line > self.limit {
            let Some((name, size)) = self.closed.pop_front() else {
                break;
            };

            match rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty()) {
                // Someone else may have removed it.
                Ok(()) | Err(Errno::NOENT) => self.total = self.total.saturating_sub(size),
                Err(error) => {
                    let path = self.path.join(&name);
                    tracing::warn!(
                        %error,
                        "cannot remove recording {}, which counts toward --record-limit",
                        path.display()
                    );
                    kept.push((name, size));
                }
            }
        }

        // They still take room, and may be removed later.
        for it in kept.into_iter().rev() {
            self.closed.push_front(it);
        }
        self.total + line <= self.limit
    }

    fn warn(&self, name: &str, error: &io::Error) {
        let path = self.path.join(name);
        tracing::warn!(%error, "cannot write recording {}; calls are not affected", path.display());
    }
}

/// Returns the line that says why the rest of a recording is missing.
fn cut(why: &str) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Entry::Cut(why.to_owned())).unwrap_or_default();
    line.push(b'\n');
    line
}
