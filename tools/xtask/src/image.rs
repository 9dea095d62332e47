//! `cargo xtask image`: Skydock's image, and one of a plugin, without a container runtime.

use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context as _, Result};

use crate::{build, guests};

/// The name of Skydock's image, unless one is given.
const NAME: &str = concat!("docker.io/library/skydock:", env!("CARGO_PKG_VERSION"));

/// Builds the host for these targets of Rust (by default, for this machine) and the providers, and
/// writes an image with them to `target/image.tar`, or one that has a shell, too, to
/// `target/image-shell.tar`. `tools/image` says what else is in it.
///
/// # Errors
/// If something does not build, or the image cannot be written.
pub(crate) fn skydock(
    root: &Path,
    targets: &[String],
    shell: bool,
    name: Option<&str>,
) -> Result<()> {
    let mut programs = Vec::new();
    if targets.is_empty() {
        programs.push(build::image(root, None)?);
    }
    for target in targets {
        guests::add_target(root, target)?;
        programs.push(build::image(root, Some(target))?);
    }

    let mut content: Vec<OsString> = vec!["skydock".into()];
    for program in programs {
        content.push("--program".into());
        content.push(program.into());
    }
    content.push("--plugins".into());
    content.push(build::guests(root, &[])?.into());
    if shell {
        content.push("--shell".into());
    }
    let (default, output) = variant(shell);
    write(root, output, name.unwrap_or(&default), &content)
}

/// Returns the default name of Skydock's image, and its file in `target`.
fn variant(shell: bool) -> (String, &'static str) {
    if shell {
        (format!("{NAME}-shell"), "image-shell.tar")
    } else {
        (NAME.to_owned(), "image.tar")
    }
}

/// Writes an image with these plugins to `target/image-plugin.tar`.
///
/// # Errors
/// If the image cannot be written.
pub(crate) fn plugin(root: &Path, files: &[PathBuf], name: &str) -> Result<()> {
    let mut content: Vec<OsString> = vec!["plugin".into()];
    for file in files {
        // They are relative to where this task was started, not to the workspace.
        let file = absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
        content.push(file.into());
    }
    write(root, "image-plugin.tar", name, &content)
}

fn write(root: &Path, output: &str, name: &str, content: &[OsString]) -> Result<()> {
    let mut image = crate::cargo(root);
    image.args(["run", "--quiet", "--package", "skydock-image", "--"]);
    image.args(["--name", name]);
    image.arg("--output").arg(root.join("target").join(output));
    image.arg("--downloads").arg(root.join("target/downloads"));
    let status = image.args(content).status().context("cannot start cargo")?;
    anyhow::ensure!(
        status.success(),
        "the image cannot be written; the reason is above"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_with_a_shell_has_its_own_name_and_file() {
        let (name, file) = variant(false);
        assert!(name.starts_with("docker.io/library/skydock:") && !name.ends_with("-shell"));
        assert_eq!(file, "image.tar");
        assert_eq!(variant(true), (format!("{name}-shell"), "image-shell.tar"));
    }
}
