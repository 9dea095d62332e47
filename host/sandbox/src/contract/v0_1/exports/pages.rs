//! Lists that a plugin returns page by page.

use crate::answers::{AnswerError, Checked, count};

/// Maximum bytes of the token of the next page.
const MAX_NEXT: usize = 4 << 10;

/// A page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// The token of the next page.
    pub(crate) next: Option<String>,
}

/// How many elements a complete list may have.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// The elements.
    pub(super) what: &'static str,
    /// The key of the limit in `--plugin-limit`.
    pub(super) key: &'static str,
    pub(super) most: usize,
}

/// Checks one page of a list, after `before` elements on earlier pages. One invalid element makes the
/// whole list invalid: without that element, the host would do the wrong thing.
pub(super) fn page<W, T>(
    Page { items, next }: Page<W>,
    before: usize,
    limit: Limit,
    check: impl Fn(W) -> Checked<T>,
) -> Checked<Page<T>> {
    let Limit { what, key, most } = limit;
    let total = items.len().saturating_add(before);
    if total > most {
        return Err(AnswerError::TooManyListed {
            what,
            key,
            count: total,
            limit: most,
        });
    }

    if let Some(next) = &next {
        count("bytes in `next`", next.len(), MAX_NEXT)?;
    }

    let items = items.into_iter().map(check).collect::<Checked<_>>()?;
    Ok(Page { items, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_limited_with_those_before_it() {
        let limit = Limit {
            what: "routes",
            key: "routes",
            most: 5,
        };
        let checked = |number: usize, next: Option<&str>, before| {
            let all = Page {
                items: vec!["a"; number],
                next: next.map(Into::into),
            };
            page(all, before, limit, |it| Ok(it.len()))
        };
        assert_eq!(
            checked(2, Some("p2"), 3),
            Ok(Page {
                items: vec![1, 1],
                next: Some("p2".into()),
            })
        );
        assert_eq!(
            checked(2, None, 4).unwrap_err().to_string(),
            "6 routes, but at most 5 are allowed: raise the limit, for example --plugin-limit routes=12"
        );

        let (longest, longer) = ("x".repeat(4096), "x".repeat(4097));
        assert!(checked(0, Some(&longest), 0).is_ok() && checked(0, Some(&longer), 0).is_err());
    }

    #[test]
    fn an_invalid_element_fails_the_list() {
        let limit = Limit {
            what: "volumes",
            key: "volumes",
            most: 5,
        };
        let check = |it: &str| match it {
            "bad" => Err(AnswerError::Missing("one")),
            good => Ok(good.to_owned()),
        };
        let all = Page {
            items: vec!["good", "bad"],
            next: None,
        };
        let rejected = page(all, 0, limit, check);
        assert_eq!(rejected, Err(AnswerError::Missing("one")));
    }
}
