//! `cargo xtask bench`: builds what is measured, and then runs the benchmark.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::build;

/// Replaces this process with a benchmark program that measures the host built with this profile. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn run(root: &Path, program: &str, profile: &str, arguments: &[OsString]) -> Result<()> {
    let (program, host) = if profile == "dist" {
        (build::release(root, &[program])?.join(program), build::image(root, &[])?)
    } else {
        let folder = build::release(root, &["skydock", program])?;
        (folder.join(program), folder.join("skydock"))
    };
    let error = build::with_plugins(root, &program, &host)?.args(arguments).exec();
    Err(error).context("cannot start the benchmark")
}

/// Replaces this process with the benchmark of the languages of plugins. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn languages(root: &Path, arguments: &[OsString]) -> Result<()> {
    let program = "skydock-bench-languages";
    let folder = build::release(root, &["skydock-dev", program])?;
    let mut command = Command::new(folder.join(program));
    command.arg("--skydock-dev").arg(folder.join("skydock-dev")).arg("--root").arg(root);
    let error = command.args(arguments).exec();
    Err(error).context("cannot start the benchmark")
}
