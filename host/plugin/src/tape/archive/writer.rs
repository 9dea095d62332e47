//! The thread that writes the files of recordings, and removes the oldest ones.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{super::entry::Entry, SUFFIX};

/// What the thread is told.
pub(super) enum Message {
    Open { file: u64, name: String },
    Line { file: u64, line: Vec<u8> },
    Close { file: u64 },
}

/// Returns true for a name that [`open_reel`](super::Recordings::open_reel) gives. Other files are
/// not ours to remove.
fn is_name(name: &str) -> bool {
    let parts = name
        .strip_suffix(SUFFIX)
        .and_then(|name| name.split_once('-'));
    parts.is_some_and(|(time, _)| time.len() == 14 && time.bytes().all(|it| it.is_ascii_digit()))
}

/// Returns the line that says why the rest of a recording is missing.
pub(super) fn cut(why: &str) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Entry::Cut(why.to_owned())).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The state of the thread.
pub(super) struct Writer {
    directory: PathBuf,
    limit: u64,
    backlog: Arc<AtomicUsize>,
    open: HashMap<u64, Film>,
    /// Complete files, the oldest first.
    closed: VecDeque<(PathBuf, u64)>,
    /// Bytes of all files.
    total: u64,
    /// That the limit is reached was reported, and there was no room since.
    silent: bool,
}

struct Film {
    path: PathBuf,
    /// None after an error, and if the limit was reached.
    file: Option<File>,
    size: u64,
}

impl Writer {
    /// Begins with the recordings of earlier processes.
    pub(super) fn new(directory: &Path, limit: u64, backlog: Arc<AtomicUsize>) -> io::Result<Self> {
        let mut writer = Self {
            directory: directory.to_owned(),
            limit,
            backlog,
            open: HashMap::new(),
            closed: VecDeque::new(),
            total: 0,
            silent: false,
        };
        writer.find()?;
        Ok(writer)
    }

    /// Finds the recordings of earlier processes.
    fn find(&mut self) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() && is_name(&entry.file_name().to_string_lossy()) {
                self.total += metadata.len();
                found.push((entry.path(), metadata.len()));
            }
        }
        found.sort_unstable();
        self.closed = found.into();
        Ok(())
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Open { file, name } => {
                let path = self.directory.join(name);
                let opened = OpenOptions::new()
                    .append(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path);
                let opened = opened.inspect_err(|error| tell(&path, error)).ok();
                self.open.insert(
                    file,
                    Film {
                        path,
                        file: opened,
                        size: 0,
                    },
                );
            }
            Message::Line { file, line } => {
                self.backlog.fetch_sub(line.len(), Ordering::Relaxed);
                self.write(file, &line);
            }
            Message::Close { file } => {
                if let Some(film) = self.open.remove(&file) {
                    self.closed.push_back((film.path, film.size));
                }
            }
        }
    }

    fn write(&mut self, file: u64, line: &[u8]) {
        let room = self.make_room(line.len() as u64);
        let silent = std::mem::replace(&mut self.silent, !room);
        let Some(film) = self.open.get_mut(&file) else {
            return;
        };
        let Some(to) = &mut film.file else { return };
        let last = if room {
            None
        } else {
            Some(cut("the limit of all recordings was reached"))
        };
        let written = to.write_all(last.as_deref().unwrap_or(line));
        if let Err(error) = &written {
            tell(&film.path, error);
        }
        if last.is_some() && !silent {
            tracing::warn!(
                "recording stopped: the recordings of instances in use fill --record-limit; increase it"
            );
        }
        if last.is_some() || written.is_err() {
            film.file = None;
            return;
        }
        film.size += line.len() as u64;
        self.total += line.len() as u64;
    }

    /// Removes the oldest recordings until the line fits. Returns false if it does not.
    fn make_room(&mut self, line: u64) -> bool {
        while self.total + line > self.limit {
            let Some((path, size)) = self.closed.pop_front() else {
                return false;
            };
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => tell(&path, &error),
                _ => {}
            }
            self.total = self.total.saturating_sub(size);
        }
        true
    }
}

fn tell(path: &Path, error: &io::Error) {
    tracing::warn!(%error, "cannot write recording {}; calls are not affected", path.display());
}
