//! The page with the table of mutants.

use std::collections::BTreeMap;

use super::mutant::Mutant;
use super::results::{Outcome, Results};
use super::scope::{Module, Scope};
use super::{Mutated, SCOPE};

/// The beginning of the page.
const HEAD: &str = "<!-- Made by `cargo xtask mutants` from tests/mutants.yaml and the results of its last runs. Do not edit. -->

# Mutants

What happens if the rules are changed in small ways, one at a time (`<` becomes `<=`, a condition goes, a function answers nothing): the tests of
the crate itself have to fail. *Caught*: a test failed. *Timed out*: the tests did not end, which is noticed too. *Listed*: nobody could
see the change, for the reason below. A change that does not compile is not counted.

| Module | Mutants | Caught | Timed out | Listed |
| --- | ---: | ---: | ---: | ---: |
";

/// The numbers of one module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Row {
    caught: usize,
    timeout: usize,
    listed: usize,
}

impl Row {
    /// Returns `None` if a mutant was not run, or survives and is not listed.
    fn of(module: &Module, mutants: &[Mutant], scope: &Scope, results: &Results) -> Option<Self> {
        let mut row = Self::default();
        for mutant in mutants {
            match results.of(module, mutant)? {
                Outcome::Caught => row.caught += 1,
                Outcome::Timeout => row.timeout += 1,
                Outcome::Missed if scope.is_equivalent(module, mutant) => row.listed += 1,
                Outcome::Missed => return None,
                Outcome::Unviable => {}
            }
        }
        Some(row)
    }

    /// Parses a row of the page.
    fn parse(cells: &[&str]) -> Option<Self> {
        let [_, caught, timeout, listed] = cells else {
            return None;
        };
        Some(Self {
            caught: caught.parse().ok()?,
            timeout: timeout.parse().ok()?,
            listed: listed.parse().ok()?,
        })
    }

    fn line(self, name: &str) -> String {
        let Self {
            caught,
            timeout,
            listed,
        } = self;
        format!(
            "| {name} | {} | {caught} | {timeout} | {listed} |\n",
            caught + timeout + listed
        )
    }
}

/// Returns the page. Modules without results, because they were run elsewhere or not completely,
/// keep their previous row.
pub(super) fn page(before: &str, all: &[Mutated], scope: &Scope, results: &Results) -> String {
    let rows = all
        .iter()
        .map(|(module, mutants)| (module, Row::of(module, mutants, scope, results)));
    written(before, rows, scope)
}

fn written<'a>(
    before: &str,
    rows: impl Iterator<Item = (&'a Module, Option<Row>)>,
    scope: &Scope,
) -> String {
    let known = known(before);
    let mut page = HEAD.to_owned();
    let mut sum = Row::default();
    for (module, row) in rows {
        let name = format!("`{module}`");
        match row.or_else(|| known.get(&name).copied()) {
            Some(row) => {
                sum = Row {
                    caught: sum.caught + row.caught,
                    timeout: sum.timeout + row.timeout,
                    listed: sum.listed + row.listed,
                };
                page.push_str(&row.line(&name));
            }
            None => page.push_str(&format!("| {name} | not run yet | | | |\n")),
        }
    }
    page.push_str(&sum.line("all"));
    if !scope.equivalent.is_empty() {
        page.push_str(&format!(
            "\n## Listed\n\nIn `{SCOPE}`:\n\n| Module | Change | Why nobody could see it |\n| --- | --- | --- |\n"
        ));
    }
    for listed in &scope.equivalent {
        let cell = |text: &str| {
            text.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace('|', "\\|")
        };
        let (change, why) = (cell(&listed.change), cell(&listed.why));
        page.push_str(&format!("| `{}` | `{change}` | {why} |\n", listed.module()));
    }
    page
}

/// Returns the rows of a page.
fn known(page: &str) -> BTreeMap<String, Row> {
    page.lines()
        .filter_map(|line| {
            let cells: Vec<_> = line
                .strip_prefix("| ")?
                .strip_suffix(" |")?
                .split(" | ")
                .collect();
            let (name, figures) = cells.split_first()?;
            Some(((*name).to_owned(), Row::parse(figures)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let crates = "crates:\n- {package: p, folder: host/p, modules: [one, two, three]}\n";
        let listed = "equivalent:\n- {package: p, module: two, change: \"replace || with && in f\", why: It is the same.}\n";
        Scope::parse(&format!("{crates}{listed}")).unwrap()
    }

    fn made(before: &str, rows: [Option<Row>; 3]) -> String {
        let scope = scope();
        let modules: Vec<_> = scope.modules().collect();
        written(before, modules.iter().zip(rows), &scope)
    }

    fn has(page: &str, row: &str) {
        assert!(
            page.lines().any(|line| line == row),
            "{row} is missing in\n{page}"
        );
    }

    #[test]
    fn the_page_has_a_row_per_module_and_a_total() {
        let (one, two) = (
            Row {
                caught: 7,
                timeout: 1,
                listed: 0,
            },
            Row {
                caught: 3,
                timeout: 0,
                listed: 1,
            },
        );
        let page = made("", [Some(one), Some(two), None]);
        has(&page, "| `p one` | 8 | 7 | 1 | 0 |");
        has(&page, "| `p two` | 4 | 3 | 0 | 1 |");
        has(&page, "| `p three` | not run yet | | | |");
        has(&page, "| all | 12 | 10 | 1 | 1 |");
        has(
            &page,
            "| `p two` | `replace \\|\\| with && in f` | It is the same. |",
        );
    }

    #[test]
    fn rows_of_modules_not_run_are_kept() {
        let (one, two) = (
            Row {
                caught: 7,
                timeout: 1,
                listed: 0,
            },
            Row {
                caught: 3,
                timeout: 0,
                listed: 1,
            },
        );
        let before = made("", [Some(one), Some(two), None]);
        let page = made(&before, [None, Some(Row { caught: 4, ..two }), Some(one)]);
        has(&page, "| `p one` | 8 | 7 | 1 | 0 |");
        has(&page, "| `p two` | 5 | 4 | 0 | 1 |");
        has(&page, "| `p three` | 8 | 7 | 1 | 0 |");
        has(&page, "| all | 21 | 18 | 2 | 1 |");
    }
}
