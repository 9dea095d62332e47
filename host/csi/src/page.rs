//! Pages of lists. The list is that of all volumes, or of all snapshots, in the order of their IDs,
//! and a token says after which ID a page begins: whatever is created or deleted in between, nothing
//! is skipped or repeated.

use crate::failure::{Code, Failure};

/// Begins each token, so that other texts are recognized.
const AFTER: &str = "after ";

/// Returns a page of at most `max` elements, or of all for 0, and the token of the next one, which
/// is empty after the last.
pub(crate) fn page<T>(
    mut all: Vec<T>,
    id: impl Fn(&T) -> &str,
    token: &str,
    max: i32,
) -> Result<(Vec<T>, String), Failure> {
    let Ok(max) = usize::try_from(max) else {
        return Err(Failure::invalid("max_entries is negative"));
    };

    all.sort_by(|one, other| id(one).cmp(id(other)));
    // A cloud that creates or deletes meanwhile may have listed something twice.
    all.dedup_by(|one, other| id(one) == id(other));

    if !token.is_empty() {
        let wrong = || {
            let message = "starting_token is not that of an earlier answer";
            Failure::new(Code::Aborted, message)
        };
        let after = token.strip_prefix(AFTER).ok_or_else(wrong)?;
        all.retain(|it| id(it) > after);
    }

    if max == 0 || all.len() <= max {
        return Ok((all, String::new()));
    }
    all.truncate(max);
    let next = all.last().map(|last| format!("{AFTER}{}", id(last)));
    Ok((all, next.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All IDs, a token and a number of entries, and what they lead to: IDs and a token.
    type Row = (
        &'static [&'static str],
        &'static str,
        i32,
        &'static [&'static str],
        &'static str,
    );

    #[test]
    fn a_page_begins_after_the_one_before() {
        let table: [Row; 9] = [
            (&["b", "a", "c"], "", 0, &["a", "b", "c"], ""),
            (&["b", "a", "c"], "", 2, &["a", "b"], "after b"),
            (&["b", "a", "c"], "after b", 2, &["c"], ""),
            (&["a", "b"], "", 2, &["a", "b"], ""),
            (&["a", "c", "d"], "after b", 1, &["c"], "after c"),
            (&["a"], "after b", 1, &[], ""),
            (&["a", "a", "b"], "", 0, &["a", "b"], ""),
            (&[], "", 0, &[], ""),
            (&["after b", "z"], "after after b", 0, &["z"], ""),
        ];
        for (all, token, max, expected, next) in table {
            let (found, token) = page(all.to_vec(), |it| it, token, max).unwrap();
            assert_eq!((&*found, &*token), (expected, next), "{all:?}");
        }
    }

    #[test]
    fn a_token_of_someone_else_is_rejected() {
        for (token, max, code) in [
            ("invalid-token", 0, Code::Aborted),
            ("b", 1, Code::Aborted),
            ("", -1, Code::InvalidArgument),
        ] {
            let rejected = page(vec!["a"], |it| it, token, max).unwrap_err();
            assert_eq!(rejected.code, code, "{token}");
        }
    }
}
