//! Statements about upstream's behavior, from `docs/parity/statements.yaml`.

use serde::Deserialize;

use super::id::Id;

/// Statements about one topic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// The headline.
    pub(crate) title: String,
    pub(crate) statements: Vec<Statement>,
}

/// A statement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Statement {
    pub(crate) id: Id,
    /// What upstream does.
    pub(crate) upstream: String,
    /// True if this is a bug or similar. It then requires a decision.
    #[serde(default)]
    pub(crate) quirk: bool,
    /// What Skydock does instead, and why.
    pub(crate) better: Option<String>,
}

/// Parses the file.
///
/// # Errors
/// If it is not valid YAML, or contains an unknown field or an invalid ID.
pub(crate) fn parse(text: &str) -> Result<Vec<Section>, Box<serde_saphyr::Error>> {
    serde_saphyr::from_str(text).map_err(Box::new)
}

/// Returns the problems of the statements themselves, one line each.
pub(crate) fn problems(sections: &[Section]) -> Vec<String> {
    let mut problems = Vec::new();
    for section in sections {
        let mut expected = 1;
        for Statement {
            id,
            upstream,
            quirk,
            better,
        } in &section.statements
        {
            let first = section
                .statements
                .first()
                .map(|first| first.id.part.as_str());
            // Statements must not be missing or duplicated: numbers are consecutive, except for
            // those with a suffix.
            if first != Some(id.part.as_str()) || (id.suffix.is_none() && id.number != expected) {
                let part = first.unwrap_or_default();
                problems.push(format!(
                    "{id} stands where {part}-{expected:02} has to be (section {:?})",
                    section.title
                ));
                break;
            }
            expected = id.number + 1;
            if upstream.trim().is_empty()
                || better
                    .as_ref()
                    .is_some_and(|better| better.trim().is_empty())
            {
                problems.push(format!("{id} has a field with nothing in it"));
            }
            if *quirk && better.is_none() {
                problems.push(format!(
                    "{id} is a quirk of upstream's: write under `better:` what Skydock does instead"
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(statements: &[&str]) -> Vec<String> {
        let list: String = statements
            .iter()
            .map(|statement| format!("  - {statement}\n"))
            .collect();
        problems(&parse(&format!("- title: Nodes\n  statements:\n{list}")).unwrap())
    }

    #[test]
    fn rejects_missing_and_duplicate_statements() {
        let (one, two, three) = (
            "{id: N-01, upstream: a}",
            "{id: N-02, upstream: b}",
            "{id: N-03, upstream: c}",
        );
        assert_eq!(wrong(&[one, two, three]), [""; 0]);
        assert_eq!(wrong(&[one, "{id: N-01a, upstream: b}", two]), [""; 0]);
        assert_eq!(
            wrong(&[one, three]),
            ["N-03 stands where N-02 has to be (section \"Nodes\")"]
        );
        assert_eq!(
            wrong(&[one, one]),
            ["N-01 stands where N-02 has to be (section \"Nodes\")"]
        );
        assert_eq!(
            wrong(&[one, "{id: L-02, upstream: b}"]),
            ["L-02 stands where N-02 has to be (section \"Nodes\")"]
        );
    }

    #[test]
    fn a_quirk_needs_a_decision() {
        let problems = wrong(&["{id: N-01, upstream: a, quirk: true}"]);
        assert_eq!(
            problems,
            ["N-01 is a quirk of upstream's: write under `better:` what Skydock does instead"]
        );
        assert_eq!(
            wrong(&["{id: N-01, upstream: a, quirk: true, better: b}"]),
            [""; 0]
        );
    }

    #[test]
    fn rejects_empty_fields() {
        assert_eq!(
            wrong(&["{id: N-01, upstream: \"\"}"]),
            ["N-01 has a field with nothing in it"]
        );
        assert_eq!(
            wrong(&["{id: N-01, upstream: a, better: \" \"}"]),
            ["N-01 has a field with nothing in it"]
        );
    }

    #[test]
    fn an_invalid_statement_is_rejected_with_its_line() {
        for (text, message) in [
            (
                "- title: a\n  statements:\n  - {id: X-01, upstream: a}\n",
                "\"X-01\" is not an id",
            ),
            (
                "- title: a\n  statements:\n  - {id: N-01, upstream: a, beter: b}\n",
                "beter",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.contains(message) && error.contains("line 3"),
                "{error}"
            );
        }
    }
}
