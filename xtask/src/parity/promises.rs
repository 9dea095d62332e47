//! The promises of the documentation, from `docs/promises/promises.yaml`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Held;
use super::document::Document;
use super::id::Id;
use super::table::{cell, link};

/// File with the promises, relative to the root of the workspace.
pub(crate) const PROMISES: &str = "docs/promises/promises.yaml";
/// The generated page.
pub(crate) const PAGE: &str = "docs/promises.md";

/// The beginning of the page.
const HEAD: &str = "<!-- Made by `cargo xtask parity` from docs/promises/promises.yaml and the tests. Do not edit. -->

# What Skydock promises, sentence by sentence

Each sentence of these documents that promises something, word for word, with the tests that fail if it does not hold. A test names what it holds
in a comment above it.
";

/// The promises of a document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promises {
    /// The document, relative to the root of the workspace.
    file: String,
    /// The headline of the section to check; the whole document if it is missing.
    section: Option<String>,
    promises: Vec<Promise>,
    /// Other quotations of the section, which explain something and do not promise anything.
    #[serde(default)]
    explains: Vec<String>,
}

/// A promise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promise {
    pub(crate) id: Id,
    /// The exact text of a sentence, a part of a sentence, or a table row.
    says: String,
}

/// Reads the promises.
///
/// # Errors
/// If the file is missing or not valid YAML, or contains an unknown field or an invalid ID.
pub(crate) fn read(root: &Path) -> Result<Vec<Promises>> {
    let text = fs::read_to_string(root.join(PROMISES))
        .with_context(|| format!("cannot read {PROMISES}"))?;
    serde_saphyr::from_str(&text).with_context(|| format!("cannot read {PROMISES}"))
}

/// Returns the promises of all documents.
pub(crate) fn all(documents: &[Promises]) -> impl Iterator<Item = &Promise> {
    documents.iter().flat_map(|document| &document.promises)
}

/// Returns all problems, one line each.
///
/// # Errors
/// If a document cannot be read.
pub(crate) fn problems(root: &Path, documents: &[Promises], held: &Held) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for document in documents {
        let file = &document.file;
        let text =
            fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
        problems.extend(document.problems(&text));
    }
    for Promise { id, says } in all(documents).filter(|promise| !held.contains_key(&promise.id)) {
        problems.push(format!(
            "{id} is held by no test: write `// Holds: {id}` above one that fails without it, or take the promise back ({})",
            cell(says)
        ));
    }
    Ok(problems)
}

impl Promises {
    /// Returns the differences between a document and its quotations.
    fn problems(&self, text: &str) -> Vec<String> {
        let file = &self.file;
        let mut problems = Vec::new();
        let mut document = Document::new(text, self.section.as_deref());
        // Numbers of removed promises are not reused, so there may be gaps.
        for pair in self.promises.windows(2) {
            if let [before, after] = pair
                && (before.id.part != after.id.part || before.id >= after.id)
            {
                problems.push(format!(
                    "{} stands after {} in {PROMISES}",
                    after.id, before.id
                ));
            }
        }
        for Promise { id, says } in &self.promises {
            if !document.quote(says) {
                problems.push(format!(
                    "{id}: {file} does not say, word for word: {}",
                    cell(says)
                ));
            }
        }
        for sentence in &self.explains {
            if !document.quote(sentence) {
                problems.push(format!(
                    "{PROMISES}: {file} does not say, word for word: {}",
                    cell(sentence)
                ));
            }
        }
        for (line, rest) in document.rest() {
            problems.push(format!(
                "{file}:{line}: list this in {PROMISES}, as a promise or under `explains`: {}",
                shortened(&rest)
            ));
        }
        problems
    }
}

/// Returns the beginning of a text, which is enough to find it.
fn shortened(text: &str) -> String {
    const LETTERS: usize = 120;
    let cut: String = text.chars().take(LETTERS).collect();
    if cut.len() < text.len() {
        format!("{cut}…")
    } else {
        cut
    }
}

