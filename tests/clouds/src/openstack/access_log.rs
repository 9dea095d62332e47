//! Requests as logged by the services that answered them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::{Error, operation};

/// A request from the log of the service that answered it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LoggedRequest {
    /// `GET`, `POST` …
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// Milliseconds until the start of the answer.
    pub ms: f64,
}

/// Reads a log. A missing log is empty, and an incomplete last line is ignored.
pub(crate) fn read(file: &Path) -> Result<Vec<LoggedRequest>, Error> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("read", file)(error)),
    }
}

/// Returns how often each operation of this service was requested, with the same names of
/// operations as in the proxy.
#[must_use]
pub fn count_requests(service: &str, requests: &[LoggedRequest]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let path = request.path.split('?').next().unwrap_or_default();
        let name = operation::openstack(service, &request.method, path, &[]);
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation() {
        let line = |path: &str| {
            format!("{{\"method\": \"GET\", \"path\": \"{path}\", \"status\": 200, \"ms\": 1.5}}")
        };
        let id = "6ee23fba-1ef7-4a3c-a6a1-0d1b4a53e0ce";
        let text = [
            line("/v2.1/servers/detail?name=a"),
            line(&format!("/v2.1/servers/{id}")),
            line("/v2.1/servers/detail"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nova.access");
        assert_eq!(read(&file).unwrap(), []);
        fs::write(&file, format!("{}\n{{\"meth", text.join("\n"))).unwrap();
        let counts = count_requests("compute", &read(&file).unwrap());
        let expected = [
            ("GET compute/servers/detail".to_owned(), 2),
            ("GET compute/servers/{id}".to_owned(), 1),
        ];
        assert_eq!(counts, BTreeMap::from(expected));
    }
}
