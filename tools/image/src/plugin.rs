//! The content of an image with a plugin that is not in Skydock's image.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::Image;
use crate::busybox::{architectures, busybox};
use crate::skydock::{NONROOT, read};

/// Copies the plugins.
const COPY: &str = "/bin/cp";
/// Where Skydock looks for plugins.
const PLUGINS: &str = "/plugins/";

/// Returns an image with these plugins for each architecture: an image volume, since they are in
/// its root directory, and an init container, since its program copies them to `/plugins`.
/// Packages are downloaded to the folder.
///
/// # Errors
/// If a file cannot be read or is not named like a plugin, or a package cannot be downloaded.
pub fn plugin(files: &[PathBuf], downloads: &Path) -> Result<Vec<Image>> {
    architectures()
        .map(|architecture| with_copy(files, busybox(architecture, downloads)?))
        .collect()
}

/// Returns the image with this BusyBox, which is `cp` because it has that name.
fn with_copy(files: &[PathBuf], busybox: Vec<u8>) -> Result<Image> {
    let mut image = Image::of_program(COPY, busybox)?.user(NONROOT);
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no name", file.display()))?;
        ensure!(
            name.ends_with(".wasm"),
            "{name} is not a valid file name of a plugin; expected NAME.wasm"
        );
        let path = format!("/{name}");
        image = image.file(&path, 0o644, read(file)?).argument(&path);
    }
    Ok(image.argument(PLUGINS))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::tests::program;

    #[test]
    fn it_copies_the_plugins_in_its_root_directory() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            path
        };
        let files = [file("metal.wasm"), file("more.wasm")];
        let image = with_copy(&files, program(183)).unwrap();
        assert!(image.has_file("/metal.wasm") && image.has_file("/more.wasm"));
        assert_eq!(
            (image.architecture(), image.identity()),
            ("arm64", "65532:65532")
        );
        let configuration = image.configuration("sha256:0");
        assert_eq!(configuration["config"]["Entrypoint"][0], "/bin/cp");
        assert_eq!(
            configuration["config"]["Cmd"],
            serde_json::json!(["/metal.wasm", "/more.wasm", "/plugins/"])
        );

        let error = with_copy(&[file("metal.wat")], program(62)).unwrap_err();
        assert!(error.to_string().contains("expected NAME.wasm"), "{error}");
    }
}
