//! Finds the tests in source files.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// A test that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Test {
    /// Name of the function.
    pub(crate) name: String,
    /// From the root of the workspace, with slashes.
    pub(crate) file: String,
}

/// All tests in these folders, ordered by file and place.
///
/// # Errors
/// If a folder or file cannot be read.
pub(crate) fn tests(root: &Path, folders: &[&str]) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for folder in folders {
        visit(root, folder, &mut tests)?;
    }
    Ok(tests)
}

fn visit(root: &Path, folder: &str, tests: &mut Vec<Test>) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("cannot read the folder {folder}"))? {
        let entry = entry.with_context(|| format!("cannot read the folder {folder}"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        names.push((name, entry.file_type().with_context(|| format!("cannot read the folder {folder}"))?.is_dir()));
    }
    names.sort();
    for (name, is_folder) in names {
        let path = format!("{folder}/{name}");
        // What is built inside a folder of its own is no source.
        if is_folder && name != "target" {
            visit(root, &path, tests)?;
        } else if !is_folder && name.ends_with(".rs") {
            let source = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
            tests.extend(in_source(&source).into_iter().map(|name| Test { name: name.to_owned(), file: path.clone() }));
        }
    }
    Ok(())
}

/// Names of the functions under `#[test]` or a runtime's `#[….test]`; not of those under `#[ignore]`, and none in comments.
///
/// Formatted code is read by its lines: an attribute begins one, and so does the function that it is on.
fn in_source(source: &str) -> Vec<&str> {
    let (mut is_test, mut is_ignored) = (false, false);
    let mut names = Vec::new();
    for line in source.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path: String = attribute.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
            is_test |= path == "test" || path.ends_with("::test");
            is_ignored |= path == "ignore";
        } else if let Some(name) = function(line) {
            if is_test && !is_ignored {
                names.push(name);
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    names
}

/// The name, if the line begins a function.
fn function(line: &str) -> Option<&str> {
    let mut rest = line;
    for qualifier in ["pub ", "pub(crate) ", "async "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_all_kinds_are_found() {
        for source in [
            "#[test]\nfn n01_a() {}",
            "    #[test]\n    fn n01_a() -> Result<()> {",
            "#[tokio::test(start_paused = true)]\nasync fn n01_a() {}",
            "#[tokio::test(\n    flavor = \"multi_thread\",\n)]\n#[allow(unused)]\npub async fn n01_a() {}",
            "proptest! {\n    /// As it is.\n    #[test]\n    fn n01_a(steps in steps()) {}\n}",
            "#[test]\n#[should_panic]\nfn n01_a() {}",
        ] {
            assert_eq!(in_source(source), ["n01_a"], "{source}");
        }
    }

    #[test]
    fn what_does_not_run_is_not_found() {
        for source in [
            "fn n01_a() {}",
            "// #[test]\nfn n01_a() {}",
            "#[test]\n#[ignore = \"slow\"]\nfn n01_a() {}",
            "#[test]\nfn a() {}\nfn n01_a() {}",
            "#[cfg(test)]\nfn n01_a() {}",
            "/// #[test]\n/// fn n01_a() {}",
        ] {
            assert!(!in_source(source).contains(&"n01_a"), "{source}");
        }
    }

    #[test]
    fn this_very_test_is_found() {
        let tests = tests(&crate::root(), &["xtask"]).unwrap();
        let name = "this_very_test_is_found".to_owned();
        assert!(tests.contains(&Test { name, file: "xtask/src/parity/scan.rs".to_owned() }), "{tests:?}");
    }
}
