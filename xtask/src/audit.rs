//! `cargo xtask audit`: licences, banned crates, sources and known holes of all dependencies, by cargo-deny (`deny.toml`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::command::succeeds_within;
use crate::console;

/// The cargo-deny that `deny.toml` is written for; pinned, so that a new release cannot turn a green tree red.
const CARGO_DENY: &str = "0.20.2";

/// Fetching the advisory database takes seconds; a network that swallows packets must not hold up the whole run.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

/// Checks the dependencies.
///
/// # Errors
/// If cargo-deny cannot be installed, or objects.
pub(crate) fn run(root: &Path) -> Result<()> {
    let deny = cargo_deny()?;
    let check = |what: &[&str]| -> Result<()> {
        let status = Command::new(&deny)
            .args(["check", "--hide-inclusion-graph"])
            .args(what)
            .current_dir(root)
            .status()
            .context("cannot start cargo-deny")?;
        ensure!(
            status.success(),
            "cargo-deny objects to {}; see above, and deny.toml for what is allowed",
            what.join(", ")
        );
        Ok(())
    };
    check(&["licenses", "bans", "sources"])?;
    if succeeds_within(Command::new(&deny).args(["fetch", "db"]).current_dir(root), FETCH_LIMIT) {
        check(&["advisories"])
    } else {
        console::line("advisories skipped: the advisory database cannot be reached");
        Ok(())
    }
}

/// Path of cargo-deny; installed first if it is not there. It takes some minutes to compile, so it is kept outside the checkout.
fn cargo_deny() -> Result<PathBuf> {
    let home = cache_dir()?.join(format!("tools/cargo-deny-{CARGO_DENY}"));
    let program = home.join("bin/cargo-deny");
    if program.is_file() {
        return Ok(program);
    }
    console::line(format_args!("installing cargo-deny {CARGO_DENY} to {}; takes some minutes, once", home.display()));
    let version = format!("={CARGO_DENY}");
    let status = Command::new("cargo")
        .args(["install", "cargo-deny", "--locked", "--version", &version, "--root"])
        .arg(&home)
        // It runs for a second and compiles for minutes; less optimisation takes a quarter off that.
        .envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")])
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .stdin(Stdio::null())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "cannot install cargo-deny {CARGO_DENY}; put it at {} and run again", program.display());
    Ok(program)
}

/// Where what is dear to make is kept between checkouts: `$SKYDOCK_CACHE`, else `skydock` in the user's cache directory.
fn cache_dir() -> Result<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    var("SKYDOCK_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("skydock")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/skydock")))
        .context("cannot find a cache directory; set SKYDOCK_CACHE")
}
