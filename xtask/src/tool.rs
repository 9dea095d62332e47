//! Cargo's further commands that a chore needs: compiled once, and kept outside the checkout.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::console;

/// A command of cargo's from crates.io; its version is pinned, so that a new release cannot turn a green tree red.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// Path of the program; installed first if it is not there.
    ///
    /// # Errors
    /// If it is not there and cannot be installed.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let Self { name, version } = self;
        let home = cache_dir()?.join(format!("tools/{name}-{version}"));
        let program = home.join("bin").join(name);
        if program.is_file() {
            return Ok(program);
        }
        console::line(format_args!("installing {name} {version} to {}; takes some minutes, once", home.display()));
        let status = Command::new("cargo")
            .args(["install", name, "--locked", "--version", &format!("={version}"), "--root"])
            .arg(&home)
            // It runs for a second and compiles for minutes; less optimisation takes a quarter off that.
            .envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")])
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .stdin(Stdio::null())
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "cannot install {name} {version}; put it at {} and run again", program.display());
        Ok(program)
    }
}

/// Where what is dear to make is kept between checkouts: `$SKYDOCK_CACHE`, else `skydock` in the user's cache directory.
fn cache_dir() -> Result<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var("SKYDOCK_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("skydock")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/skydock")))
        .context("cannot find a cache directory; set SKYDOCK_CACHE")
}
