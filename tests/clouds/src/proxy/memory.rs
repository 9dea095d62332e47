//! The last answer to each read, for answers that are old.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;

/// Parameters that choose a page.
const PAGES: [&str; 6] = ["marker", "page_reverse", "NextToken", "Marker", "PageToken", "page"];

/// Answers by what was asked.
#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<String, (Instant, http::response::Parts, Bytes)>);

impl Memory {
    pub(super) fn remember(&mut self, key: String, answer: &Response<Bytes>) {
        let (head, body) = answer.clone().into_parts();
        self.0.insert(key, (Instant::now(), head, body));
    }

    /// The last answer, if it is at most this old.
    pub(super) fn last(&self, key: &str, age: Duration) -> Option<Response<Bytes>> {
        let (at, head, body) = self.0.get(key)?;
        (at.elapsed() <= age).then(|| Response::from_parts(head.clone(), body.clone()))
    }
}

/// What is asked, whoever asks.
pub(super) fn key(operation: &str, path: &str, query: &str, form: &str) -> String {
    format!("{operation} {path}?{query} {form}")
}

/// A query or form that asks for the first page of the same.
pub(super) fn first_page(form: &str) -> String {
    let other = |pair: &&str| !PAGES.contains(&pair.split('=').next().unwrap_or_default());
    form.split('&').filter(other).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_is_asked_for_without_a_marker() {
        assert_eq!(first_page("limit=10&marker=abc&name=x"), "limit=10&name=x");
        assert_eq!(
            first_page("Action=DescribeInstances&MaxResults=5&NextToken=t"),
            "Action=DescribeInstances&MaxResults=5"
        );
        assert_eq!(first_page(""), "");
    }
}
