//! esbuild and componentize-js, in a folder of their own that all projects of the user share. Their
//! versions, and those of everything that they depend on, are in `package-lock.json`.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::Command,
};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::NPM;
use crate::build::{cache, lock};

/// Bundles a plugin.
pub(super) const BUNDLE: &str = "bundle.mjs";
/// Makes a component.
pub(super) const COMPONENTIZE: &str = "componentize.mjs";

/// All files, and their texts.
const FILES: [(&str, &str); 4] = [
    ("package.json", include_str!("package.json")),
    ("package-lock.json", include_str!("package-lock.json")),
    (BUNDLE, include_str!("bundle.mjs")),
    (COMPONENTIZE, include_str!("componentize.mjs")),
];

/// Returns a hash of the tools.
pub(super) fn key() -> String {
    let mut hash = Sha256::new();
    FILES
        .iter()
        .for_each(|(_, text)| hash.update(Sha256::digest(text)));
    hex::encode(hash.finalize()).chars().take(16).collect()
}

/// Returns the folder of the tools, which are installed if they are missing.
///
/// # Errors
/// If they cannot be installed.
pub(super) fn folder() -> anyhow::Result<PathBuf> {
    let folder = cache::folder()?.join(format!("typescript-{}", key()));
    let complete = folder.join("complete");
    let _lock = lock::take(&folder)?;
    if complete.is_file() {
        return Ok(folder);
    }

    // Standard error may be closed.
    let _ = writeln!(
        io::stderr(),
        "installing esbuild and componentize-js to {}, once",
        folder.display()
    );

    let write = || {
        fs::create_dir_all(&folder)?;
        FILES
            .iter()
            .try_for_each(|(file, text)| fs::write(folder.join(file), text))
    };
    write().with_context(|| format!("cannot write {}", folder.display()))?;

    let mut npm = Command::new("npm");
    npm.args([
        "ci",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
    ]);
    NPM.run(npm.current_dir(&folder))?;

    // Written last: an installation that was interrupted starts again.
    fs::write(&complete, "").with_context(|| format!("cannot write {}", complete.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_of_all_tools_are_locked() {
        let text = |name| FILES.iter().find(|(file, _)| *file == name).unwrap().1;
        let manifest: serde_json::Value = serde_json::from_str(text("package.json")).unwrap();
        let lock: serde_json::Value = serde_json::from_str(text("package-lock.json")).unwrap();
        assert_eq!(
            lock["packages"][""]["dependencies"],
            manifest["dependencies"]
        );
        for (name, package) in lock["packages"].as_object().unwrap() {
            assert!(
                name.is_empty() || package["integrity"].is_string(),
                "{name}"
            );
        }
    }
}
