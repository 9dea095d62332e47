//! The obligations that the contract puts on plugins.

mod table;

pub use table::OBLIGATIONS;

use crate::Check;

/// Something that `wit/` demands of a plugin.
#[derive(Clone, Copy, Debug)]
pub struct Obligation {
    /// Unique name, which marks the demand in the contract: in brackets, behind its sentence or
    /// clause.
    pub id: &'static str,
    /// What holds it.
    pub held: Held,
}

/// What holds an obligation.
#[derive(Clone, Copy, Debug)]
pub enum Held {
    /// A check of the kit.
    Checked(Check),
    /// Skydock, before a controller could see a violation: it does this.
    Host(&'static str),
    /// Nothing outside the plugin can, for this reason.
    Untestable(&'static str),
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Marks the end of a sentence or clause.
    const STOPS: [char; 3] = ['.', ':', ';'];

    impl Held {
        /// Returns the cell of the table in the documentation.
        fn cell(self) -> String {
            match self {
                Self::Checked(check) => format!("check `{}`", check.name()),
                Self::Host(how) => format!("Skydock: {how}"),
                Self::Untestable(why) => format!("not testable: {why}"),
            }
        }
    }

    /// A sentence or clause of the contract's documentation.
    struct Clause {
        /// For example `v0.1.0/types.wit`.
        file: String,
        words: Vec<String>,
    }

    impl Clause {
        /// Returns the ID of the obligation that is marked behind it.
        fn mark(&self) -> Option<&str> {
            mark(self.words.last()?)
        }

        /// True if it has one of the words with which the contract demands something.
        fn is_demand(&self) -> bool {
            let demands = [
                "must",
                "never",
                "Never",
                "same order",
                "No function",
                "success",
                "Succeeds",
                "cannot",
            ];
            let text = self.words.join(" ");
            let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).collect();
            let words = format!(" {} ", words.join(" "));
            demands
                .iter()
                .any(|word| words.contains(&format!(" {word} ")))
        }
    }

    /// Returns the ID if this word is a mark.
    fn mark(word: &str) -> Option<&str> {
        word.trim_end_matches(STOPS)
            .strip_prefix('[')?
            .strip_suffix(']')
    }

    /// Returns all clauses of the contract's documentation. A mark ends a clause, too.
    fn clauses() -> Vec<Clause> {
        let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.1");
        let mut files: Vec<_> = fs::read_dir(contract)
            .unwrap()
            // Most are links to the version in which they were written.
            .map(|entry| entry.unwrap().path().canonicalize().unwrap())
            .filter(|path| path.extension().is_some_and(|ending| ending == "wit"))
            .collect();
        files.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
        let mut clauses = Vec::new();
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("///"));
            let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
            let ends = |word: &&str| word.ends_with(STOPS) || mark(word).is_some();
            clauses.extend(words.split_inclusive(ends).map(|words| Clause {
                file: format!("{}/{}", name(path.parent().unwrap()), name(&path)),
                words: words.iter().map(ToString::to_string).collect(),
            }));
        }
        clauses
    }

    fn name(path: &Path) -> &str {
        path.file_name().unwrap().to_str().unwrap()
    }

    /// Returns the page of the documentation.
    fn page() -> String {
        let clauses = clauses();
        let rows = OBLIGATIONS.iter().map(|Obligation { id, held }| {
            let marked = clauses.iter().find(|clause| clause.mark() == Some(id));
            let file = &marked.unwrap_or_else(|| panic!("[{id}] is missing")).file;
            format!("| [`{id}`](../wit/{file}) | {} |\n", held.cell())
        });
        format!(
            "# Obligations of plugins\n\n\
             All that the contract demands of a plugin, and what holds it: a check of [`skydock plugin test`](conformance.md), or\n\
             Skydock. The contract has the name of an obligation in brackets behind the words that demand it. This page is written by\n\
             `SNAPSHOTS=overwrite cargo test -p skydock-conformance --lib obligation`.\n\n\
             | Obligation | Held by |\n| --- | --- |\n{}",
            rows.collect::<String>()
        )
    }

    #[test]
    fn each_obligation_is_marked_once_in_the_contract() {
        let ids: BTreeSet<_> = OBLIGATIONS.iter().map(|it| it.id).collect();
        assert_eq!(ids.len(), OBLIGATIONS.len(), "an ID is used twice");
        let clauses = clauses();
        let mut marked = BTreeSet::new();
        for clause in &clauses {
            let text = format!("{}: {}", clause.file, clause.words.join(" "));
            let Some(id) = clause.mark() else {
                assert!(!text.contains(['[', ']']), "not a mark: {text}");
                continue;
            };
            assert!(ids.contains(id), "not in the table: {text}");
            assert!(marked.insert(id), "marked twice: {text}");
            assert!(clause.words.len() > 1, "does not follow a clause: {text}");
            // A single word could be a link in the documentation of an SDK.
            let is_id = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(id.contains('-') && id.chars().all(is_id), "{text}");
        }
        assert_eq!(marked, ids, "an obligation is not marked");
    }

    #[test]
    fn every_demand_of_the_contract_is_an_obligation() {
        let clauses = clauses();
        let demands = clauses.iter().filter(|clause| clause.is_demand());
        for clause in demands.clone() {
            assert!(
                clause.mark().is_some(),
                "{}, no mark: {}",
                clause.file,
                clause.words.join(" ")
            );
        }
        assert!(demands.count() > 10, "the contract is not read");
    }

    #[test]
    fn every_check_holds_an_obligation() {
        for &check in Check::ALL {
            let holds = |it: &Obligation| matches!(it.held, Held::Checked(held) if held == check);
            assert!(OBLIGATIONS.iter().any(holds), "{check:?}");
        }
        let names: BTreeSet<_> = Check::ALL.iter().map(|check| check.name()).collect();
        assert_eq!(names.len(), Check::ALL.len());
    }

    #[test]
    fn the_page_shows_the_table() {
        snapbox::assert_data_eq!(page(), snapbox::file!["../../../docs/obligations.md"].raw());
    }
}
