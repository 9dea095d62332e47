//! `cargo xtask bench`: builds what is measured, and then runs the benchmark.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use crate::build;

/// A benchmark.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum What {
    /// Skydock's controllers beside Kubernetes' framework. Takes 40 minutes, 2 with `--quick`.
    Controllers,
    /// Skydock beside the official cloud-controller-managers of OpenStack and AWS. Takes 70
    /// minutes, 20 with `--quick`.
    Clouds,
    /// Skydock with ten times the nodes and Services. Takes 30 minutes, 5 with `--quick`.
    Scale,
    /// The development of the example provider in each language of the SDKs. Takes 5 minutes.
    Languages,
}

/// Replaces this process with the program of a benchmark. Returns only if that fails.
///
/// # Errors
/// If something does not build, or the benchmark cannot be started.
pub(crate) fn run(root: &Path, what: What, arguments: &[OsString]) -> Result<()> {
    let mut benchmark = match what {
        What::Controllers => with_host(root, "skydock-bench")?,
        What::Scale => with_host(root, "skydock-bench-scale")?,
        What::Clouds => clouds(root)?,
        What::Languages => languages(root)?,
    };
    Err(benchmark.args(arguments).exec()).context("cannot start the benchmark")
}

/// Measures the host built with the profile `release`.
fn with_host(root: &Path, program: &str) -> Result<Command> {
    let folder = build::release(root, &["skydock", program])?;
    build::with_plugins(root, &folder.join(program), &folder.join("skydock"), &[])
}

/// Measures the host built as in the image, with all plugins for these clouds.
fn clouds(root: &Path) -> Result<Command> {
    let program = build::release(root, &["skydock-bench-clouds"])?.join("skydock-bench-clouds");
    let host = build::image(root, None)?;
    build::go_providers(root, &["openstack", "aws"])?;
    build::with_plugins(root, &program, &host, &[])
}

fn languages(root: &Path) -> Result<Command> {
    let program = "skydock-bench-languages";
    let folder = build::release(root, &["skydock-dev", program])?;
    let mut command = Command::new(folder.join(program));
    command
        .arg("--skydock-dev")
        .arg(folder.join("skydock-dev"))
        .arg("--root")
        .arg(root);
    Ok(command)
}
