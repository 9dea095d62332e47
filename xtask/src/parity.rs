//! `cargo xtask parity`: shows which test verifies which statement about upstream's behavior, and
//! which promise of the documentation.
//!
//! `docs/parity/statements.yaml` describes upstream's behavior in numbered statements, and
//! `docs/promises/promises.yaml` quotes what the documents promise. A test holds what stands in a
//! comment directly above its attributes (`// Holds: S-16, SEC-03`), and the statements with which
//! its name begins (`an_existing_provider_id_is_kept`): it fails if they are not true. Each promise
//! must be held by a test. A statement that no test holds needs a documented decision to deviate
//! from upstream. The generated tables are `docs/parity.md` and `docs/promises.md`.

mod document;
mod id;
mod promises;
mod scan;
mod statements;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use self::id::Id;
use self::promises::{PROMISES, Promises};
use self::scan::Test;
use self::statements::Section;
use crate::console;

/// File with the statements, relative to the root of the workspace.
const STATEMENTS: &str = "docs/parity/statements.yaml";
/// The generated table of statements.
const TABLE: &str = "docs/parity.md";
/// Directories with tests that verify statements and promises.
const FOLDERS: [&str; 5] = ["host", "plugins", "sdk", "tests", "xtask"];

/// The tests that verify each statement or promise, in the order in which they were found.
type Held = BTreeMap<Id, Vec<Test>>;

