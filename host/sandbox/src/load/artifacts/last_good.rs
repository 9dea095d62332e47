//! The last good component of each plugin, next to the compiled ones.

use std::{
    fs::OpenOptions,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
};

use sha2::{Digest as _, Sha256};

use super::{Artifacts, Unfinished, directory::Directory, unfinished};

/// Returns the name of a plugin's file. The operator's name for the plugin may have any characters.
fn name(plugin: &str) -> String {
    format!("last-good-{}.wasm", hex::encode(Sha256::digest(plugin)))
}

impl Artifacts {
    /// Returns the file with the last good component of a plugin, if there is one with at most
    /// `limit` bytes. Blocks.
    pub(crate) fn last_good(&self, plugin: &str, limit: u64) -> Option<PathBuf> {
        let directory = self.directory().ok()?;
        let name = name(plugin);
        directory.file(&name, limit).ok()?;
        Some(directory.for_a_child().join(name))
    }

    /// Keeps the last good component of a plugin. Blocks.
    ///
    /// # Errors
    /// If the file cannot be written; the previous one is kept then.
    pub(crate) fn keep_last_good(&self, plugin: &str, component: &[u8]) -> io::Result<()> {
        let directory = self.directory().map_err(io::Error::other)?;
        let name = name(plugin);
        if contains(&directory, &name, component) {
            return Ok(());
        }

        let new = Unfinished {
            directory: directory.clone(),
            number: rand::random(),
        };
        let unfinished = unfinished(new.number());

        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(new.for_a_child().join(&unfinished))?;

        file.write_all(component)?;
        // A machine that loses power must not leave an empty file under the name.
        file.sync_all()?;

        directory.rename(&unfinished, &name)
    }
}

fn contains(directory: &Directory, name: &str, component: &[u8]) -> bool {
    let mut before = Vec::new();
    let read = directory
        .file(name, component.len() as u64)
        .and_then(|mut file| file.read_to_end(&mut before));
    read.is_ok() && before == component
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_good_component_outlives_the_process() {
        let parent = tempfile::tempdir().unwrap();
        let open = || Artifacts::open(Some(parent.path().to_owned())).unwrap();
        let artifacts = open();
        assert_eq!(artifacts.last_good("a", 5), None);

        for component in [b"one", b"two", b"two"] {
            artifacts.keep_last_good("a", component).unwrap();
        }
        artifacts.keep_last_good("../b", b"other").unwrap();
        let next = open();
        for (plugin, component) in [("a", &b"two"[..]), ("../b", b"other")] {
            let file = next.last_good(plugin, 5).unwrap();
            assert_eq!(fs::read(file).unwrap(), component);
        }
        assert_eq!(next.last_good("b", 5), None);
        assert_eq!(next.last_good("../b", 4), None, "it is too large");
        drop(next.begin().unwrap());
        assert!(next.last_good("a", 5).is_some(), "it is never surplus");
    }
}
