//! Pages of lists. The list is that of all volumes, or of all snapshots, in the order of their IDs,
//! and a token says after which ID a page begins: whatever is created or deleted in between, nothing
//! is skipped or repeated.

use prost::Message;

use crate::failure::{Code, Failure};

/// Begins each token, so that other texts are recognized.
const AFTER: &str = "after ";

/// Maximum bytes of a page, unless it has only one element. The sidecars accept messages of 4 MiB.
const MAX_BYTES: usize = 2 << 20;

/// Which page of a list is asked for.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// The last ID of the page before; none for the first page.
    after: Option<&'a str>,
    max: usize,
}

impl<'a> Page<'a> {
    /// Checks the token, and the maximum number of elements, where 0 is as many as fit into a message.
    pub(crate) fn new(token: &'a str, max: i32) -> Result<Self, Failure> {
        let Ok(max) = usize::try_from(max) else {
            return Err(Failure::invalid("max_entries is negative"));
        };
        let max = if max == 0 { usize::MAX } else { max };

        let after = token.strip_prefix(AFTER);
        if after.is_none() && !token.is_empty() {
            let message = "starting_token is not that of an earlier answer";
            return Err(Failure::new(Code::Aborted, message));
        }
        Ok(Self { after, max })
    }

    /// Returns this page of a list, and the token of the next one, which is empty after the last.
    pub(crate) fn of<T, E: Message>(
        &self,
        mut all: Vec<T>,
        id: impl Fn(&T) -> &str,
        entry: impl Fn(&T) -> E,
    ) -> (Vec<E>, String) {
        all.sort_by(|one, other| id(one).cmp(id(other)));
        // A cloud that creates or deletes meanwhile may have listed something twice.
        all.dedup_by(|one, other| id(one) == id(other));
        if let Some(after) = self.after {
            all.retain(|it| id(it) > after);
        }

        let (mut entries, mut bytes, mut last) = (Vec::new(), 0, None);
        for it in &all {
            let entry = entry(it);
            bytes += entry.encoded_len();
            let is_full = entries.len() == self.max || bytes > MAX_BYTES;
            if let Some(last) = last.filter(|_| is_full) {
                return (entries, format!("{AFTER}{}", id(last)));
            }
            entries.push(entry);
            last = Some(it);
        }
        (entries, String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ListVolumesRequest;

    /// All IDs, a token and a number of entries, and what they lead to: IDs and a token.
    type Row = (
        &'static [&'static str],
        &'static str,
        i32,
        &'static [&'static str],
        &'static str,
    );

    /// Returns the IDs of a page, each in a message.
    fn ids(all: &[&str], token: &str, max: i32) -> Result<(Vec<String>, String), Failure> {
        let entry = |id: &&str| ListVolumesRequest {
            max_entries: 0,
            starting_token: (*id).to_owned(),
        };
        let (entries, next) = Page::new(token, max)?.of(all.to_vec(), |id| id, entry);
        let ids = entries.into_iter().map(|it| it.starting_token);
        Ok((ids.collect(), next))
    }

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
            let (found, token) = ids(all, token, max).unwrap();
            let found: Vec<_> = found.iter().map(String::as_str).collect();
            assert_eq!((&*found, &*token), (expected, next), "{all:?}");
        }
    }

    #[test]
    fn a_page_fits_into_a_message() {
        let long = |name: &str, bytes: usize| format!("{name}{}", "x".repeat(bytes));
        let all = [
            long("a", 1 << 20),
            long("b", 1 << 19),
            long("c", 1 << 20),
            long("d", 3 << 20),
            long("e", 1),
        ];
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        let (mut token, mut pages) = (String::new(), Vec::new());
        loop {
            let (found, next) = ids(&all, &token, 0).unwrap();
            let names: String = found.iter().map(|id| &id[..1]).collect();
            pages.push(names);
            token = next;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(pages, ["ab", "c", "d", "e"]);
    }

    #[test]
    fn a_token_of_someone_else_is_rejected() {
        for (token, max, code) in [
            ("invalid-token", 0, Code::Aborted),
            ("b", 1, Code::Aborted),
            ("", -1, Code::InvalidArgument),
        ] {
            let rejected = ids(&["a"], token, max).unwrap_err();
            assert_eq!(rejected.code, code, "{token}");
        }
    }
}
