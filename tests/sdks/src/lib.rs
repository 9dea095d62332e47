//! What the tests of the SDKs have in common: they run the tools of a language.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};
use skydock_support::checkout;

/// What to do without Python, or with an older one.
pub const PYTHON: &str = "install Python 3.11 or later";
/// What to do without Node.js.
pub const NODE: &str = "install Node.js 20 or later, with npm";

/// Runs a program in a folder of the checkout, and returns its output. `install` says what to
/// do if it is missing.
///
/// # Errors
/// If it is missing, or fails: then with all that it prints.
pub fn run(command: &mut Command, folder: impl AsRef<Path>, install: &str) -> Result<Output> {
    let folder = folder.as_ref();
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command
        .current_dir(checkout().join(folder))
        .stdin(Stdio::null())
        .output()
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("{name} is missing: {install}")
        }
        other => other.with_context(|| format!("cannot start {name}"))?,
    };
    if !output.status.success() {
        bail!(
            "{command:?} failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output)
}

/// Waits until no other process has the file, and keeps it for as long as the result lives.
///
/// # Errors
/// If the file cannot be created.
pub fn lock(file: &Path) -> Result<File> {
    let lock = || {
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        let file = File::create(file)?;
        file.lock()?;
        Ok::<_, io::Error>(file)
    };
    lock().with_context(|| format!("cannot lock {}", file.display()))
}

/// Returns a command of npm that runs no scripts of packages, and reports only errors.
#[must_use]
pub fn npm(words: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(words).args([
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefer-offline",
    ]);
    npm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_in_one_line() {
        let error = run(&mut Command::new("/no/such/program"), "sdk", "install it").unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "/no/such/program is missing: install it"
        );
    }

    #[test]
    fn the_output_of_a_program_that_fails_is_shown() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo told; echo why >&2; exit 1"]);
        let error = run(&mut command, "sdk", "").unwrap_err().to_string();
        assert!(error.ends_with(" failed:\ntold\nwhy\n"), "{error}");
        assert!(error.contains("\"sh\" \"-c\""), "{error}");
    }

    #[test]
    fn the_copy_of_the_contract_for_go_is_current() {
        // Not a test of the module: Go would not repeat it if only the contract changes.
        let mut diff = Command::new("diff");
        diff.args(["-r", "wit/v0.1.1", "sdk/go/wit/v0.1.1"]);
        if let Err(error) = run(&mut diff, "", "install diffutils") {
            panic!("run sdk/go/wit.sh, and generate.sh if more than comments differ: {error:#}");
        }
    }
}
