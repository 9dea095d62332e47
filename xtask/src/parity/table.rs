//! The table of statements: a summary for the terminal, and the complete page.

use owo_colors::Style;

use super::Held;
use super::scan::Test;
use super::statements::{Section, Statement};
use crate::console;

/// The beginning of the page.
const HEAD: &str = "<!-- Made by `cargo xtask parity` from docs/parity/statements.yaml and the tests. Do not edit. -->

# Upstream's behavior, statement by statement

What Kubernetes' own cloud controllers do (`k8s.io/cloud-provider` 0.36 and the node-ipam controller of `k8s.io/kubernetes`), in our words,
with the tests that hold Skydock to it. A test names what it holds in a comment above it, or at the beginning of its name. **Better** says where Skydock
does something else on purpose, and why; *quirk* marks what is a bug upstream, or as bad as one: none is copied.

";

/// Returns one line for each statement, and a summary.
pub(crate) fn short(sections: &[Section], held: &Held) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut by_test, mut better, mut neither) = (0, 0, 0);
    let all: Vec<_> = sections
        .iter()
        .flat_map(|section| &section.statements)
        .collect();
    for statement in &all {
        let count = held.get(&statement.id).map_or(0, Vec::len);
        let mut how = Vec::new();
        if count > 0 {
            by_test += 1;
            how.push(format!("{count} test{}", if count == 1 { "" } else { "s" }));
        }
        if statement.better.is_some() {
            better += 1;
            how.push("better".to_owned());
        }
        let how = if how.is_empty() {
            neither += 1;
            console::paint(&format!("{:17}", "NOT HELD"), Style::new().red().bold())
        } else {
            format!("{:17}", how.join(", "))
        };
        rows.push(format!("{}  {how} {}", statement.id, statement.upstream));
    }
    rows.push(format!(
        "{} statements: {by_test} held by tests, {better} done better on purpose, {neither} neither",
        all.len()
    ));
    rows
}

/// Returns the page in Markdown.
pub(crate) fn page(sections: &[Section], held: &Held) -> String {
    let mut page = HEAD.to_owned();
    for (at, section) in sections.iter().enumerate() {
        if at > 0 {
            page.push('\n');
        }
        page.push_str(&format!(
            "## {}\n\n| Id | Upstream | Skydock |\n| --- | --- | --- |\n",
            section.title
        ));
        for statement in &section.statements {
            let quirk = if statement.quirk { "*Quirk.* " } else { "" };
            let upstream = cell(&statement.upstream);
            page.push_str(&format!(
                "| {} | {quirk}{upstream} | {} |\n",
                statement.id,
                skydock(statement, held)
            ));
        }
    }
    page
}

/// Returns the cell about Skydock: the decision, and the tests with links to their files.
fn skydock(statement: &Statement, held: &Held) -> String {
    let mut parts = Vec::new();
    if let Some(better) = &statement.better {
        parts.push(format!("**Better:** {}", cell(better)));
    }
    for test in held.get(&statement.id).into_iter().flatten() {
        parts.push(link(test));
    }
    if parts.is_empty() {
        "**not held**".to_owned()
    } else {
        parts.join("<br>")
    }
}

/// Returns a test with a link to its file.
pub(super) fn link(test: &Test) -> String {
    format!("[`{}`](../{})", test.name, test.file)
}

/// Formats text for a table cell: on one line, with bars escaped.
pub(super) fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::{held, id, statements};
    use super::*;

    fn example() -> (Vec<Section>, Held) {
        let text = "- title: Nodes\n  statements:\n  - {id: N-01, upstream: \"a | b\"}\n  - {id: N-02, upstream: b, quirk: true, better: \"c\\nd\"}\n  - {id: N-03, upstream: e}\n";
        let test = |name: &str, ids: &str| {
            let holds = id::listed(ids)
                .into_iter()
                .map(|id| (id.unwrap(), 1))
                .collect();
            Test {
                name: name.to_owned(),
                file: "host/a.rs".to_owned(),
                holds,
            }
        };
        (
            statements::parse(text).unwrap(),
            held(&[test("x", "N-01"), test("y", "N-01, N-02")]),
        )
    }

    #[test]
    fn the_page_has_a_row_for_every_statement() {
        let (sections, held) = example();
        let page = page(&sections, &held);
        for row in [
            "| N-01 | a \\| b | [`x`](../host/a.rs)<br>[`y`](../host/a.rs) |",
            "| N-02 | *Quirk.* b | **Better:** c d<br>[`y`](../host/a.rs) |",
            "| N-03 | e | **not held** |",
        ] {
            assert!(
                page.lines().any(|line| line == row),
                "{row} is missing in\n{page}"
            );
        }
    }

    #[test]
    fn the_short_table_has_counts() {
        let (sections, held) = example();
        let rows = short(&sections, &held);
        assert_eq!(rows[0], "N-01  2 tests           a | b");
        assert_eq!(rows[1], "N-02  1 test, better    b");
        assert!(rows[2].contains("NOT HELD"));
        assert_eq!(
            rows[3],
            "3 statements: 2 held by tests, 1 done better on purpose, 1 neither"
        );
    }
}
