//! The SDK for Python, with the Python that is installed and nothing else.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Folders with tests.
const FOLDERS: [&str; 3] = ["sdk/python", "sdk/python/template", "sdk/python/example"];

/// Runs unit tests, and prints their numbers as libtest does.
const RUN: &str = include_str!("python/run.py");

/// Runs all unit tests. Those of the example use simcloud, which is built if necessary.
///
/// # Errors
/// If Python is missing or too old, or a test fails.
pub(super) fn test(root: &Path) -> Result<()> {
    let mut cargo = crate::cargo(root);
    cargo.args(["build", "--quiet", "--workspace", "--bin", "skydock-simcloud"]);
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(status.success(), "simcloud does not compile; see above");
    for folder in FOLDERS {
        let mut python = Command::new("python3");
        python.args(["-B", "-c", RUN]).env("PYTHONPATH", root.join("sdk/python"));
        python.env("SKYDOCK_SIMCLOUD", root.join("target/debug/skydock-simcloud"));
        super::show(root, folder, &mut python, "install Python 3.11 or later")?;
    }
    Ok(())
}
