//! The files of the checkout.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Returns the files that belong to the repository, committed or not, without those that are
/// ignored: relative to the root, with slashes.
///
/// # Errors
/// Fails if git cannot list the files.
pub(crate) fn files(root: &Path) -> Result<BTreeSet<String>> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    ensure!(
        listed.status.success(),
        "git ls-files failed: {}",
        String::from_utf8_lossy(&listed.stderr).trim()
    );
    let listed = String::from_utf8(listed.stdout).context("a file has a name that is not text")?;
    // Deleted files that are not committed are listed too.
    Ok(listed
        .split('\0')
        .filter(|name| root.join(name).is_file())
        .map(str::to_owned)
        .collect())
}
