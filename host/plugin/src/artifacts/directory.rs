//! The directory that machine code is kept in.
//!
//! What is in it is run with all rights of this process, so nobody else may write there. It is a directory of our own within
//! the one that the operator names, in which nothing else is touched. It is checked once and held open from then on: whoever
//! can rename one of the directories above it puts another in its place for others, and not for this process.

use std::{
    fs::{self, DirBuilder},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT},
    io::Errno,
};

use super::surplus::File;

/// Our own directory within the operator's. The number changes with what the files in it look like.
pub(crate) const NAME: &str = "skydock-compiled-2";

/// Marks a directory that Skydock has made; backup programs know it too.
const MARKER: &str = "CACHEDIR.TAG";

/// What the marker says, as <https://bford.info/cachedir/> has it.
const MARKER_TEXT: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n# Plugins, compiled by Skydock. Files in here may be removed at any time.\n";

/// Why a directory cannot hold machine code.
#[derive(Debug, thiserror::Error)]
pub enum CacheDirError {
    /// It cannot be made or read.
    #[error("the compile cache {} cannot be used: {source}; name another directory with --plugin-cache-dir", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no place for a directory that nobody has named.
    #[error("a temporary directory for compiled plugins cannot be made: {0}; name one with --plugin-cache-dir")]
    Temporary(io::Error),
    /// It is a file, or a link to somewhere else.
    #[error("the compile cache {} is not a directory: name one with --plugin-cache-dir", .0.display())]
    NotDirectory(PathBuf),
    /// It belongs to somebody else.
    #[error("the compile cache {} belongs to user {owner}, not to user {user} who runs this process: name another directory", path.display())]
    Owner {
        /// Which.
        path: PathBuf,
        /// Whose.
        owner: u32,
        /// Ours.
        user: u32,
    },
    /// Others can write there.
    #[error(
        "the compile cache {} can be written by others (mode {mode:04o}), who could run code in this process: \
         name another directory, or `chmod 0700` this one if it is for Skydock alone", path.display()
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Our own directory is not as we made it.
    #[error("the compile cache {} is not for its owner alone (mode {mode:04o}): `chmod 0700` it", path.display())]
    Shared {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Something else is where our own directory should be.
    #[error(
        "{} was not made by Skydock: it holds files, but no {MARKER}; move it away, or name another directory for \
         compiled plugins", .0.display()
    )]
    Foreign(PathBuf),
}

/// Our own directory, held open.
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Makes our own directory in this one, and this one too, if they are not there; checks both.
    pub(super) fn open(parent: &Path) -> Result<Self, CacheDirError> {
        let io_error = |source| CacheDirError::Io { path: parent.to_owned(), source };
        if let Some(above) = parent.parent() {
            fs::create_dir_all(above).map_err(io_error)?;
        }
        match DirBuilder::new().mode(0o700).create(parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_error(error)),
            _ => {}
        }
        let (outer, _) = checked(rustix::fs::CWD, parent, parent)?;
        let path = parent.join(NAME);
        let io_error = |error: Errno| CacheDirError::Io { path: path.clone(), source: error.into() };
        match rustix::fs::mkdirat(&outer, NAME, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io_error(error)),
        }
        let (fd, mode) = checked(&outer, Path::new(NAME), &path)?;
        if mode & 0o077 != 0 {
            return Err(CacheDirError::Shared { path, mode });
        }
        let directory = Self { fd, path: path.clone() };
        if !directory.is_marked().map_err(io_error)? {
            // Empty: made by us, just now or by a process that went no further.
            if !directory.is_empty().map_err(io_error)? {
                return Err(CacheDirError::Foreign(path));
            }
            directory.mark().map_err(|source| CacheDirError::Io { path, source })?;
        }
        Ok(directory)
    }

    /// Where it was when it was opened, for people.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// True if somebody has removed it since: no file can be made in it any more.
    pub(super) fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// A name under which a process that this one starts finds it, wherever it is by then.
    pub(super) fn for_a_child(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            format!("/proc/self/fd/{}", self.fd.as_raw_fd()).into()
        } else {
            self.path.clone()
        }
    }

    /// Opens a regular file of ours, of up to so many bytes, to read it.
    pub(super) fn file(&self, name: &str, limit: u64) -> io::Result<fs::File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: fs::File = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?.into();
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.uid() != user() || metadata.len() > limit {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(file)
    }

    /// Says that a file is in use.
    pub(super) fn touch(&self, name: &str) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: now };
        Ok(rustix::fs::utimensat(&self.fd, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives a file another name; whatever had it is gone.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// All files whose names are text.
    pub(super) fn files(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // Gone already, or a directory: none of ours.
            let Ok(stat) = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                files.push(File { name: name.to_owned(), bytes, used: modified(&stat) });
            }
        }
        Ok(files)
    }

    fn is_marked(&self) -> Result<bool, Errno> {
        match rustix::fs::statat(&self.fd, MARKER, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_empty(&self) -> Result<bool, Errno> {
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            // Another process may be marking it at this moment.
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") && !self.is_marked()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn mark(&self) -> io::Result<()> {
        use std::io::Write as _;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, MARKER, flags, Mode::RUSR | Mode::WUSR) {
            Ok(marker) => fs::File::from(marker).write_all(MARKER_TEXT),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn modified(stat: &Stat) -> SystemTime {
    let since = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    SystemTime::UNIX_EPOCH + since
}

/// Opens a directory that is ours and that nobody else can write to, and gives its mode. Follows no link: whoever owns the
/// link decides where it leads.
fn checked(at: impl AsFd, name: &Path, path: &Path) -> Result<(OwnedFd, u32), CacheDirError> {
    let path = path.to_owned();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(CacheDirError::NotDirectory(path)),
        Err(error) => return Err(CacheDirError::Io { path, source: error.into() }),
    };
    let directory = fs::File::from(fd);
    let metadata = directory.metadata().map_err(|source| CacheDirError::Io { path: path.clone(), source })?;
    let (owner, user) = (metadata.uid(), user());
    if owner != user {
        return Err(CacheDirError::Owner { path, owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(CacheDirError::Open { path, mode });
    }
    Ok((directory.into(), mode))
}

#[cfg(test)]
mod tests;
