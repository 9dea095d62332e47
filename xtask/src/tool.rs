//! Additional cargo commands for tasks: compiled once, and stored outside of the checkout.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::console;

/// A cargo command from crates.io. Its version is pinned, so that a new release cannot break the
/// tests.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// Returns the path of the program, which is installed if it is missing.
    ///
    /// # Errors
    /// If it is missing and cannot be installed.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let Self { name, version } = self;
        let home = cache_dir()?.join(format!("tools/{name}-{version}"));
        let program = home.join("bin").join(name);
        if program.is_file() {
            return Ok(program);
        }
        console::line(format_args!(
            "installing {name} {version} to {}; takes some minutes, once",
            home.display()
        ));
        let status = Command::new("cargo")
            .args([
                "install",
                name,
                "--locked",
                "--version",
                &format!("={version}"),
                "--root",
            ])
            .arg(&home)
            // It runs for seconds but compiles for minutes; less optimization reduces that by a
            // quarter.
            .envs([
                ("CARGO_PROFILE_RELEASE_LTO", "off"),
                ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
            ])
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .stdin(Stdio::null())
            .status()
            .context("cannot start cargo")?;
        ensure!(
            status.success(),
            "cannot install {name} {version}; put it at {} and run again",
            program.display()
        );
        Ok(program)
    }
}

/// Returns the directory for expensive build results that are shared between checkouts:
/// `$SKYDOCK_CACHE`, or else `skydock` in the user's cache directory.
fn cache_dir() -> Result<PathBuf> {
    let var = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    var("SKYDOCK_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("skydock")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/skydock")))
        .context("cannot find a cache directory; set SKYDOCK_CACHE")
}
