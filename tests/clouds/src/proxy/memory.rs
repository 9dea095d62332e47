//! The last answer to each read request, for stale answers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;

/// The parameters that select a page.
const PAGES: [&str; 6] = [
    "marker",
    "page_reverse",
    "NextToken",
    "Marker",
    "PageToken",
    "page",
];

/// Answers by request.
#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<String, (Instant, http::response::Parts, Bytes)>);

impl Memory {
    pub(super) fn remember(&mut self, key: String, answer: &Response<Bytes>) {
        let (head, body) = answer.clone().into_parts();
        self.0.insert(key, (Instant::now(), head, body));
    }

    /// Returns the last answer if it is at most this old.
    pub(super) fn last(&self, key: &str, age: Duration) -> Option<Response<Bytes>> {
        let (at, head, body) = self.0.get(key)?;
        (at.elapsed() <= age).then(|| Response::from_parts(head.clone(), body.clone()))
    }
}

/// Returns the key of a request, which does not depend on the client.
pub(super) fn key(operation: &str, path: &str, query: &str, form: &str) -> String {
    format!("{operation} {path}?{query} {form}")
}

/// Returns the query or form that requests the first page.
pub(super) fn first_page(form: &str) -> String {
    let other = |pair: &&str| !PAGES.contains(&pair.split('=').next().unwrap_or_default());
    form.split('&').filter(other).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_request_has_no_marker() {
        assert_eq!(first_page("limit=10&marker=abc&name=x"), "limit=10&name=x");
        assert_eq!(
            first_page("Action=DescribeInstances&MaxResults=5&NextToken=t"),
            "Action=DescribeInstances&MaxResults=5"
        );
        assert_eq!(first_page(""), "");
    }
}
