//! Directories that belong to this user, and in which nobody else can change what is where.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

/// Why a directory is not this user's own.
#[derive(Debug)]
pub enum NotOwn {
    /// It cannot be opened.
    Io(io::Error),
    /// It is a file, or a symbolic link.
    NotDirectory,
    /// It belongs to another user.
    Owner {
        /// The owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// Other users can write to it; with its mode.
    Writable(u32),
}

/// Opens a directory that belongs to this user and that nobody else can write to, and returns its
/// mode. Symbolic links are not followed, because the owner of a link decides where it leads.
pub fn open(at: impl AsFd, name: &Path) -> Result<(OwnedFd, u32), NotOwn> {
    // With a slash at its end, a link would be followed.
    let name: PathBuf = name.components().collect();

    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(at, &name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(NotOwn::NotDirectory),
        Err(error) => return Err(NotOwn::Io(error.into())),
    };

    // Of the open directory, which nobody can exchange in the meantime.
    let directory = fs::File::from(fd);
    let metadata = directory.metadata().map_err(NotOwn::Io)?;
    let owner = metadata.uid();
    let user = user();
    if owner != user {
        return Err(NotOwn::Owner { owner, user });
    }

    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(NotOwn::Writable(mode));
    }

    Ok((directory.into(), mode))
}

/// Returns the user of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
