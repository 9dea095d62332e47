//! Finds the tests in source files, and what they verify.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::id::{self, Id};
use crate::source;

/// The most letters that the name of a test with a line `// Holds:` may have.
const NAME: usize = 60;

/// A test that is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Test {
    /// Name of the function.
    pub(crate) name: String,
    /// File, relative to the root of the workspace, with slashes.
    pub(crate) file: String,
    /// What it verifies, with line numbers.
    pub(crate) holds: Vec<(Id, usize)>,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The tests, ordered by file and line.
    pub(crate) tests: Vec<Test>,
    /// Problems with IDs above tests, one line each, with position.
    pub(crate) problems: Vec<String>,
}

/// Returns all tests in these directories.
///
/// # Errors
/// If a directory or file cannot be read.
pub(crate) fn tests(root: &Path, folders: &[&str]) -> Result<Found> {
    let mut found = Found::default();
    for folder in folders {
        visit(root, folder, &mut found)?;
    }
    Ok(found)
}

fn visit(root: &Path, folder: &str, found: &mut Found) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(folder))
        .with_context(|| format!("cannot read the folder {folder}"))?
    {
        let entry = entry.with_context(|| format!("cannot read the folder {folder}"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        names.push((
            name,
            entry
                .file_type()
                .with_context(|| format!("cannot read the folder {folder}"))?
                .is_dir(),
        ));
    }
    names.sort();
    for (name, is_folder) in names {
        let path = format!("{folder}/{name}");
        // Skips build output.
        if is_folder && name != "target" {
            visit(root, &path, found)?;
        } else if !is_folder && name.ends_with(".rs") {
            let text = fs::read_to_string(root.join(&path))
                .with_context(|| format!("cannot read {path}"))?;
            in_file(&path, &text, found).with_context(|| format!("cannot read {path}"))?;
        }
    }
    Ok(())
}

/// Adds the tests in a file.
fn in_file(file: &str, text: &str, found: &mut Found) -> Result<()> {
    let source = source::read(text)?;
    for line in &source.astray {
        found.problems.push(format!(
            "{file}:{line}: this line stands above no test; it belongs directly above one"
        ));
    }
    for test in source.functions {
        let mut holds: Vec<(Id, usize)> = Vec::new();
        for (line, ids) in &test.holds {
            for id in id::listed(ids) {
                match id {
                    Ok(id) if holds.iter().any(|(held, _)| *held == id) => {
                        found
                            .problems
                            .push(format!("{file}:{line}: {id} is there twice"));
                    }
                    Ok(id) => holds.push((id, *line)),
                    Err(error) => found.problems.push(format!("{file}:{line}: {error}")),
                }
            }
        }
        let length = test.name.len();
        if !test.holds.is_empty() && length > NAME {
            found.problems.push(format!(
                "{file}:{}: the name of this test has {length} letters; at most {NAME} can be read in a list",
                test.line
            ));
        }
        if test.runs {
            found.tests.push(Test {
                name: test.name,
                file: file.to_owned(),
                holds,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Found {
        let mut found = Found::default();
        in_file("host/a.rs", text, &mut found).unwrap();
        found
    }

    fn held(text: &str) -> Vec<String> {
        let found = found(text);
        assert_eq!(found.problems, [""; 0], "{text}");
        found
            .tests
            .iter()
            .flat_map(|test| &test.holds)
            .map(|(id, line)| format!("{id}:{line}"))
            .collect()
    }

    #[test]
    fn a_test_holds_the_ids_in_the_lines_above() {
        assert_eq!(
            held("// Holds: S-16, SEC-03\n#[test]\nfn it_is_so() {}\n"),
            ["S-16:1", "SEC-03:1"]
        );
        assert_eq!(
            held("// Holds: S-16\n// Holds: OPS-02\n#[test]\nfn it_is_so() {}\n"),
            ["S-16:1", "OPS-02:2"]
        );
        assert_eq!(
            held("#[test]\nfn n01_it_is_so() {}\n"),
            [""; 0],
            "a name means nothing"
        );
    }

    #[test]
    fn tests_that_do_not_run_hold_nothing() {
        assert_eq!(
            held("// Holds: S-16\n#[ignore]\n#[test]\nfn it_is_so() {}\n"),
            [""; 0]
        );
        assert_eq!(
            held("// Holds: S-16\n#[cfg(any())]\n#[test]\nfn it_is_so() {}\n"),
            [""; 0]
        );
    }

    #[test]
    fn an_error_has_the_file_and_line() {
        let long = "a".repeat(61);
        for (text, problem) in [
            (
                "\n// Holds: S16\n#[test]\nfn a() {}\n".to_owned(),
                "host/a.rs:2: \"S16\" is not an id; ids look like",
            ),
            (
                "// Holds: S-16,\n#[test]\nfn a() {}\n".to_owned(),
                "host/a.rs:1: \"\" is not an id",
            ),
            (
                "// Holds: S-16, S-16\n#[test]\nfn a() {}\n".to_owned(),
                "host/a.rs:1: S-16 is there twice",
            ),
            (
                "// Holds: S-16\nfn a() {}\n".to_owned(),
                "host/a.rs:1: this line stands above no test",
            ),
            (
                format!("// Holds: S-16\n#[test]\nfn {long}() {{}}\n"),
                "host/a.rs:3: the name of this test has 61 letters",
            ),
        ] {
            let problems = found(&text).problems;
            assert!(
                problems.len() == 1 && problems.iter().all(|found| found.starts_with(problem)),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn a_long_name_is_allowed_without_a_holds_line() {
        assert_eq!(
            held(&format!("#[test]\nfn {}() {{}}\n", "a".repeat(90))),
            [""; 0]
        );
    }

    #[test]
    fn this_very_test_is_found() {
        let found = tests(&crate::root(), &["xtask"]).unwrap();
        let is_this = |test: &Test| {
            test.name == "this_very_test_is_found" && test.file == "xtask/src/parity/scan.rs"
        };
        assert_eq!(
            found.tests.iter().filter(|test| is_this(test)).count(),
            1,
            "{:?}",
            found.tests
        );
    }
}
