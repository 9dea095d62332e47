//! The SDK for Python, with the Python that is installed and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Folders with tests.
const FOLDERS: [&str; 3] = ["sdk/python", "sdk/python/template", "sdk/python/example"];

/// Runs unit tests, and prints their numbers as libtest does.
const RUN: &str = include_str!("python/run.py");

/// Runs all unit tests. Those of the example use simcloud.
///
/// # Errors
/// If Python or simcloud is missing, or a test fails.
pub(super) fn test(root: &Path) -> Result<()> {
    let simcloud = super::program("skydock-simcloud")?;
    for folder in FOLDERS {
        let mut python = Command::new("python3");
        python
            .args(["-B", "-c", RUN])
            .env("PYTHONPATH", root.join("sdk/python"));
        python.env("SKYDOCK_SIMCLOUD", &simcloud);
        super::show(root, folder, &mut python, "install Python 3.11 or later")?;
    }
    Ok(())
}

/// Builds the wheel of the SDK, and copies the example, with the wheel as its dependency. Returns
/// the folder.
///
/// # Errors
/// If Python is missing, or the wheel cannot be built.
pub(super) fn packed_example(root: &Path) -> Result<PathBuf> {
    let work = root.join("target/sdk/python");
    let example = work.join("example");
    // setuptools would add what is left of earlier builds, for example modules that were deleted;
    // and only one wheel is expected.
    for folder in [root.join("sdk/python/build"), work.clone()] {
        let _ = fs::remove_dir_all(folder);
    }
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--wheel-dir",
    ]);
    super::show(
        root,
        "sdk/python",
        pip.arg(&work).arg("."),
        "install Python 3.11 or later",
    )?;
    let wheel = fs::read_dir(&work)
        .context("cannot read the folder of the wheel")?
        .filter_map(Result::ok);
    let wheel = wheel
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|it| it == "whl"));
    let wheel = wheel.context("pip has built no wheel")?;
    fs::create_dir_all(example.join("simcloud"))
        .context("cannot create the folder of the example")?;
    let original = root.join("sdk/python/example");
    for entry in fs::read_dir(original.join("simcloud")).context("cannot read the example")? {
        let file = entry.context("cannot read the example")?;
        if file.path().is_file() {
            fs::copy(file.path(), example.join("simcloud").join(file.file_name()))
                .context("cannot copy the example")?;
        }
    }
    let manifest =
        fs::read_to_string(original.join("pyproject.toml")).context("cannot read the example")?;
    fs::write(example.join("pyproject.toml"), packed(&manifest, &wheel)?)
        .context("cannot copy the example")?;
    Ok(example)
}

/// Returns a manifest whose dependency is the wheel.
fn packed(manifest: &str, wheel: &Path) -> Result<String> {
    let version = concat!("\"skydock==", env!("CARGO_PKG_VERSION"), "\"");
    let packed = manifest.replace(
        version,
        &format!("\"skydock @ file://{}\"", wheel.display()),
    );
    let packed = packed.replace("sdk = \"..\"\n", "");
    ensure!(
        packed.contains("file://") && !packed.contains("sdk = "),
        "the manifest of the example is not as expected"
    );
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packed_example_depends_on_the_wheel() {
        let manifest =
            fs::read_to_string(crate::root().join("sdk/python/example/pyproject.toml")).unwrap();
        let packed = packed(&manifest, Path::new("/w/skydock.whl")).unwrap();
        assert!(
            packed.contains("dependencies = [\"skydock @ file:///w/skydock.whl\"]"),
            "{packed}"
        );
    }
}