/// Returns the page in Markdown.
pub(crate) fn page(documents: &[Promises], held: &Held) -> String {
    let mut page = HEAD.to_owned();
    for document in documents {
        let Promises {
            file,
            section,
            promises,
            ..
        } = document;
        let section = section
            .as_ref()
            .map_or_else(String::new, |section| format!(": {section}"));
        page.push_str(&format!(
            "\n## [{file}](../{file}){section}\n\n| Id | Promise | Tests |\n| --- | --- | --- |\n"
        ));
        for Promise { id, says } in promises {
            let tests: Vec<_> = held.get(id).into_iter().flatten().map(link).collect();
            let tests = if tests.is_empty() {
                "**not held**".to_owned()
            } else {
                tests.join("<br>")
            };
            // Table rows are shown without their outer bars.
            let says = cell(says.trim().trim_matches('|').trim());
            page.push_str(&format!("| {id} | {says} | {tests} |\n"));
        }
    }
    page
}

/// Returns the summary for the terminal: one line.
pub(crate) fn sum(documents: &[Promises], held: &Held) -> String {
    let count = all(documents).count();
    match all(documents)
        .filter(|promise| !held.contains_key(&promise.id))
        .count()
    {
        0 => format!("{count} promises: all held"),
        open => format!("{count} promises: {open} held by no test"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{held, scan::Test};
    use super::*;

    const TEXT: &str =
        "# Security\n\n## Defends\n\nIt is so:\n\n- It has no\n  files.\n- It | ends.\n";

    fn promises(list: &str) -> Vec<Promises> {
        serde_saphyr::from_str(&format!("- file: SECURITY.md\n  section: Defends\n{list}")).unwrap()
    }

    fn wrong(list: &str) -> Vec<String> {
        promises(list)
            .iter()
            .flat_map(|document| document.problems(TEXT))
            .collect()
    }

    const BOTH: &str = "  promises:\n  - {id: SEC-01, says: It has no files.}\n  - {id: SEC-04, says: It | ends.}\n";

    #[test]
    fn every_sentence_must_be_a_promise_or_an_explanation() {
        assert_eq!(
            wrong(&format!("{BOTH}  explains: [\"It is so:\"]\n")),
            [""; 0]
        );
        assert_eq!(
            wrong(BOTH),
            [
                "SECURITY.md:5: list this in docs/promises/promises.yaml, as a promise or under `explains`: It is so: -"
            ]
        );
    }

    #[test]
    fn a_quote_missing_from_the_document_is_reported() {
        let list = "  promises:\n  - {id: SEC-01, says: It has many files.}\n  explains: [\"It is so: - It has no files. - It | ends.\", None.]\n";
        assert_eq!(
            wrong(list),
            [
                "SEC-01: SECURITY.md does not say, word for word: It has many files.",
                "docs/promises/promises.yaml: SECURITY.md does not say, word for word: None."
            ]
        );
    }

    #[test]
    fn promise_ids_must_increase() {
        let list = "  promises:\n  - {id: SEC-02, says: It has no files.}\n  - {id: SEC-02, says: It | ends.}\n  explains: [\"It is so:\"]\n";
        assert_eq!(
            wrong(list),
            ["SEC-02 stands after SEC-02 in docs/promises/promises.yaml"]
        );
    }

    #[test]
    fn a_promise_without_a_test_is_reported() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("SECURITY.md"), TEXT).unwrap();
        let documents = promises(&format!("{BOTH}  explains: [\"It is so:\"]\n"));
        let test = |id: &str| Test {
            name: "a".to_owned(),
            file: "host/a.rs".to_owned(),
            holds: vec![(Id::try_from(id.to_owned()).unwrap(), 1)],
        };
        let one = held(&[test("SEC-01")]);
        let found = problems(root.path(), &documents, &one).unwrap();
        let [problem] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(
            problem.starts_with("SEC-04 is held by no test: write `// Holds: SEC-04`"),
            "{problem}"
        );
        assert_eq!(sum(&documents, &one), "2 promises: 1 held by no test");
        let both = held(&[test("SEC-01"), test("SEC-04")]);
        assert_eq!(problems(root.path(), &documents, &both).unwrap(), [""; 0]);
        assert_eq!(sum(&documents, &both), "2 promises: all held");
        for row in [
            "| SEC-01 | It has no files. | [`a`](../host/a.rs) |",
            "| SEC-04 | It \\| ends. | **not held** |",
        ] {
            assert!(
                page(&documents, &one).lines().any(|line| line == row),
                "{row}"
            );
        }
    }
}
