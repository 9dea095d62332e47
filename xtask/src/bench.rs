//! `cargo xtask bench`: builds what is measured, then hands over to the benchmark.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::demo;

/// Measures with this program. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn run(root: &Path, program: &str, arguments: &[OsString]) -> Result<()> {
    let error = demo::built(root, program)?.args(arguments).exec();
    Err(error).context("cannot start the benchmark")
}
