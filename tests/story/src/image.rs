//! Skydock's image, with what this checkout has built, or another one that is to be tested.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use skydock_image::{Image, Layer};
use skydock_support::{Paths, checkout};

/// The name of the image, as in the examples in `deploy/`.
pub const IMAGE: &str = concat!("registry.example.com/skydock:", env!("CARGO_PKG_VERSION"));
/// The name of the image with a shell.
pub const SHELL_IMAGE: &str = concat!(
    "registry.example.com/skydock:",
    env!("CARGO_PKG_VERSION"),
    "-shell"
);
/// The name of the image with a plugin of one's own, as in the example for that.
pub const PLUGIN_IMAGE: &str = "registry.example.com/metal:1.4.2";

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
    skydock_image::with_shell(image, &downloads())
}

/// Returns the image with a plugin for each architecture. The static provider stands in under the
/// name `metal`. Packages are downloaded once.
///
/// # Errors
/// If the provider has not been built, or a package cannot be downloaded.
pub fn of_plugin() -> Result<Vec<Image>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("metal.wasm");
    fs::copy(Paths::of_checkout()?.plugins.join("static.wasm"), &file)?;
    skydock_image::plugin(&[file], &downloads())
}

/// Writes an archive with an image of this name, and returns its digest. If `SKYDOCK_IMAGE` (for
/// [`SHELL_IMAGE`], `SKYDOCK_SHELL_IMAGE`) names a file, the image is the one in there.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write(name: &str, image: &[Image], to: &Path) -> Result<String> {
    let variable = match name {
        IMAGE => "SKYDOCK_IMAGE",
        SHELL_IMAGE => "SKYDOCK_SHELL_IMAGE",
        _ => return write_unless(None, name, image, to),
    };
    write_unless(env::var_os(variable).as_deref(), name, image, to)
}

/// Like [`write()`], with the image in this file, if there is one.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write_unless(
    file: Option<&OsStr>,
    name: &str,
    image: &[Image],
    to: &Path,
) -> Result<String> {
    match file.filter(|file| !file.is_empty()) {
        // Relative to the checkout, as in the commands of tests/README.md. A test runs elsewhere.
        Some(file) => {
            let file = checkout().join(file);
            rename(&file, name, to).with_context(|| format!("the image in {}", file.display()))
        }
        None => Ok(skydock_image::write(name, image, Layer::Plain, to)?.digest),
    }
}

/// Copies an archive with one image, which gets this name. Returns its digest, which stays the same.
fn rename(archive: &Path, name: &str, to: &Path) -> Result<String> {
    let mut digest = None;
    let mut copied = tar::Builder::new(File::create(to)?);
    for entry in tar::Archive::new(File::open(archive)?).entries()? {
        let mut entry = entry?;
        let mut header = entry.header().clone();
        let path = entry.path()?.into_owned();
        if path != Path::new("index.json") {
            copied.append_data(&mut header, path, entry)?;
            continue;
        }
        let mut index: Value = serde_json::from_reader(&mut entry)?;
        let image = index.pointer_mut("/manifests/0").context("no image")?;
        let annotations = image.get_mut("annotations").and_then(Value::as_object_mut);
        let annotations = annotations.context("no name")?;
        annotations.insert("io.containerd.image.name".to_owned(), name.into());
        digest = image
            .get("digest")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let index = index.to_string();
        header.set_size(index.len().try_into()?);
        copied.append_data(&mut header, path, index.as_bytes())?;
    }
    copied.finish()?;
    digest.context("no OCI layout")
}

fn downloads() -> PathBuf {
    checkout().join("target/downloads")
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Returns the index of an archive, and the names of all files.
    fn index_and_files(archive: &Path) -> (Value, Vec<PathBuf>) {
        let mut index = Value::Null;
        let mut files = Vec::new();
        let mut archive = tar::Archive::new(File::open(archive).unwrap());
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            if path == Path::new("index.json") {
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                index = serde_json::from_str(&text).unwrap();
            }
            files.push(path);
        }
        (index, files)
    }

    #[test]
    fn a_file_is_tested_under_the_name_of_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let [file, copy] = ["image.tar", "copy.tar"].map(|name| folder.path().join(name));
        // The header of a program for amd64.
        let mut program = vec![0; 64];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[18] = 62;
        let image = Image::of_program("/skydock", program).unwrap();
        let built = write_unless(None, "example.com/built:2", &[image], &file).unwrap();

        let digest = write_unless(Some(file.as_os_str()), IMAGE, &[], &copy).unwrap();
        assert_eq!(digest, built);
        let (before, files) = index_and_files(&file);
        let (after, copied) = index_and_files(&copy);
        assert_eq!(files, copied);
        let name = |index: &Value| {
            let annotations = &index["manifests"][0]["annotations"];
            annotations["io.containerd.image.name"].clone()
        };
        assert_eq!(name(&before), "example.com/built:2");
        assert_eq!(name(&after), IMAGE);

        let error = write_unless(Some(OsStr::new("/nowhere.tar")), IMAGE, &[], &copy);
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "the image in /nowhere.tar");
    }
}
