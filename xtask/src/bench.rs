//! `cargo xtask bench`: builds what is measured, and then runs the benchmark.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::build;

/// Replaces this process with a benchmark program that measures the host built with the profile
/// `release`. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn run(root: &Path, program: &str, arguments: &[OsString]) -> Result<()> {
    let folder = build::release(root, &["skydock", program])?;
    let mut command = build::with_plugins(root, &folder.join(program), &folder.join("skydock"))?;
    Err(command.args(arguments).exec()).context("cannot start the benchmark")
}

/// Replaces this process with the benchmark of clouds, which measures the host built as in the
/// image, with all plugins for these clouds. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn clouds(root: &Path, arguments: &[OsString]) -> Result<()> {
    let program = build::release(root, &["skydock-bench-clouds"])?.join("skydock-bench-clouds");
    let host = build::image(root, &[])?;
    let mut command = build::with_plugins(root, &program, &host)?;
    build::go_providers(root, &["openstack", "aws"])?;
    Err(command.args(arguments).exec()).context("cannot start the benchmark")
}

/// Replaces this process with the benchmark of the languages of plugins. Returns only if that
/// fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn languages(root: &Path, arguments: &[OsString]) -> Result<()> {
    let program = "skydock-bench-languages";
    let folder = build::release(root, &["skydock-dev", program])?;
    let mut command = Command::new(folder.join(program));
    command
        .arg("--skydock-dev")
        .arg(folder.join("skydock-dev"))
        .arg("--root")
        .arg(root);
    let error = command.args(arguments).exec();
    Err(error).context("cannot start the benchmark")
}
