//! Lists, page by page.
use serde::Serialize;

use crate::api::check::Labels;
use crate::api::error::{Error, Result};
use crate::api::parse;

/// Number of objects in a page unless the client states one.
const DEFAULT: usize = 50;
/// Maximum number of objects in a page.
const MOST: usize = 100;

/// Which part of a list the client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    limit: usize,
    /// The number of the last object of the page before.
    after: u64,
    /// Only objects with this name.
    pub(crate) name: Option<String>,
    /// Only objects with this label.
    label: Option<(String, String)>,
    /// What a token is bound to: the list, and the filters.
    bound: (&'static str, String),
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

impl<T> Page<T> {
    /// Converts the objects.
    pub(crate) fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(convert).collect(),
            next: self.next,
        }
    }
}

impl Wanted {
    /// Reads the parameters of a list.
    pub(crate) fn parse(list: &'static str, query: &str) -> Result<Self> {
        let names = ["limit", "page_token", "name", "label"];
        let [limit, token, name, label] = parse::query(query, names)?;

        let bound = (
            list,
            [name.as_deref(), label.as_deref()]
                .map(Option::unwrap_or_default)
                .join("\n"),
        );

        let limit = limit.map_or(Ok(DEFAULT), |text| {
            let number = text
                .parse()
                .ok()
                .filter(|number| (1..=MOST).contains(number));
            number
                .ok_or_else(|| Error::field("limit", format!("expected a number from 1 to {MOST}")))
        })?;

        let after = token.map_or(Ok(0), |token| {
            let wrong = || {
                Error::field(
                    "page_token",
                    "this token is not from the page before of the same list",
                )
            };
            after(&token, &bound).ok_or_else(wrong)
        })?;

        let pair = |label: String| {
            let (key, value) = label
                .split_once('=')
                .ok_or_else(|| Error::field("label", "expected KEY=VALUE"))?;
            Ok((key.to_owned(), value.to_owned()))
        };

        Ok(Self {
            limit,
            after,
            name,
            label: label.map(pair).transpose()?,
            bound,
        })
    }

    /// Cuts a page out of those objects that are in the list. `described` returns the name and the
    /// labels of an object.
    pub(crate) fn select<'a, T: 'a>(
        &self,
        objects: impl Iterator<Item = (u64, &'a T)>,
        described: impl Fn(&T) -> (&str, &Labels),
    ) -> Page<(u64, &'a T)> {
        self.page(objects.filter(|&(_, object)| {
            let (name, labels) = described(object);
            self.admits(name, labels)
        }))
    }

    /// Returns whether an object is in the list.
    pub(crate) fn admits(&self, name: &str, labels: &Labels) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
            && self
                .label
                .as_ref()
                .is_none_or(|(key, value)| labels.get(key) == Some(value))
    }

    /// Cuts a page out of a list, which is in order of the numbers.
    pub(crate) fn page<T>(&self, list: impl Iterator<Item = (u64, T)>) -> Page<(u64, T)> {
        let mut rest = list.skip_while(|(number, _)| *number <= self.after);

        let mut items = Vec::new();
        let mut last = self.after;
        for (number, item) in rest.by_ref().take(self.limit) {
            items.push((number, item));
            last = number;
        }

        Page {
            items,
            next: rest.next().map(|_| token(last, &self.bound)),
        }
    }
}

fn token(last: u64, (list, filters): &(&str, String)) -> String {
    hex::encode(format!("{list}\n{last}\n{filters}"))
}

fn after(given: &str, bound: &(&str, String)) -> Option<u64> {
    let text = String::from_utf8(hex::decode(given).ok()?).ok()?;
    let number = text.split('\n').nth(1)?.parse().ok()?;
    (token(number, bound) == given).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str, objects: &[u64]) -> Result<(Vec<u64>, Option<String>)> {
        let page = Wanted::parse("things", query)?
            .page(objects.iter().map(|number| (*number, ())))
            .map(|(number, ())| number);
        Ok((page.items, page.next))
    }

    #[test]
    fn pages_are_complete_while_the_list_changes() {
        let (first, next) = page("limit=2", &[1, 2, 3, 4]).unwrap();
        assert_eq!(first, [1, 2]);

        // What the token points to is gone, and there is something at the end.
        let (second, next) = page(
            &format!("limit=2&page_token={}", next.unwrap()),
            &[1, 3, 4, 5],
        )
        .unwrap();
        assert_eq!(second, [3, 4]);

        let (third, next) =
            page(&format!("limit=2&page_token={}", next.unwrap()), &[3, 5]).unwrap();
        assert_eq!((third, next), (vec![5], None));
        assert_eq!(page("limit=2", &[1, 2]).unwrap(), (vec![1, 2], None));
        assert_eq!(page("", &[]).unwrap(), (vec![], None));
    }

    #[test]
    fn a_token_is_bound_to_list_and_filters() {
        let token = page("limit=1&name=a", &[1, 2]).unwrap().1.unwrap();
        assert!(page(&format!("limit=9&name=a&page_token={token}"), &[]).is_ok());

        for query in [
            format!("page_token={token}"),
            format!("name=b&page_token={token}"),
        ] {
            assert!(page(&query, &[]).is_err(), "{query}");
        }
        assert!(Wanted::parse("others", &format!("name=a&page_token={token}")).is_err());

        for query in [
            "page_token=",
            "page_token=x",
            "page_token=00",
            "limit=0",
            "limit=101",
            "limit=x",
            "label=x",
        ] {
            assert!(page(query, &[]).is_err(), "{query}");
        }
    }

    #[test]
    fn filters_compare_names_and_labels() {
        let labels = Labels::from([("a".to_owned(), "b=c".to_owned())]);
        let admits = |query: &str| Wanted::parse("things", query).unwrap().admits("n", &labels);
        assert!(
            admits("")
                && admits("name=n")
                && admits("label=a%3Db%3Dc")
                && admits("name=n&label=a=b=c")
        );
        assert!(
            !admits("name=m")
                && !admits("label=a=b")
                && !admits("label=b=")
                && !admits("name=n&label=a=")
        );
    }
}
