//! The copy of the contract in the package of the SDK, which contains only what is in its folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The contract.
const SOURCE: &str = "wit/";
/// Its copy.
const COPY: &str = "sdk/rust/wit/";

/// Makes the copy, or with `check` only compares it. Returns what differs.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub(super) fn run(root: &Path, files: &BTreeSet<String>, check: bool) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in wanted(files) {
        let text = fs::read(root.join(SOURCE).join(file)).with_context(|| format!("cannot read {SOURCE}{file}"))?;
        let copy = root.join(COPY).join(file);
        if fs::read(&copy).is_ok_and(|copied| copied == text) {
            continue;
        }
        if check {
            problems.push(format!(
                "{COPY}{file} differs from {SOURCE}{file}: run `cargo xtask tidy`, and commit what it writes"
            ));
        } else {
            copy.parent().map_or(Ok(()), fs::create_dir_all).with_context(|| format!("cannot create {COPY}{file}"))?;
            fs::write(&copy, text).with_context(|| format!("cannot write {COPY}{file}"))?;
        }
    }
    for file in surplus(files) {
        if check {
            problems
                .push(format!("{COPY}{file} is not in {SOURCE}: run `cargo xtask tidy`, and commit what it deletes"));
        } else {
            fs::remove_file(root.join(COPY).join(file)).with_context(|| format!("cannot delete {COPY}{file}"))?;
        }
    }
    Ok(problems)
}

/// Returns the files of the contract, relative to its folder. Its documents are not part of the package.
fn wanted(files: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    files.iter().filter_map(|file| file.strip_prefix(SOURCE)).filter(|file| file.ends_with(".wit"))
}

/// Returns the files of the copy that the contract does not have.
fn surplus(files: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    let copied = files.iter().filter_map(|file| file.strip_prefix(COPY));
    copied.filter(|file| !files.contains(&format!("{SOURCE}{file}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_files_of_the_contract_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("wit/README.md", "a page");
        write("wit/v1/a.wit", "a");
        write("wit/v1/deps/b.wit", "b");
        write("sdk/rust/wit/v1/a.wit", "an old a");
        write("sdk/rust/wit/v1/c.wit", "c");
        let files =
            ["wit/README.md", "wit/v1/a.wit", "wit/v1/deps/b.wit", "sdk/rust/wit/v1/a.wit", "sdk/rust/wit/v1/c.wit"];
        let files = BTreeSet::from(files.map(str::to_owned));
        let problems = run(root.path(), &files, true).unwrap();
        let named: Vec<_> = problems.iter().filter_map(|problem| problem.split(' ').next()).collect();
        assert_eq!(named, ["sdk/rust/wit/v1/a.wit", "sdk/rust/wit/v1/deps/b.wit", "sdk/rust/wit/v1/c.wit"]);
        assert!(run(root.path(), &files, false).unwrap().is_empty());
        let read = |file: &str| fs::read_to_string(root.path().join(file)).ok();
        assert_eq!(read("sdk/rust/wit/v1/a.wit").as_deref(), Some("a"));
        assert_eq!(read("sdk/rust/wit/v1/deps/b.wit").as_deref(), Some("b"));
        assert_eq!((read("sdk/rust/wit/v1/c.wit"), read("sdk/rust/wit/README.md")), (None, None));
    }
}
