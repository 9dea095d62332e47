//! A copy of the sources for mutations, so that the checkout is never changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::checkout;

/// Updates the copy from the checkout; `copied` returns the content of a file in the copy, given
/// its name and content. Unchanged files keep their timestamps, so that cargo compiles only what
/// has changed.
///
/// # Errors
/// If git cannot list the files, or one cannot be copied.
pub(super) fn refresh(
    root: &Path,
    tree: &Path,
    copied: impl Fn(&str, Vec<u8>) -> Vec<u8>,
) -> Result<()> {
    let wanted = checkout::files(root)?;
    for name in &wanted {
        let (from, to) = (root.join(name), tree.join(name));
        let content = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let content = copied(name, content);
        if fs::read(&to).ok().as_ref() != Some(&content) {
            let folder = to.parent().unwrap_or(tree);
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            fs::write(&to, content).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    sweep(tree, tree, &wanted)
}

/// Removes files from the copy that are not in the checkout, for example a deleted module or files
/// that a test has created.
fn sweep(tree: &Path, folder: &Path, wanted: &BTreeSet<String>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let path = entry.path();
        if entry
            .file_type()
            .with_context(|| format!("cannot read {}", path.display()))?
            .is_dir()
        {
            sweep(tree, &path, wanted)?;
        } else if !path
            .strip_prefix(tree)
            .ok()
            .and_then(Path::to_str)
            .is_some_and(|name| wanted.contains(name))
        {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn refresh_keeps_the_mtime_of_unchanged_files() {
        let (root, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let git = |args: &[&str]| {
            assert!(
                Command::new("git")
                    .args(args)
                    .current_dir(root.path())
                    .status()
                    .unwrap()
                    .success()
            );
        };
        let write = |dir: &Path, file: &str, text: &str| {
            fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
            fs::write(dir.join(file), text).unwrap();
        };
        git(&["init", "--quiet"]);
        for (file, text) in [
            ("src/a.rs", "a"),
            ("src/b.rs", "b"),
            (".gitignore", "target\n"),
            ("target/x", "x"),
        ] {
            write(root.path(), file, text);
        }
        let copied = |file: &str| fs::read_to_string(tree.path().join(file)).ok();
        refresh(root.path(), tree.path(), |_, content| content).unwrap();
        assert_eq!(
            (copied("src/a.rs").as_deref(), copied("target/x")),
            (Some("a"), None)
        );
        let time = || {
            fs::metadata(tree.path().join("src/a.rs"))
                .unwrap()
                .modified()
                .unwrap()
        };
        let before = time();
        write(tree.path(), "src/b.rs", "a mutant");
        write(tree.path(), "src/proptest-regressions/b.txt", "left behind");
        fs::remove_file(root.path().join(".gitignore")).unwrap();
        refresh(root.path(), tree.path(), |_, content| content).unwrap();
        assert_eq!(copied("src/b.rs").as_deref(), Some("b"));
        assert_eq!(
            (
                copied("src/proptest-regressions/b.txt"),
                copied(".gitignore")
            ),
            (None, None)
        );
        assert_eq!(time(), before);
    }
}
