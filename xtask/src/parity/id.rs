//! Ids of statements and promises: `N-10` and `SEC-03` in documents and above tests, `n10` at the beginning of a test's name.

use std::fmt;

use serde::Deserialize;

/// Parts of the statements about upstream: common, node, lifecycle, service, route, ipam.
const STATEMENTS: [&str; 6] = ["C", "N", "L", "S", "R", "I"];
/// Parts of the promises: what Skydock defends, and how it operates.
const PROMISES: [&str; 2] = ["SEC", "OPS"];

/// Id of a statement or a promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Id {
    /// As in `N` or `SEC`.
    pub(crate) part: String,
    pub(crate) number: u16,
    pub(crate) suffix: Option<char>,
}

/// What stands where an id is expected is none.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no id; ids look like N-07, N-07a or SEC-07 and begin with one of {all}", all = [&STATEMENTS[..], &PROMISES[..]].concat().join(", "))]
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
        let Self { part, number, suffix } = self;
        write!(f, "{part}-{number:02}{}", suffix.map(String::from).unwrap_or_default())
    }
}

impl Id {
    /// From `N` and `07` or `07a`.
    fn of(part: &str, rest: &str) -> Option<Self> {
        let part = STATEMENTS.into_iter().chain(PROMISES).find(|known| *known == part)?;
        let (digits, suffix) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let suffix = match suffix.as_bytes() {
            [] => None,
            [suffix] if suffix.is_ascii_lowercase() => Some(char::from(*suffix)),
            _ => return None,
        };
        let number = Some(digits).filter(|digits| digits.len() >= 2)?.parse().ok()?;
        Some(Self { part: part.to_owned(), number, suffix })
    }

    /// From `n07` or `n07a`.
    fn of_part(part: &str) -> Option<Self> {
        let (letter, rest) = part.split_at_checked(1)?;
        Some(letter).filter(|letter| letter.bytes().all(|byte| byte.is_ascii_lowercase()))?;
        Self::of(&letter.to_uppercase(), rest)
    }
}

/// Whether this is what stands behind `p` or `P-` in an id of the process, such as `02`. Their table is another.
fn is_of_process(rest: &str) -> bool {
    Id::of("C", rest).is_some() // a part that is in the list
}

/// The ids in a line above a test, separated by commas. Ids of the process (`P-02`) may stand between.
pub(crate) fn listed(text: &str) -> Vec<Result<Id, NoId>> {
    let ids = text.split(',').map(str::trim).filter(|id| !id.strip_prefix("P-").is_some_and(is_of_process));
    ids.map(|id| Id::try_from(id.to_owned())).collect()
}

/// The ids that the name of a test begins with. Ids of the process (`p02`) may stand between.
pub(crate) fn leading(name: &str) -> Vec<Id> {
    let is_process = |part: &str| part.strip_prefix('p').is_some_and(is_of_process);
    let parts = name.split('_').take_while(|part| is_process(part) || Id::of_part(part).is_some());
    parts.filter_map(Id::of_part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(name: &str) -> Vec<String> {
        leading(name).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_the_first_parts_of_a_name_are_ids() {
        for (name, expected) in [
            ("n10_n13_an_id_is_kept", &["N-10", "N-13"][..]),
            ("l08a_it_is_so", &["L-08a"]),
            ("p02_c01_a_name", &["C-01"]),
            ("c01_p02b_s14_a_name", &["C-01", "S-14"]),
            ("n10", &["N-10"]),
            ("a_test_of_n10", &[]),
            ("n1_n100_x10_n10ab_N10", &[]),
            ("n100", &["N-100"]),
            ("n10_and_n11", &["N-10"]),
            ("sec01_a_promise", &[]),
            ("", &[]),
        ] {
            assert_eq!(ids(name), expected, "{name}");
        }
    }

    #[test]
    fn ids_of_the_process_are_passed_over_in_a_line() {
        let ids: Vec<_> = listed(" P-20, S-16 ,P-02b, SEC-03").into_iter().map(|id| id.unwrap().to_string()).collect();
        assert_eq!(ids, ["S-16", "SEC-03"]);
        assert!(listed("P20").iter().all(Result::is_err) && listed("").iter().all(Result::is_err));
    }

    #[test]
    fn an_id_is_written_in_one_way_only() {
        let parse = |text: &str| Id::try_from(text.to_owned());
        for good in ["N-01", "C-08", "S-59a", "SEC-01", "OPS-12a", "OPS-100"] {
            assert_eq!(parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "N01", "n-01", "N-1", "N-001", "X-01", "CN-01", "-01", "N-0é", "N-+1", "P-01", "SEC-1", "SE-01"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
