//! Skydock's image with the program and the plugins that were built for tests.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use skydock_image::Layer;
use skydock_support::Paths;

/// The name of the image, as in the examples in `deploy/`.
pub const IMAGE: &str = "registry.example.com/skydock:0.1.0";

/// Writes the image as an archive that nodes with containers import.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub fn write(paths: &Paths, archive: &Path) -> Result<()> {
    let mut image = skydock_image::skydock(&paths.skydock, &paths.plugins)?;
    // That of a release is linked statically, which takes minutes.
    for library in libraries(&paths.skydock)? {
        let content = fs::read(&library).with_context(|| library.clone())?;
        image = image.file(&library, 0o755, content);
    }
    skydock_image::write(IMAGE, &[image], Layer::Plain, archive)?;
    Ok(())
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
