//! What a result of a build was made of, so that it is made once.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// A hash of everything that a result depends on.
pub(super) struct Inputs(Sha256);

impl Inputs {
    /// Starts with the version of this program.
    pub(super) fn new() -> Self {
        Self(Sha256::new_with_prefix(env!("CARGO_PKG_VERSION")))
    }

    pub(super) fn add(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(Sha256::digest(bytes));
    }

    /// Adds the names and contents of all files below a folder for which `matters` is true, given
    /// their path in it. Folders for which it is false are not entered.
    ///
    /// # Errors
    /// If something cannot be read.
    pub(super) fn add_folder(
        &mut self,
        folder: &Path,
        matters: impl Fn(&Path) -> bool,
    ) -> anyhow::Result<()> {
        for file in files(folder, matters)? {
            self.add(file.as_os_str().as_encoded_bytes());
            let path = folder.join(&file);
            // A link to a folder that is there already.
            if path.is_dir() {
                self.add(canonical(&path)?.as_os_str().as_encoded_bytes());
            } else {
                self.add(
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
                );
            }
        }
        Ok(())
    }

    /// Makes `output`, unless it was made of the same inputs.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn make(
        self,
        output: &Path,
        make: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let key = hex::encode(self.0.finalize());
        let key_file = output.with_extension("inputs");
        if output.exists() && fs::read_to_string(&key_file).is_ok_and(|before| before == key) {
            return Ok(());
        }

        // An interrupted build leaves an output that was made of neither.
        match fs::remove_file(&key_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", key_file.display()));
            }
            _ => {}
        }

        make()?;
        fs::write(&key_file, key).with_context(|| format!("cannot write {}", key_file.display()))
    }
}

/// Returns the files below a folder, relative to it, sorted; and links to folders that are there
/// already: they may lead in circles.
fn files(folder: &Path, matters: impl Fn(&Path) -> bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = vec![PathBuf::new()];
    let mut files = Vec::new();
    let mut entered = BTreeSet::from([canonical(folder)?]);

    while let Some(inner) = folders.pop() {
        let path = folder.join(&inner);
        let read = || fs::read_dir(&path)?.collect::<io::Result<Vec<_>>>();
        let mut entries = read().with_context(|| format!("cannot read {}", path.display()))?;
        // The order decides which of several links to a folder is entered.
        entries.sort_unstable_by_key(fs::DirEntry::file_name);

        for entry in entries {
            let name = inner.join(entry.file_name());
            if !matters(&name) {
                continue;
            }

            let is_new = entry.path().is_dir() && entered.insert(canonical(&entry.path())?);
            if is_new {
                folders.push(name);
            } else {
                files.push(name);
            }
        }
    }

    files.sort();
    Ok(files)
}

fn canonical(path: &Path) -> anyhow::Result<PathBuf> {
    fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interrupted_build_has_left_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("out");
        let make = |input: &str, text: &str, good: bool| {
            let mut inputs = Inputs::new();
            inputs.add(input);
            let write = || {
                fs::write(&output, text)?;
                anyhow::ensure!(good, "interrupted");
                Ok(())
            };
            let made = inputs.make(&output, write);
            assert_eq!(made.is_ok(), good);
            fs::read_to_string(&output).unwrap()
        };

        assert_eq!(make("1", "one", true), "one");
        assert_eq!(make("2", "half of tw", false), "half of tw");
        assert_eq!(make("1", "one", true), "one", "the first inputs are back");
    }

    #[test]
    fn links_may_lead_in_circles() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(dir.path().join("deep/a"), "1").unwrap();
        for link in ["deep/up", "deep/again", "other"] {
            std::os::unix::fs::symlink(dir.path(), dir.path().join(link)).unwrap();
        }
        let found = files(dir.path(), |_| true).unwrap();
        assert_eq!(
            found,
            ["deep/a", "deep/again", "deep/up", "other"].map(PathBuf::from)
        );
        Inputs::new().add_folder(dir.path(), |_| true).unwrap();
    }

    #[test]
    fn a_result_is_made_again_if_an_input_changes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("in");
        let output = dir.path().join("out");
        fs::create_dir_all(folder.join("deep")).unwrap();
        let made = |secret: bool| {
            let mut inputs = Inputs::new();
            inputs
                .add_folder(&folder, |path| secret || path != Path::new("deep/ignored"))
                .unwrap();
            let mut made = false;
            inputs
                .make(&output, || {
                    Ok(fs::write(&output, "")?).inspect(|()| made = true)
                })
                .unwrap();
            made
        };
        fs::write(folder.join("deep/a"), "1").unwrap();
        assert!(made(false) && !made(false));

        fs::write(folder.join("deep/ignored"), "1").unwrap();
        assert!(!made(false) && made(true) && made(false));
        fs::write(folder.join("deep/a"), "2").unwrap();
        assert!(made(false));

        fs::rename(folder.join("deep/a"), folder.join("deep/b")).unwrap();
        assert!(made(false));
        fs::remove_file(&output).unwrap();
        assert!(made(false));
    }
}
