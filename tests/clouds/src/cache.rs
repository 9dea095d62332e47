//! The cache for results that are expensive to create, shared by checkouts and locked between
//! processes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Error;

/// A marker file that exists if the folder is complete.
const READY: &str = "ready";

/// Returns the folder of the clouds in the cache: in `$SKYDOCK_CACHE`, otherwise
/// `$XDG_CACHE_HOME/skydock`, otherwise `~/.cache/skydock`.
pub(crate) fn folder() -> Result<PathBuf, Error> {
    let root = root(|name| std::env::var_os(name)).ok_or_else(|| Error::Setup {
        action: "choose a cache folder".to_owned(),
        reason: "set SKYDOCK_CACHE or HOME".to_owned(),
    })?;
    Ok(root.join("clouds"))
}

fn root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("SKYDOCK_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("skydock")))
        .or_else(|| set("HOME").map(|folder| folder.join(".cache/skydock")))
}

/// Returns this folder after filling it with `make`, unless it is complete. Remains of an aborted
/// run are deleted first. Other processes wait in the meantime.
pub(crate) fn made_once(
    folder: &Path,
    make: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    if folder.join(READY).exists() {
        return Ok(folder.to_owned());
    }
    let parent = folder.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let lock_path = folder.with_extension("lock");
    let lock = File::create(&lock_path).map_err(Error::io("create", &lock_path))?;
    lock.lock().map_err(Error::io("lock", &lock_path))?;
    let ready = folder.join(READY);
    if !ready.exists() {
        remove(folder)?;
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        make(folder)?;
        fs::write(&ready, []).map_err(Error::io("write", &ready))?;
    }
    Ok(folder.to_owned())
}

/// Deletes a folder with its contents, if it exists.
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

/// Returns a short hash of the names and contents of these files, and of these words.
pub(crate) fn digest(files: &[PathBuf], words: &[&str]) -> Result<String, Error> {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    };
    for file in files {
        add(file.file_name().unwrap_or_default().as_encoded_bytes());
        add(&fs::read(file).map_err(Error::io("read", file))?);
    }
    for word in words {
        add(word.as_bytes());
    }
    add(std::env::consts::ARCH.as_bytes()); // several machines may share a home folder
    Ok(hex::encode(hash.finalize()).chars().take(16).collect())
}

/// Returns all files below a folder with one of these extensions, ordered by path.
pub(crate) fn files(folder: &Path, ends: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::io("read", &folder))? {
            let path = entry.map_err(Error::io("read", &folder))?.path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|end| ends.iter().any(|wanted| end == *wanted))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_directory_comes_from_the_environment() {
        let chosen = |variables: &[(&str, &str)]| {
            root(|name| {
                variables
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.into())
            })
        };
        let all = [
            ("SKYDOCK_CACHE", "/s"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(chosen(&all), Some("/s".into()));
        assert_eq!(chosen(&all[1..]), Some("/x/skydock".into()));
        assert_eq!(chosen(&all[2..]), Some("/h/.cache/skydock".into()));
        assert_eq!(
            chosen(&[("SKYDOCK_CACHE", ""), ("HOME", "/h")]),
            Some("/h/.cache/skydock".into())
        );
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn incomplete_folders_are_recreated_and_complete_ones_kept() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("thing");
        let fail = |folder: &Path| {
            fs::write(folder.join("half"), "").unwrap();
            Err(Error::Setup {
                action: "make".to_owned(),
                reason: "no".to_owned(),
            })
        };
        assert!(made_once(&folder, fail).is_err());
        made_once(&folder, |folder| {
            assert!(!folder.join("half").exists());
            fs::write(folder.join("whole"), "").map_err(Error::io("write", folder))
        })
        .unwrap();
        made_once(&folder, |_| panic!("it is there")).unwrap();
        assert!(folder.join("whole").exists());
    }

    #[test]
    fn any_recipe_change_gives_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let name = || digest(&files(folder.path(), &["py"]).unwrap(), &["word"]).unwrap();
        write("a.py", "1");
        let first = name();
        write("notes.md", "no part of it");
        assert_eq!(name(), first);
        write("a.py", "2");
        assert_ne!(name(), first);
        assert_ne!(
            digest(&[], &["a", "b"]).unwrap(),
            digest(&[], &["ab"]).unwrap()
        );
    }
}
