//! Copies of folders.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

/// Copies a folder with its contents, and with the contents of what links in it point to.
///
/// # Errors
/// Fails if something cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}
