//! componentize-py, in an environment of its own that all projects of the user share.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

use super::PYTHON;
use crate::build::{cache, lock, tool::Tool};

/// The version of componentize-py. Others may name bindings differently.
pub(super) const VERSION: &str = "0.25.1";

pub(super) const PIP: Tool = Tool {
    name: "pip",
    install: "delete its folder, and build again",
};

/// Returns the folder of the environment, which is created if it is missing.
///
/// # Errors
/// If it cannot be created or filled.
pub(super) fn folder() -> anyhow::Result<PathBuf> {
    let folder = cache::folder()?.join(format!("componentize-py-{VERSION}"));
    let complete = folder.join("complete");

    // Not in the folder, which is cleared.
    let _lock = lock::take(&cache::folder()?.join("python"))?;

    // Its Python is a link to the one that is installed, which may have been replaced.
    if complete.is_file() && folder.join("bin/python").exists() {
        return Ok(folder);
    }

    // Standard error may be closed.
    let _ = writeln!(
        io::stderr(),
        "installing componentize-py {VERSION} to {}, once",
        folder.display()
    );

    PYTHON.run(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&folder),
    )?;
    PIP.run(pip_in(&folder).arg(format!("componentize-py=={VERSION}")))?;

    ensure!(
        folder.join("bin/componentize-py").is_file(),
        "componentize-py {VERSION} does not work on this platform"
    );

    // Written last: an installation that was interrupted starts again.
    fs::write(&complete, "").with_context(|| format!("cannot write {}", complete.display()))?;
    Ok(folder)
}

/// Returns a command that installs packages.
///
/// # Errors
/// See [`folder`].
pub(super) fn pip() -> anyhow::Result<Command> {
    Ok(pip_in(&folder()?))
}

fn pip_in(folder: &Path) -> Command {
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip
}
