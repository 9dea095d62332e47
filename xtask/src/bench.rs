//! `cargo xtask bench`: builds what is measured, then hands over to the benchmark.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::demo;

/// Measures the controllers. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn controllers(root: &Path, arguments: &[OsString]) -> Result<()> {
    let error = demo::built(root, "skydock-bench")?.args(arguments).exec();
    Err(error).context("cannot start the benchmark")
}
