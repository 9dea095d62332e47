//! `cargo xtask parity`: which test holds which statement of upstream's behaviour.
//!
//! `docs/parity/statements.yaml` says what upstream does, statement by statement. A test holds a statement by beginning its
//! name with the statement's id (`n10_n13_a_provider_id_that_is_there_is_kept`). A statement that no test holds needs a
//! decision, written beside it, to do better. The table of both is `docs/parity.md`.

mod id;
mod scan;
mod statements;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use self::id::Id;
use self::scan::Test;
use self::statements::Section;
use crate::console;

/// Where the statements are, from the root of the workspace.
const STATEMENTS: &str = "docs/parity/statements.yaml";
/// The table that is made of them.
const TABLE: &str = "docs/parity.md";
/// Folders whose tests hold statements.
const FOLDERS: [&str; 3] = ["host", "tests", "xtask"];

/// The tests that hold each statement, in the order in which they were found.
type Held = BTreeMap<Id, Vec<Test>>;

/// Writes the table, or with `check` only compares it, and prints it in short.
///
/// # Errors
/// If a statement is neither held nor decided, a test names a statement that does not exist, the statements are not in order
/// themselves, or (with `check`) the table is not up to date.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let file = root.join(STATEMENTS);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let sections = statements::parse(&text).with_context(|| format!("cannot read {STATEMENTS}"))?;
    let held = by_statement(scan::tests(root, &FOLDERS)?);
    for row in table::short(&sections, &held) {
        console::line(row);
    }
    let mut problems = problems(&sections, &held);
    let wanted = table::page(&sections, &held);
    let page = root.join(TABLE);
    if !check {
        fs::write(&page, wanted).with_context(|| format!("cannot write {}", page.display()))?;
    } else if fs::read_to_string(&page).ok().as_ref() != Some(&wanted) {
        problems.push(format!("{TABLE} is not up to date: run `cargo xtask parity` and commit what it writes"));
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn by_statement(tests: Vec<Test>) -> Held {
    let mut held = Held::new();
    for test in tests {
        for id in id::leading(&test.name) {
            held.entry(id).or_default().push(test.clone());
        }
    }
    held
}

/// All that is wrong, each in one line.
fn problems(sections: &[Section], held: &Held) -> Vec<String> {
    let mut problems = statements::problems(sections);
    let all: Vec<_> = sections.iter().flat_map(|section| &section.statements).collect();
    for statement in &all {
        if statement.better.is_none() && !held.contains_key(&statement.id) {
            problems.push(format!(
                "{id} is held by no test: begin a test's name with {prefix}_, or write under `better:` in {STATEMENTS} what \
                 Skydock does instead, and why ({upstream})",
                id = statement.id,
                prefix = statement.id.prefix(),
                upstream = statement.upstream
            ));
        }
    }
    for (id, tests) in held.iter().filter(|(id, _)| !all.iter().any(|statement| statement.id == **id)) {
        for test in tests {
            problems
                .push(format!("{}: test {} names {id}, which is no statement in {STATEMENTS}", test.file, test.name));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str) -> Test {
        Test { name: name.to_owned(), file: "host/a.rs".to_owned() }
    }

    fn found(statements: &str, tests: &[&str]) -> Vec<String> {
        let text = format!("- title: Nodes\n  statements:\n{statements}");
        problems(&statements::parse(&text).unwrap(), &by_statement(tests.iter().map(|name| test(name)).collect()))
    }

    #[test]
    fn a_statement_is_held_by_a_test_or_by_a_decision_or_by_both() {
        let statements = "  - {id: N-01, upstream: a}\n  - {id: N-02, upstream: b, better: c}\n";
        assert_eq!(found(statements, &["n01_n02_both"]), [""; 0]);
        assert_eq!(found(statements, &["n01_one"]), [""; 0]);
    }

    #[test]
    fn a_statement_without_test_and_decision_is_named_and_what_to_do_too() {
        let problems = found("  - {id: N-01, upstream: Nodes are nodes.}\n", &["n_a_test", "about_n01_only"]);
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        for part in ["N-01 is held by no test", "n01_", "better:", "Nodes are nodes."] {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn a_test_that_names_a_statement_that_does_not_exist_is_named() {
        let problems = found("  - {id: N-01, upstream: a}\n", &["n01_fine", "n01_n10_slip"]);
        assert_eq!(
            problems,
            ["host/a.rs: test n01_n10_slip names N-10, which is no statement in docs/parity/statements.yaml"]
        );
    }

    #[test]
    fn the_statements_of_this_repository_can_be_read_and_are_in_order() {
        let text = fs::read_to_string(crate::root().join(STATEMENTS)).unwrap();
        assert_eq!(statements::problems(&statements::parse(&text).unwrap()), [""; 0]);
    }

    #[test]
    fn a_check_changes_nothing_and_fails_on_a_table_of_yesterday() {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS.iter().chain(&["docs/parity"]) {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write(STATEMENTS, "- title: Nodes\n  statements:\n  - {id: N-01, upstream: a}\n");
        write("host/a.rs", "#[test]\nfn n01_it_is_so() {}\n");
        let refusal = run(root.path(), true).unwrap_err().to_string();
        assert!(refusal.contains("docs/parity.md is not up to date"), "{refusal}");
        assert!(!root.path().join(TABLE).exists());
        run(root.path(), false).unwrap();
        run(root.path(), true).unwrap();
        write("host/a.rs", "#[test]\nfn it_is_so() {}\n");
        let refusal = run(root.path(), true).unwrap_err().to_string();
        assert!(refusal.contains("N-01 is held by no test") && refusal.contains("is not up to date"), "{refusal}");
    }
}
