//! `cargo xtask semver`: compares the interface of the SDK with that of a fixed version, with
//! cargo-semver-checks.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::contract::{self, Frozen};
use crate::{console, tool::Tool};

/// The version of cargo-semver-checks. It must read what the compiler in `rust-toolchain.toml`
/// writes.
const SEMVER_CHECKS: Tool = Tool {
    name: "cargo-semver-checks",
    version: "0.51.0",
};
/// The package that is published.
const SDK: &str = "skydock-sdk";

/// Compares the SDK with that of the commit of the newest frozen contract, or with its newest
/// version on crates.io. While no contract is frozen, nothing is compared.
///
/// # Errors
/// If a frozen row of the table has changed, if cargo-semver-checks cannot be installed, if the
/// commit is missing, or if there is a change that the version of the SDK does not allow.
pub(crate) fn run(root: &Path, released: bool) -> Result<()> {
    // This is run in a clone with all commits.
    let thawed = contract::thawed(root)?;
    ensure!(thawed.is_empty(), "{}", thawed.join("\n"));
    let frozen = contract::versions(root)?
        .into_iter()
        .find_map(|version| version.frozen);
    let mut arguments = vec![
        "semver-checks".to_owned(),
        "--package".to_owned(),
        SDK.to_owned(),
    ];
    match frozen {
        _ if released => {}
        Some(Frozen { commit, .. }) => {
            ensure!(
                has(root, &commit)?,
                "commit {commit} is missing in this clone: run `git fetch --unshallow`"
            );
            arguments.extend(["--baseline-rev".to_owned(), commit]);
        }
        None => {
            let page = contract::PAGE;
            console::line(format_args!(
                "nothing to compare: every version of the contract may still change ({page})"
            ));
            return Ok(());
        }
    }
    let status = Command::new(SEMVER_CHECKS.program()?)
        .args(arguments)
        .current_dir(root)
        .status()
        .context("cannot start cargo-semver-checks")?;
    ensure!(
        status.success(),
        "{SDK} changed more than its version allows; see above, and RELEASE.md for versions"
    );
    Ok(())
}

/// Returns true if the clone has this commit.
fn has(root: &Path, commit: &str) -> Result<bool> {
    let mut git = Command::new("git");
    git.args(["cat-file", "-e", &format!("{commit}^{{commit}}")])
        .current_dir(root)
        .stderr(Stdio::null());
    Ok(git.status().context("cannot start git")?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_was_not_fetched_is_noticed() {
        let root = crate::root();
        let head = Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(has(&root, String::from_utf8(head.stdout).unwrap().trim()).unwrap());
        assert!(!has(&root, &"0".repeat(40)).unwrap());
    }
}
