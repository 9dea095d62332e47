//! Files that change together, like those of a Secret that the kubelet projects.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Files of a directory that are replaced together by changing one symbolic link.
#[derive(Debug)]
pub(super) struct Projected {
    dir: PathBuf,
    versions: usize,
}

impl Projected {
    /// Creates the files in this directory. Existing files with one of the names are replaced by
    /// links.
    ///
    /// # Errors
    /// Fails if the directory cannot be written.
    pub(super) fn new(dir: &Path, files: &[(&str, &str)]) -> Result<Self> {
        let mut projected = Self {
            dir: dir.to_owned(),
            versions: 0,
        };
        projected.replace(files)?;
        for (name, _) in files {
            let path = dir.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => symlink(Path::new("..data").join(name), &path)?,
            }
        }
        Ok(projected)
    }

    /// Replaces all files.
    ///
    /// # Errors
    /// Fails if the directory cannot be written.
    pub(super) fn replace(&mut self, files: &[(&str, &str)]) -> Result<()> {
        let before = format!("..{}", self.versions);
        self.versions += 1;
        let version = format!("..{}", self.versions);
        fs::create_dir(self.dir.join(&version))?;
        for (name, text) in files {
            fs::write(self.dir.join(&version).join(name), text)?;
        }
        symlink(&version, self.dir.join("..new"))?;
        fs::rename(self.dir.join("..new"), self.dir.join("..data"))?;
        if self.versions > 1 {
            fs::remove_dir_all(self.dir.join(&before)).with_context(|| before.clone())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_files_leaves_no_old_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("id"), "zero").unwrap();
        let mut files = Projected::new(dir.path(), &[("id", "first"), ("secret", "one")]).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            (read("id"), read("secret")),
            ("first".to_owned(), "one".to_owned())
        );
        files
            .replace(&[("id", "second"), ("secret", "two")])
            .unwrap();
        assert_eq!(
            (read("id"), read("secret")),
            ("second".to_owned(), "two".to_owned())
        );
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            4,
            "two links, ..data and ..2"
        );
    }
}
