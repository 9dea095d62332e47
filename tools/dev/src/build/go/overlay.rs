//! Patched copies of a few files of the installed Go, which `go build -overlay` uses instead.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Checks the files of Go that the SDK lists, writes patched copies, and returns the file that
/// lists them.
///
/// # Errors
/// If a file is different from the one that the patches were written for.
pub(super) fn write(
    goroot: &Path,
    version: &str,
    sdk: &Path,
    work: &Path,
) -> anyhow::Result<PathBuf> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };

    let mut replaced = Map::new();
    for line in read(&sdk.join("SHA256SUMS"))?.lines() {
        let (expected, file) = line
            .split_once("  ")
            .context("SHA256SUMS of the SDK is not valid")?;

        let original = goroot.join(file);
        let text = read(&original)?;
        ensure!(
            hex::encode(Sha256::digest(&text)) == expected,
            "{version} in {} is not supported, because {file} differs: install Go 1.26.8 from https://go.dev/dl",
            goroot.display()
        );

        let name = Path::new(file)
            .file_name()
            .context("SHA256SUMS of the SDK is not valid")?;
        let patch = sdk.join(name).with_extension("diff");
        let patched = patched(&text, &read(&patch)?)
            .with_context(|| format!("cannot apply {}", patch.display()))?;

        let copy = std::path::absolute(work.join(name))?;
        fs::write(&copy, patched).with_context(|| format!("cannot write {}", copy.display()))?;
        replaced.insert(
            original.display().to_string(),
            Value::String(copy.display().to_string()),
        );
    }

    let overlay = work.join("overlay.json");
    fs::write(&overlay, json!({ "Replace": replaced }).to_string())
        .with_context(|| format!("cannot write {}", overlay.display()))?;
    Ok(overlay)
}

/// Applies the patch of one file.
fn patched(text: &str, patch: &str) -> anyhow::Result<String> {
    Ok(diffy::apply(text, &diffy::Patch::from_str(patch)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_go_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let (root, sdk, work) = (
            dir.path().join("go"),
            dir.path().join("sdk"),
            dir.path().join("work"),
        );
        for folder in [&root, &sdk, &work] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(root.join("a.go"), "one\n").unwrap();
        fs::write(
            sdk.join("a.diff"),
            "--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-one\n+two\n",
        )
        .unwrap();
        let sums = |text: &str| {
            fs::write(
                sdk.join("SHA256SUMS"),
                format!("{}  a.go\n", hex::encode(Sha256::digest(text))),
            )
        };
        sums("other\n").unwrap();
        let error = write(&root, "go1.27", &sdk, &work).unwrap_err().to_string();
        let expected = "go1.27 in ROOT is not supported, because a.go differs: install Go 1.26.8 from https://go.dev/dl";
        assert_eq!(error.replace(root.to_str().unwrap(), "ROOT"), expected);
        sums("one\n").unwrap();
        let overlay = fs::read_to_string(write(&root, "go1.26.8", &sdk, &work).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(work.join("a.go")).unwrap(), "two\n");
        assert!(overlay.starts_with(r#"{"Replace":{""#), "{overlay}");
    }
}
