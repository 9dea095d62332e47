//! `cargo xtask audit`: checks licenses, banned crates, sources and known vulnerabilities of all
//! dependencies with cargo-deny (`deny.toml`), and the workflows of GitHub.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::command::succeeds_within;
use crate::tool::Tool;
use crate::{console, workflows};

/// The version of cargo-deny for `deny.toml`.
const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
};

/// Timeout for fetching the advisory database, which usually takes seconds. A network that drops
/// packets must not block the run.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

/// Checks the dependencies and the workflows.
///
/// # Errors
/// If a tool cannot be installed, or reports a problem.
pub(crate) fn run(root: &Path) -> Result<()> {
    workflows::run(root)?;
    let deny = CARGO_DENY.program()?;
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
    if succeeds_within(
        Command::new(&deny).args(["fetch", "db"]).current_dir(root),
        FETCH_LIMIT,
    ) {
        check(&["advisories"])
    } else {
        console::line("skipped: advisories, whose database cannot be reached");
        Ok(())
    }
}
