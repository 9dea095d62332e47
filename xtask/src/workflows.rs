//! The workflows of GitHub, checked with actionlint, whose version is in `xtask/actionlint/go.mod`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{checkout, console};

/// The Go module that names actionlint as a tool. `go` builds it once, and keeps it in its cache.
const MODULE: &str = "xtask/actionlint";
/// The folder of the workflows.
const WORKFLOWS: &str = ".github/workflows/";

/// Checks the workflows, unless Go is not installed.
///
/// # Errors
/// If actionlint cannot be built, or reports a problem.
pub(crate) fn run(root: &Path) -> Result<()> {
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(root.join(MODULE));
        go
    };
    // Fails too if it is too old for the module and cannot update itself.
    if !go()
        .args(["list", "-m"])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        console::line("skipped: workflows, which are checked with Go");
        return Ok(());
    }
    // Other programs, which it uses if they are installed, would make the result depend on the
    // machine.
    let status = go()
        .args(["tool", "actionlint", "-shellcheck=", "-pyflakes="])
        .args(files(root)?)
        .status();
    ensure!(
        status.context("cannot start go")?.success(),
        "actionlint objects to {WORKFLOWS}; see above"
    );
    Ok(())
}

/// Returns the workflows.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let files = checkout::files(root)?;
    Ok(files
        .iter()
        .filter(|file| file.starts_with(WORKFLOWS))
        .map(|file| root.join(file))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn workflows_run_only_development_tasks() {
        for file in files(&crate::root()).unwrap() {
            let text = fs::read_to_string(&file).unwrap();
            let commands: Vec<_> = text
                .lines()
                .filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("run: "))
                .collect();
            assert!(
                !commands.is_empty() || text.contains("uses: ./"),
                "{}",
                file.display()
            );
            for command in commands {
                let known =
                    command == "rustup toolchain install" || command.starts_with("cargo xtask ");
                assert!(known, "{}: {command}", file.display());
            }
        }
    }
}
