//! A lock for a folder, so that two processes do not write the same files at the same time.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::Path,
};

use anyhow::Context as _;

/// A lock, which ends when this is dropped, or with the process.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Waits until no other process uses the folder, which is created if it does not exist.
///
/// # Errors
/// If the file in it that is locked cannot be written.
pub(super) fn take(folder: &Path) -> anyhow::Result<Lock> {
    let locked = || {
        fs::create_dir_all(folder)?;
        let file = File::create(folder.join("lock"))?;

        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Standard error may be closed.
                let _ = writeln!(
                    io::stderr(),
                    "waiting for another build in {}",
                    folder.display()
                );
                file.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(Lock { _file: file })
    };
    locked().with_context(|| format!("cannot lock {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    #[test]
    fn one_build_waits_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        let first = take(&folder).unwrap();
        let (sender, receiver) = mpsc::channel();
        let other = thread::spawn(move || sender.send(take(&folder).map(drop)).unwrap());
        assert!(
            receiver.recv_timeout(Duration::from_millis(200)).is_err(),
            "it did not wait"
        );

        drop(first);
        receiver
            .recv_timeout(Duration::from_secs(60))
            .unwrap()
            .unwrap();
        other.join().unwrap();
    }
}
