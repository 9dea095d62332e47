//! IDs of statements and promises: `N-10` and `SEC-03` in documents and in lines above tests.

use std::fmt;

use serde::Deserialize;

/// Prefixes of statements about upstream: common, node, lifecycle, service, route, IPAM.
const STATEMENTS: [&str; 6] = ["C", "N", "L", "S", "R", "I"];
/// Prefixes of promises: security, and operation.
const PROMISES: [&str; 2] = ["SEC", "OPS"];

/// ID of a statement or a promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Id {
    /// The prefix, for example `N` or `SEC`.
    pub(crate) part: String,
    pub(crate) number: u16,
    pub(crate) suffix: Option<char>,
}

/// The text is not a valid ID.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an id; ids look like N-07, N-07a or SEC-07 and begin with one of {all}", all = [&STATEMENTS[..], &PROMISES[..]].concat().join(", "))]
pub(crate) struct NoId(String);

impl TryFrom<String> for Id {
    type Error = NoId;

    fn try_from(text: String) -> Result<Self, NoId> {
        let (part, rest) = text.split_once('-').unwrap_or_default();
        let id = Self::of(part, rest).filter(|id| id.to_string() == text);
        id.ok_or(NoId(text))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            part,
            number,
            suffix,
        } = self;
        write!(
            f,
            "{part}-{number:02}{}",
            suffix.map(String::from).unwrap_or_default()
        )
    }
}

impl Id {
    /// Parses an ID from its prefix and the rest, for example `N` and `07` or `07a`.
    fn of(part: &str, rest: &str) -> Option<Self> {
        let part = STATEMENTS
            .into_iter()
            .chain(PROMISES)
            .find(|known| *known == part)?;
        let (digits, suffix) = rest.split_at(
            rest.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len()),
        );
        let suffix = match suffix.as_bytes() {
            [] => None,
            [suffix] if suffix.is_ascii_lowercase() => Some(char::from(*suffix)),
            _ => return None,
        };
        let number = Some(digits)
            .filter(|digits| digits.len() >= 2)?
            .parse()
            .ok()?;
        Some(Self {
            part: part.to_owned(),
            number,
            suffix,
        })
    }
}

/// Returns true if this text, for example `02`, completes a valid process ID after `P-`. These IDs
/// are listed elsewhere.
fn is_of_process(rest: &str) -> bool {
    Id::of("C", rest).is_some() // any known prefix
}

/// Parses the comma-separated IDs in a line above a test. Process IDs (`P-02`) are ignored.
pub(crate) fn listed(text: &str) -> Vec<Result<Id, NoId>> {
    let ids = text
        .split(',')
        .map(str::trim)
        .filter(|id| !id.strip_prefix("P-").is_some_and(is_of_process));
    ids.map(|id| Id::try_from(id.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ids_are_skipped_in_a_line() {
        let ids: Vec<_> = listed(" P-20, S-16 ,P-02b, SEC-03")
            .into_iter()
            .map(|id| id.unwrap().to_string())
            .collect();
        assert_eq!(ids, ["S-16", "SEC-03"]);
        assert!(listed("P20").iter().all(Result::is_err) && listed("").iter().all(Result::is_err));
    }

    #[test]
    fn rejects_malformed_ids() {
        let parse = |text: &str| Id::try_from(text.to_owned());
        for good in ["N-01", "C-08", "S-59a", "SEC-01", "OPS-12a", "OPS-100"] {
            assert_eq!(parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "", "N01", "n-01", "N-1", "N-001", "X-01", "CN-01", "-01", "N-0é", "N-+1", "P-01",
            "SEC-1", "SE-01",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
