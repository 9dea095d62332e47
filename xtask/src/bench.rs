//! `cargo xtask bench`: builds what is measured, then hands over to the benchmark.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::demo;

/// Measures the host of this profile with this program. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn run(root: &Path, program: &str, profile: &str, arguments: &[OsString]) -> Result<()> {
    let error = demo::built(root, program, profile)?.args(arguments).exec();
    Err(error).context("cannot start the benchmark")
}
