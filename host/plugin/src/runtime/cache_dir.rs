//! The directory of the compile cache.
//!
//! What is in it is run as machine code with all rights of this process, so nobody else may write there.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Why a directory cannot hold machine code.
#[derive(Debug, thiserror::Error)]
pub enum CacheDirError {
    /// It cannot be made or read.
    #[error("the compile cache {} cannot be used: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a file, or a link to somewhere else.
    #[error("the compile cache {} is not a directory", .0.display())]
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
         `chmod 0700` it, or name another directory", path.display()
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// Makes the directory if it is not there and checks it. Gives its absolute path.
pub(super) fn prepare(dir: PathBuf) -> Result<PathBuf, CacheDirError> {
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |source| CacheDirError::Io { path, source }
    };
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(io_error(&dir))?;
    }
    match DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_error(&dir)(error)),
        _ => {}
    }
    // Not following links: whoever owns the link decides where it leads.
    let metadata = fs::symlink_metadata(&dir).map_err(io_error(&dir))?;
    if !metadata.is_dir() {
        return Err(CacheDirError::NotDirectory(dir));
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(CacheDirError::Owner { path: dir, owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(CacheDirError::Open { path: dir, mode });
    }
    dir.canonicalize().map_err(io_error(&dir))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_new_cache_is_for_its_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        prepare(dir.clone()).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
        prepare(dir).unwrap();
    }

    #[test]
    fn a_cache_that_others_can_write_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o770, 0o702] {
            let dir = parent.path().join(format!("{mode:o}"));
            fs::create_dir(&dir).unwrap();
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(prepare(dir), Err(CacheDirError::Open { .. })), "{mode:o}");
        }
    }

    #[test]
    fn a_link_or_a_file_is_no_cache() {
        let parent = tempfile::tempdir().unwrap();
        let (file, link) = (parent.path().join("file"), parent.path().join("link"));
        fs::write(&file, "").unwrap();
        symlink(parent.path(), &link).unwrap();
        for path in [file, link] {
            assert!(matches!(prepare(path), Err(CacheDirError::NotDirectory(_))));
        }
    }
}
