//! The directory of the compile cache, which contains machine code.
//!
//! Files in it run with all permissions of this process, so nobody else may write there. It is a
//! directory of our own in the one that the operator names, in which nothing else is touched. It is
//! checked once and then held open: whoever can rename a directory above it can replace it for
//! others, but not for this process.

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
use skydock_resources::own_directory::{self, NotOwn, user};

use super::surplus::File;

/// Name of our own directory in the operator's. The number changes with the format of the files.
pub(crate) const NAME: &str = "skydock-compiled-2";

/// Marks a directory that Skydock has created; backup programs know this file too.
const MARKER: &str = "CACHEDIR.TAG";

/// Contents of the marker, as <https://bford.info/cachedir/> defines them.
const MARKER_TEXT: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n# Plugins, compiled by Skydock. Files in here may be removed at any time.\n";

/// Reasons why a directory cannot be used for machine code.
#[derive(Debug, thiserror::Error)]
pub enum CacheDirError {
    /// It cannot be created or read.
    #[error("cannot use the compile cache {}: {source}; set another directory with --plugin-cache-dir", path.display())]
    Io {
        /// Path of the directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A temporary directory cannot be created.
    #[error(
        "cannot create a temporary directory for compiled plugins: {0}; set one with --plugin-cache-dir"
    )]
    Temporary(io::Error),
    /// It is a file, or a symbolic link.
    #[error("the compile cache {} is not a directory: set one with --plugin-cache-dir", .0.display())]
    NotDirectory(PathBuf),
    /// It belongs to another user.
    #[error("the compile cache {} belongs to user {owner}, but this process runs as user {user}: set another directory with --plugin-cache-dir", path.display())]
    Owner {
        /// Path of the directory.
        path: PathBuf,
        /// User who owns it.
        owner: u32,
        /// User of this process.
        user: u32,
    },
    /// Other users can write to it.
    #[error(
        "the compile cache {} is writable by other users (mode {mode:04o}), who could run code in this process: \
         set another directory with --plugin-cache-dir, or `chmod 0700` this one if only Skydock uses it", path.display()
    )]
    Open {
        /// Path of the directory.
        path: PathBuf,
        /// Mode of the directory.
        mode: u32,
    },
    /// Other users can access our own directory.
    #[error("the compile cache {} is accessible by other users (mode {mode:04o}): `chmod 0700` it", path.display())]
    Shared {
        /// Path of the directory.
        path: PathBuf,
        /// Mode of the directory.
        mode: u32,
    },
    /// The path of our own directory is used by something else.
    #[error(
        "{} was not created by Skydock: it contains files, but no {MARKER}; move it away, or set another directory \
         with --plugin-cache-dir", .0.display()
    )]
    Foreign(PathBuf),
}

/// Our own directory, held open.
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Creates `parent` and our own directory in it, if they do not exist, and checks both.
    pub(super) fn open(parent: &Path) -> Result<Self, CacheDirError> {
        let io_error = |source| CacheDirError::Io {
            path: parent.to_owned(),
            source,
        };

        if let Some(above) = parent.parent() {
            fs::create_dir_all(above).map_err(io_error)?;
        }

        // With a mode of its own, because `create_dir_all` depends on the umask.
        match DirBuilder::new().mode(0o700).create(parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io_error(error));
            }
            _ => {}
        }

        // Whoever can write to it could replace our own directory in it.
        let (outer, _) = checked(rustix::fs::CWD, parent, parent)?;
        let path = parent.join(NAME);
        let io_error = |error: Errno| CacheDirError::Io {
            path: path.clone(),
            source: error.into(),
        };

        match rustix::fs::mkdirat(&outer, NAME, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io_error(error)),
        }

        let (fd, mode) = checked(&outer, Path::new(NAME), &path)?;
        if mode & 0o077 != 0 {
            return Err(CacheDirError::Shared { path, mode });
        }

        let directory = Self {
            fd,
            path: path.clone(),
        };

        if !directory.is_marked().map_err(io_error)? {
            // An empty directory was created by us: at this moment, or by a process that stopped
            // before marking it.
            if !directory.is_empty().map_err(io_error)? {
                return Err(CacheDirError::Foreign(path));
            }
            directory
                .mark()
                .map_err(|source| CacheDirError::Io { path, source })?;
        }

        Ok(directory)
    }

    /// Returns its path when it was opened, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if someone has deleted the directory: no file can be created in it.
    pub(super) fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Returns a path by which a child process finds the directory, even if it is renamed.
    pub(super) fn for_a_child(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            format!("/proc/self/fd/{}", self.fd.as_raw_fd()).into()
        } else {
            self.path.clone()
        }
    }

    /// Opens a regular file that belongs to this user and has at most `limit` bytes, for reading.
    pub(super) fn file(&self, name: &str, limit: u64) -> io::Result<fs::File> {
        // NONBLOCK, because opening a pipe would otherwise wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: fs::File = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?.into();

        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.uid() != user() || metadata.len() > limit {
            return Err(io::ErrorKind::InvalidData.into());
        }

        Ok(file)
    }

    /// Marks a file as used.
    pub(super) fn touch(&self, name: &str) -> io::Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: now,
        };

        Ok(rustix::fs::utimensat(
            &self.fd,
            name,
            &times,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Renames a file, and replaces an existing one.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Returns all files whose names are UTF-8.
    pub(super) fn files(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();

        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };

            // Deleted in the meantime.
            let Ok(stat) = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };

            if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                files.push(File {
                    name: name.to_owned(),
                    bytes,
                    used: modified(&stat),
                });
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
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;

        match rustix::fs::openat(&self.fd, MARKER, flags, Mode::RUSR | Mode::WUSR) {
            Ok(marker) => fs::File::from(marker).write_all(MARKER_TEXT),
            // Another process has marked it.
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn modified(stat: &Stat) -> SystemTime {
    let since = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    SystemTime::UNIX_EPOCH + since
}

/// Opens a directory that is this user's own, and returns its mode.
fn checked(at: impl AsFd, name: &Path, path: &Path) -> Result<(OwnedFd, u32), CacheDirError> {
    let path = path.to_owned();
    own_directory::open(at, name).map_err(|problem| match problem {
        NotOwn::Io(source) => CacheDirError::Io { path, source },
        NotOwn::NotDirectory => CacheDirError::NotDirectory(path),
        NotOwn::Owner { owner, user } => CacheDirError::Owner { path, owner, user },
        NotOwn::Writable(mode) => CacheDirError::Open { path, mode },
    })
}

#[cfg(test)]
mod tests;
