//! `cargo xtask semver`: compares the interface of the SDK with the released one, with cargo-semver-checks.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::console;
use crate::tool::Tool;

/// The version of cargo-semver-checks. It must read what the compiler in `rust-toolchain.toml` writes.
const SEMVER_CHECKS: Tool = Tool { name: "cargo-semver-checks", version: "0.51.0" };
/// The page with the versions of the contract.
const VERSIONS: &str = "wit/README.md";
/// The package that is published.
const SDK: &str = "skydock-sdk";

/// Compares the SDK with its newest version on crates.io. While no version of the contract is released, nothing is compared.
///
/// # Errors
/// If cargo-semver-checks cannot be installed, or finds a change that the version of the SDK does not allow.
pub(crate) fn run(root: &Path) -> Result<()> {
    let page = fs::read_to_string(root.join(VERSIONS)).with_context(|| format!("cannot read {VERSIONS}"))?;
    if !has_release(&page) {
        console::line(format_args!("nothing to compare: no version of the contract is released yet ({VERSIONS})"));
        return Ok(());
    }
    let status = Command::new(SEMVER_CHECKS.program()?)
        .args(["semver-checks", "--package", SDK])
        .current_dir(root)
        .status()
        .context("cannot start cargo-semver-checks")?;
    ensure!(status.success(), "{SDK} changed more than its version allows; see above, and RELEASE.md for versions");
    Ok(())
}

/// Returns true if the table of versions has one that is released.
fn has_release(page: &str) -> bool {
    let rows =
        page.lines().skip_while(|line| !line.starts_with("## Versions")).filter_map(|line| line.strip_prefix("| "));
    rows.filter(|row| row.starts_with(|first: char| first.is_ascii_digit())).any(|row| !row.contains("not released"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_released_unless_its_state_denies_it() {
        let page =
            |rows: &str| format!("| 1 | a |\n## Versions\n| Version | State |\n| --- | --- |\n{rows}\n- A rule.\n");
        assert!(!has_release(&page("| 0.1.0 | current; not released yet |")));
        assert!(has_release(&page("| 0.1.0 | current |")));
        assert!(has_release(&page("| 0.2.0 | not released yet |\n| 0.1.0 | current |")));
    }

    #[test]
    fn the_table_of_versions_is_found_in_its_page() {
        let page = fs::read_to_string(crate::root().join(VERSIONS)).unwrap();
        assert!(page.lines().any(|line| line.starts_with("| 0.1.0 |")), "{page}");
    }
}