/// Writes the tables, or only compares them if `check` is set, and prints a summary.
///
/// # Errors
/// If a statement has neither a test nor a decision, a promise has no test, a document does not
/// contain a quotation, a test names an unknown ID, the statements or promises are not in order, or
/// (with `check`) a table is outdated.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let text = fs::read_to_string(root.join(STATEMENTS))
        .with_context(|| format!("cannot read {STATEMENTS}"))?;
    let sections = statements::parse(&text).with_context(|| format!("cannot read {STATEMENTS}"))?;
    let promises = promises::read(root)?;
    let found = scan::tests(root, &FOLDERS)?;
    let held = held(&found.tests);
    for row in table::short(&sections, &held) {
        console::line(row);
    }
    console::line(promises::sum(&promises, &held));
    let mut problems = found.problems;
    problems.extend(undecided(&sections, &held));
    problems.extend(promises::problems(root, &promises, &held)?);
    problems.extend(unknown(&sections, &promises, &found.tests));
    for (file, wanted) in [
        (TABLE, table::page(&sections, &held)),
        (promises::PAGE, promises::page(&promises, &held)),
    ] {
        let page = root.join(file);
        if !check {
            fs::write(&page, wanted).with_context(|| format!("cannot write {file}"))?;
        } else if fs::read_to_string(&page).ok().as_ref() != Some(&wanted) {
            problems.push(format!(
                "{file} is not up to date: run `cargo xtask parity` and commit what it writes"
            ));
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn held(tests: &[Test]) -> Held {
    let mut held = Held::new();
    for test in tests {
        for (id, _) in &test.holds {
            held.entry(id.clone()).or_default().push(test.clone());
        }
    }
    held
}

/// Returns the problems of the statements, including statements with neither a test nor a
/// documented deviation.
fn undecided(sections: &[Section], held: &Held) -> Vec<String> {
    let mut problems = statements::problems(sections);
    let all = sections.iter().flat_map(|section| &section.statements);
    for statement in
        all.filter(|statement| statement.better.is_none() && !held.contains_key(&statement.id))
    {
        problems.push(format!(
            "{id} is held by no test: write `// Holds: {id}` above one, or write under `better:` in {STATEMENTS} what Skydock does \
             instead, and why ({upstream})",
            id = statement.id,
            upstream = statement.upstream
        ));
    }
    problems
}

/// Returns the problems of tests that name unknown IDs.
fn unknown(sections: &[Section], promises: &[Promises], tests: &[Test]) -> Vec<String> {
    let statements = sections
        .iter()
        .flat_map(|section| &section.statements)
        .map(|statement| &statement.id);
    let known: Vec<_> = statements
        .chain(promises::all(promises).map(|promise| &promise.id))
        .collect();
    let mut problems = Vec::new();
    for Test { name, file, holds } in tests {
        for (id, line) in holds.iter().filter(|(id, _)| !known.contains(&id)) {
            problems.push(format!(
                "{file}:{line}: test {name} names {id}, which is neither in {STATEMENTS} nor in {PROMISES}"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(holds: &[&str]) -> Test {
        let holds = holds
            .iter()
            .map(|id| (Id::try_from((*id).to_owned()).unwrap(), 7))
            .collect();
        Test {
            name: "it_is_so".to_owned(),
            file: "host/a.rs".to_owned(),
            holds,
        }
    }

    fn sections(statements: &str) -> Vec<Section> {
        statements::parse(&format!("- title: Nodes\n  statements:\n{statements}")).unwrap()
    }

    fn found(statements: &str, holds: &[&str]) -> Vec<String> {
        let (sections, tests) = (sections(statements), [test(holds)]);
        [
            undecided(&sections, &held(&tests)),
            unknown(&sections, &[], &tests),
        ]
        .concat()
    }

    #[test]
    fn a_statement_needs_a_test_or_a_decision() {
        let statements = "  - {id: N-01, upstream: a}\n  - {id: N-02, upstream: b, better: c}\n";
        assert_eq!(found(statements, &["N-01", "N-02"]), [""; 0]);
        assert_eq!(found(statements, &["N-01"]), [""; 0]);
    }

    #[test]
    fn an_unheld_statement_is_reported_with_what_to_do() {
        let problems = found("  - {id: N-01, upstream: Nodes are nodes.}\n", &[]);
        let [problem] = problems.as_slice() else {
            panic!("{problems:?}")
        };
        for part in [
            "N-01 is held by no test",
            "// Holds: N-01",
            "better:",
            "Nodes are nodes.",
        ] {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn an_unknown_id_is_reported_with_the_line_of_the_test() {
        let problems = found("  - {id: N-01, upstream: a}\n", &["N-01", "N-10"]);
        assert_eq!(
            problems,
            [
                "host/a.rs:7: test it_is_so names N-10, which is neither in docs/parity/statements.yaml nor in docs/promises/promises.yaml"
            ]
        );
    }

    #[test]
    fn the_statements_of_this_repository_are_valid() {
        let text = fs::read_to_string(crate::root().join(STATEMENTS)).unwrap();
        assert_eq!(
            statements::problems(&statements::parse(&text).unwrap()),
            [""; 0]
        );
    }

    /// Creates a repository with one statement and one promise, and a test with this line above it.
    fn repository(holds: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS.iter().chain(&["docs/parity", "docs/promises"]) {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write(
            STATEMENTS,
            "- title: Nodes\n  statements:\n  - {id: N-01, upstream: a}\n",
        );
        write("SECURITY.md", "It is safe.\n");
        write(
            PROMISES,
            "- file: SECURITY.md\n  promises:\n  - {id: SEC-01, says: It is safe.}\n",
        );
        write(
            "host/a.rs",
            &format!("{holds}\n#[test]\nfn it_is_so() {{}}\n"),
        );
        root
    }

    #[test]
    fn a_check_fails_on_outdated_tables_without_writing_them() {
        let root = repository("// Holds: N-01, SEC-01");
        let refusal = run(root.path(), true).unwrap_err().to_string();
        for page in [TABLE, promises::PAGE] {
            assert!(
                refusal.contains(&format!("{page} is not up to date")),
                "{refusal}"
            );
            assert!(!root.path().join(page).exists());
        }
        run(root.path(), false).unwrap();
        run(root.path(), true).unwrap();
    }

    #[test]
    fn statements_and_promises_are_checked_together() {
        let refusal = run(repository("// Holds: X-01").path(), false)
            .unwrap_err()
            .to_string();
        for problem in [
            "N-01 is held by no test",
            "SEC-01 is held by no test",
            "host/a.rs:1: \"X-01\" is not an id",
        ] {
            assert!(refusal.contains(problem), "{refusal}");
        }
    }

    #[test]
    fn a_promise_that_is_reworded_is_reported() {
        let root = repository("// Holds: N-01, SEC-01");
        fs::write(root.path().join("SECURITY.md"), "It is very safe.\n").unwrap();
        let refusal = run(root.path(), false).unwrap_err().to_string();
        assert!(
            refusal.contains("SEC-01: SECURITY.md does not say, word for word: It is safe."),
            "{refusal}"
        );
        assert!(refusal.contains("SECURITY.md:1: list this in"), "{refusal}");
    }
}
