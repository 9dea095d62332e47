//! The obligations that the contract puts on plugins.

mod table;

pub use table::OBLIGATIONS;

use crate::Check;

/// Something that `wit/` demands of a plugin.
#[derive(Clone, Copy, Debug)]
pub struct Obligation {
    /// Name, unique.
    pub id: &'static str,
    /// File in `wit/v0.1.0`, without its extension.
    pub file: &'static str,
    /// The words of the contract.
    pub quote: &'static str,
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

    /// Returns the table of the documentation.
    fn table() -> String {
        let rows = OBLIGATIONS.iter().map(|it| {
            format!(
                "| `{}` | {} | {} | {} |\n",
                it.id,
                it.file,
                it.quote,
                it.held.cell()
            )
        });
        format!(
            "| Obligation | In | Words of the contract | Held by |\n| --- | --- | --- | --- |\n{}",
            rows.collect::<String>()
        )
    }

    /// Returns the documentation of a file of the contract as one line.
    fn documentation(file: &str) -> String {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../wit/v0.1.0/{file}.wit"));
        let text = fs::read_to_string(path).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("///"));
        lines
            .flat_map(str::split_whitespace)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn obligations_are_quoted_from_the_contract() {
        let ids: BTreeSet<_> = OBLIGATIONS.iter().map(|it| it.id).collect();
        assert_eq!(ids.len(), OBLIGATIONS.len(), "an ID is used twice");
        for Obligation {
            id, file, quote, ..
        } in OBLIGATIONS
        {
            assert!(
                documentation(file).contains(quote),
                "{id}: {file}.wit does not say: {quote}"
            );
        }
    }

    #[test]
    fn every_demand_of_the_contract_is_an_obligation() {
        /// Sentences with one of the words that are about Skydock or Kubernetes, or headings.
        const OTHERS: [&str; 8] = [
            "cannot be reached or answers with a server error",
            "What every plugin must export:",
            "The host never asks about",
            "a plugin cannot open it",
            "derives retry, delay, event and metric from the case alone",
            "They must not contain secrets:",
            "it must pass through the load balancer",
            "The object asks for something that this cloud cannot do.",
        ];
        let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1.0");
        let files: Vec<_> = fs::read_dir(contract)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        let files = files
            .iter()
            .filter(|path| path.extension().is_some_and(|ending| ending == "wit"));
        for file in files.map(|path| path.file_stem().unwrap().to_str().unwrap()) {
            let text = documentation(file);
            for sentence in text.split_inclusive(['.', ':', ';']) {
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
                let words: Vec<_> = sentence.split(|c: char| !c.is_alphanumeric()).collect();
                let words = format!(" {} ", words.join(" "));
                let is_demand = demands
                    .iter()
                    .any(|word| words.contains(&format!(" {word} ")));
                let is_listed = OBLIGATIONS.iter().any(|it| {
                    it.file == file
                        && (it.quote.contains(sentence.trim()) || sentence.contains(it.quote))
                });
                let is_other = OTHERS.iter().any(|other| sentence.contains(other));
                assert!(
                    !is_demand || is_listed || is_other,
                    "{file}.wit, not in the table: {}",
                    sentence.trim()
                );
            }
        }
    }

    #[test]
    fn every_check_holds_an_obligation() {
        for check in Check::ALL {
            let holds = |it: &Obligation| matches!(it.held, Held::Checked(held) if held == check);
            assert!(OBLIGATIONS.iter().any(holds), "{check:?}");
        }
        let names: BTreeSet<_> = Check::ALL.iter().map(|check| check.name()).collect();
        assert_eq!(names.len(), Check::ALL.len());
    }

    #[test]
    fn the_page_shows_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
        let page = fs::read_to_string(&path).unwrap();
        let (head, _) = page.split_once("| Obligation |").unwrap();
        let expected = format!("{head}{}", table());
        if std::env::var_os("SKYDOCK_WRITE").is_some() {
            fs::write(&path, &expected).unwrap();
        } else {
            assert_eq!(page, expected, "set SKYDOCK_WRITE to write the page");
        }
    }
}
