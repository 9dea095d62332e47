//! `cargo xtask docs`: the examples in documentation, and its links.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// Runs the examples, and builds the documentation of all items. Warnings, for example about a link
/// to an item that does not exist, are errors.
///
/// # Errors
/// If an example fails, or rustdoc warns.
pub(crate) fn run(root: &Path) -> Result<()> {
    let status = crate::cargo(root)
        .args(["test", "--workspace", "--doc"])
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "an example in documentation fails; see above"
    );
    let status = crate::cargo(root)
        .args([
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ])
        .env("RUSTDOCFLAGS", "-Dwarnings")
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "rustdoc objects to documentation; see above"
    );
    Ok(())
}
