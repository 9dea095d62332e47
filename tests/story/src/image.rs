//! Skydock's image, with what this checkout has built.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, ensure};
use skydock_image::Image;
use skydock_support::{Paths, checkout};

/// The name of the image, as in the examples in `deploy/`.
pub const IMAGE: &str = "registry.example.com/skydock:0.1.0";
/// The name of the image with a shell.
pub const SHELL_IMAGE: &str = "registry.example.com/skydock:0.1.0-shell";

/// Returns the image. That of a release is linked statically, which takes minutes: this one has the
/// libraries of this machine.
///
/// # Errors
/// If something has not been built, or a file cannot be read.
pub fn of_checkout() -> Result<Image> {
    let paths = Paths::of_checkout()?;
    let mut image = skydock_image::skydock(&paths.skydock, &paths.plugins)?;
    for library in libraries(&paths.skydock)? {
        image = image.file(&library, 0o755, fs::read(&library)?);
    }
    Ok(image)
}

/// Adds a shell, whose package is downloaded once.
///
/// # Errors
/// If it cannot be downloaded.
pub fn with_shell(image: Image) -> Result<Image> {
    skydock_image::with_shell(image, &checkout().join("target/downloads"))
}

/// Returns the shared libraries of a program, and its loader.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output()?;
    ensure!(output.status.success(), "ldd failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.split_whitespace();
    Ok(words
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect())
}
