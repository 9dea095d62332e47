//! `cargo xtask image`: Skydock's image, without a container runtime.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::{build, guests};

/// Builds the host for these targets of Rust (by default, for this machine) and the providers, and
/// writes an image with them to `target/image.tar`. `tools/image` says what else is in it.
///
/// # Errors
/// If something does not build, or the image cannot be written.
pub(crate) fn run(root: &Path, targets: &[String], name: Option<&str>) -> Result<()> {
    let mut image = crate::cargo(root);
    image.args(["run", "--quiet", "--package", "skydock-image", "--"]);
    if targets.is_empty() {
        image.arg("--program").arg(build::image(root, None)?);
    }
    for target in targets {
        guests::add_target(root, target)?;
        image
            .arg("--program")
            .arg(build::image(root, Some(target))?);
    }

    image.arg("--plugins").arg(build::guests(root, &[])?);
    image.arg("--output").arg(root.join("target/image.tar"));
    if let Some(name) = name {
        image.args(["--name", name]);
    }
    let status = image.status().context("cannot start cargo")?;
    anyhow::ensure!(
        status.success(),
        "the image cannot be written; the reason is above"
    );
    Ok(())
}
