//! `skydock-hot`: runs a program and records which of its functions are executed.
//!
//! Half of a statically linked program is never executed, but the kernel maps it in pieces of at
//! least 64 KiB around each page that is used. If the functions that are executed are side by side,
//! a third of the memory for code is enough. `cargo xtask hot` records them and writes their names
//! to `deploy/hot-functions.txt`, which the build of the image uses.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

/// The command line: `skydock-hot NAMES PROGRAM [ARGUMENT]...`. Runs the program, and appends the
/// names to the file NAMES.
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let names = arguments.next().context("usage: skydock-hot NAMES PROGRAM [ARGUMENT]...")?;
    let program = arguments.next().context("which program?")?;
    record(Path::new(&program), &arguments.collect::<Vec<_>>(), Path::new(&names))
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod program;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trace;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn record(program: &Path, arguments: &[OsString], names: &Path) -> Result<()> {
    let program = program::Program::read(program)?;
    trace::run(&program, arguments, names)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn record(_: &Path, _: &[OsString], _: &Path) -> Result<()> {
    anyhow::bail!("recording needs Linux on x86_64")
}
