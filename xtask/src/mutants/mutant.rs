//! Mutants: small changes of the code.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// A mutant, as created by cargo-mutants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    /// The current name in cargo-mutants, with file, line and column.
    pub(super) name: String,
    /// Function and change only (`replace < with <= in is_due`), with a number if the change occurs
    /// several times (`… #2`). It stays the same when lines are added above it.
    pub(super) change: String,
}

/// The fields of an element of cargo-mutants' list that are used.
#[derive(Deserialize)]
struct Listed {
    name: String,
    file: String,
}

/// Parses the output of `cargo mutants --list --json`: the mutants of each file.
///
/// # Errors
/// If the output has another format.
pub(super) fn parse(json: &[u8]) -> Result<BTreeMap<String, Vec<Mutant>>> {
    let listed: Vec<Listed> =
        serde_json::from_slice(json).context("cannot read the list of cargo-mutants")?;
    let mut seen = BTreeMap::<_, usize>::new();
    let mut mutants = BTreeMap::<_, Vec<_>>::new();
    for Listed { name, file } in listed {
        // file:line:column: change
        let (_, change) = name
            .split_once(": ")
            .with_context(|| format!("cargo-mutants names a mutant {name:?}"))?;
        // A replaced expression may span several lines.
        let change = change.split_whitespace().collect::<Vec<_>>().join(" ");
        let count = seen
            .entry((file.clone(), change.clone()))
            .and_modify(|count| *count += 1)
            .or_insert(1);
        let change = if *count == 1 {
            change
        } else {
            format!("{change} #{count}")
        };
        mutants
            .entry(file)
            .or_default()
            .push(Mutant { name, change });
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_identified_by_change_instead_of_line() {
        let list = |lines: [u32; 3]| {
            let [a, b, c] = lines;
            let json = serde_json::json!([
                {"name": format!("host/a.rs:{a}:5: replace < with <= in is_due"), "file": "host/a.rs"},
                {"name": format!("host/a.rs:{b}:9: replace < with <= in is_due"), "file": "host/a.rs"},
                {"name": format!("host/a.rs:{c}:1: replace plan -> Option<String> with\n    None"), "file": "host/a.rs"},
            ]);
            parse(&serde_json::to_vec(&json).unwrap())
                .unwrap()
                .remove("host/a.rs")
                .unwrap()
        };
        let changes = |mutants: Vec<Mutant>| {
            mutants
                .into_iter()
                .map(|mutant| mutant.change)
                .collect::<Vec<_>>()
        };
        let expected = [
            "replace < with <= in is_due",
            "replace < with <= in is_due #2",
            "replace plan -> Option<String> with None",
        ];
        assert_eq!(changes(list([1, 2, 3])), expected);
        assert_eq!(changes(list([11, 40, 90])), expected);
    }

    #[test]
    fn an_unexpected_mutant_list_is_an_error() {
        assert!(parse(b"{}").is_err());
        assert!(parse(b"[{\"name\": \"no place\", \"file\": \"a.rs\"}]").is_err());
    }
}
