//! The copies of the contract in the packages of the SDKs, which contain only what is in their
//! folders.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Folders of the contract, and their copies.
///
/// The WIT of WASI that the SDK for Go uses is that of the others.
const COPIES: [(&str, &str); 8] = [
    ("wit/", "sdk/rust/wit/"),
    ("wit/v0.1.0/", "sdk/go/wit/v0.1.0/"),
    ("wit/v0.1.0/", "sdk/python/skydock/wit/v0.1.0/"),
    (
        "sdk/go/wit/guest/deps/",
        "sdk/python/skydock/wit/guest/deps/",
    ),
    ("wit/v0.1.0/", "sdk/typescript/wit/v0.1.0/"),
    ("sdk/go/wit/guest/deps/", "sdk/typescript/wit/guest/deps/"),
    ("wit/v0.1.0/", "sdk/c/skydock/wit/v0.1.0/"),
    ("sdk/go/wit/guest/deps/", "sdk/c/skydock/wit/guest/deps/"),
];

/// Makes the copies, or with `check` only compares them. Returns what differs.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub(super) fn run(root: &Path, files: &BTreeSet<String>, check: bool) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (source, copy) in COPIES {
        problems.extend(copied(root, files, source, copy, check)?);
    }
    Ok(problems)
}

/// Makes one copy, or with `check` only compares it. Returns what differs.
fn copied(
    root: &Path,
    files: &BTreeSet<String>,
    source: &str,
    folder: &str,
    check: bool,
) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in wanted(files, source) {
        let text = fs::read(root.join(source).join(file))
            .with_context(|| format!("cannot read {source}{file}"))?;
        let copy = root.join(folder).join(file);
        if fs::read(&copy).is_ok_and(|copied| copied == text) {
            continue;
        }
        if check {
            problems.push(format!(
                "{folder}{file} differs from {source}{file}: run `cargo xtask tidy`, and commit what it writes"
            ));
        } else {
            copy.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .with_context(|| format!("cannot create {folder}{file}"))?;
            fs::write(&copy, text).with_context(|| format!("cannot write {folder}{file}"))?;
        }
    }
    for file in surplus(files, source, folder) {
        if check {
            problems
                .push(format!("{folder}{file} is not in {source}: run `cargo xtask tidy`, and commit what it deletes"));
        } else {
            fs::remove_file(root.join(folder).join(file))
                .with_context(|| format!("cannot delete {folder}{file}"))?;
        }
    }
    Ok(problems)
}

/// Returns the files in a folder of the contract, relative to it. Documents are not part of the
/// packages.
fn wanted<'a>(files: &'a BTreeSet<String>, source: &str) -> impl Iterator<Item = &'a str> {
    files
        .iter()
        .filter_map(move |file| file.strip_prefix(source))
        .filter(|file| file.ends_with(".wit"))
}

/// Returns the files of a copy that the contract does not have.
fn surplus<'a>(
    files: &'a BTreeSet<String>,
    source: &str,
    folder: &str,
) -> impl Iterator<Item = &'a str> {
    let copied = files
        .iter()
        .filter_map(move |file| file.strip_prefix(folder));
    copied.filter(move |file| !files.contains(&format!("{source}{file}")))
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
        let files = [
            "wit/README.md",
            "wit/v1/a.wit",
            "wit/v1/deps/b.wit",
            "sdk/rust/wit/v1/a.wit",
            "sdk/rust/wit/v1/c.wit",
        ];
        let files = BTreeSet::from(files.map(str::to_owned));
        let problems = run(root.path(), &files, true).unwrap();
        let named: Vec<_> = problems
            .iter()
            .filter_map(|problem| problem.split(' ').next())
            .collect();
        assert_eq!(
            named,
            [
                "sdk/rust/wit/v1/a.wit",
                "sdk/rust/wit/v1/deps/b.wit",
                "sdk/rust/wit/v1/c.wit"
            ]
        );
        assert!(run(root.path(), &files, false).unwrap().is_empty());
        let read = |file: &str| fs::read_to_string(root.path().join(file)).ok();
        assert_eq!(read("sdk/rust/wit/v1/a.wit").as_deref(), Some("a"));
        assert_eq!(read("sdk/rust/wit/v1/deps/b.wit").as_deref(), Some("b"));
        assert_eq!(
            (
                read("sdk/rust/wit/v1/c.wit"),
                read("sdk/rust/wit/README.md")
            ),
            (None, None)
        );
    }
}
