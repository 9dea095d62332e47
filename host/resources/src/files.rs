//! Files that an operator names.

use std::{fs::File, io, os::unix::fs::FileTypeExt as _, path::Path};

/// Opens a file that can be read repeatedly. A pipe would be empty the next time, and opening it
/// could block forever.
///
/// # Errors
/// If it cannot be opened, or is a directory or a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let flags =
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file: File = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?.into();
    let metadata = file.metadata()?;

    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }

    if metadata.file_type().is_fifo() {
        return Err(io::Error::other(
            "it is a pipe, but must be a file because it is read again when it changes",
        ));
    }

    Ok(file)
}
