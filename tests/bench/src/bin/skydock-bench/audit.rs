//! Requests to the API server, from its audit log. The log contains only requests of service
//! accounts, which means those of the measured cloud controller manager. Every line is written
//! before the answer is sent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    stage: String,
    pub(crate) verb: String,
    #[serde(rename = "stageTimestamp")]
    pub(crate) done: Timestamp,
    #[serde(default)]
    object_ref: Object,
    #[serde(default)]
    response_status: Answer,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Answer {
    code: u16,
}

impl Request {
    /// Parses a line of the log. A watch counts when it starts, other requests when they are
    /// answered.
    fn parse(line: &str) -> Result<Option<Self>> {
        let request: Self = serde_json::from_str(line)
            .with_context(|| format!("not a line of an audit log: {line}"))?;
        let counts = if request.verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        Ok((request.stage == counts).then_some(request))
    }

    /// Returns the kind of the request, for example `patch nodes/status`.
    pub(crate) fn kind(&self) -> String {
        let Object {
            resource,
            subresource,
            ..
        } = &self.object_ref;
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!("{} {resource}{slash}{subresource}", self.verb)
            .trim_end()
            .to_owned()
    }

    pub(crate) fn name(&self) -> &str {
        &self.object_ref.name
    }

    pub(crate) fn resource(&self) -> &str {
        &self.object_ref.resource
    }

    pub(crate) fn subresource(&self) -> &str {
        &self.object_ref.subresource
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.response_status.code < 400
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Returns true for lease renewals, which are sent independently of other work.
    pub(crate) fn is_lease(&self) -> bool {
        self.resource() == "leases"
    }
}

/// Numbers of requests by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) writes: u64,
    /// Requests answered with a status of 400 or above, by kind and status, for example `patch
    /// nodes 422`.
    pub(crate) rejected: BTreeMap<String, u64>,
    /// Numbers by verb, resource and subresource.
    pub(crate) by_kind: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn count(&mut self, request: &Request) {
        self.requests += 1;
        self.writes += u64::from(request.is_write());
        if !request.succeeded() {
            *self
                .rejected
                .entry(format!(
                    "{} {}",
                    request.kind(),
                    request.response_status.code
                ))
                .or_default() += 1;
        }
        *self.by_kind.entry(request.kind()).or_default() += 1;
    }
}

/// Reads the log while it is written.
pub(crate) struct AuditLog {
    path: PathBuf,
    reader: Option<BufReader<File>>,
    /// The beginning of a line that was incomplete when it was read.
    partial: String,
}

impl AuditLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            reader: None,
            partial: String::new(),
        }
    }

    /// Returns the requests since the last call. The first request creates the log.
    pub(crate) fn read(&mut self) -> Result<Vec<Request>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => match File::open(&self.path) {
                Ok(file) => none.insert(BufReader::new(file)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot read {}", self.path.display()));
                }
            },
        };
        let mut requests = Vec::new();
        while reader
            .read_line(&mut self.partial)
            .context("cannot read the audit log")?
            > 0
        {
            if self.partial.ends_with('\n') {
                requests.extend(Request::parse(self.partial.trim_end())?);
                self.partial.clear();
            }
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn line(stage: &str, verb: &str, resource: &str, subresource: &str, code: u16) -> String {
        serde_json::json!({
            "kind": "Event", "stage": stage, "verb": verb, "requestURI": "/",
            "objectRef": {"resource": resource, "subresource": subresource, "name": "a"},
            "responseStatus": {"code": code}, "stageTimestamp": "2026-01-01T00:00:00.000001Z",
        })
        .to_string()
    }

    #[test]
    fn watches_count_at_the_start_and_others_at_the_answer() {
        let counts = |stage, verb| {
            Request::parse(&line(stage, verb, "nodes", "", 200))
                .unwrap()
                .is_some()
        };
        assert!(counts("ResponseStarted", "watch") && !counts("ResponseComplete", "watch"));
        assert!(counts("ResponseComplete", "list") && !counts("ResponseStarted", "list"));
    }

    #[test]
    fn requests_are_counted_by_verb_resource_and_subresource() {
        let mut tally = Tally::default();
        for line in [
            line("ResponseComplete", "patch", "nodes", "status", 200),
            line("ResponseComplete", "patch", "nodes", "", 422),
            line("ResponseComplete", "list", "nodes", "", 200),
        ] {
            tally.count(&Request::parse(&line).unwrap().unwrap());
        }
        assert_eq!((tally.requests, tally.writes), (3, 2));
        assert_eq!(
            tally.rejected,
            BTreeMap::from([("patch nodes 422".to_owned(), 1)])
        );
        assert_eq!(
            tally.by_kind.keys().collect::<Vec<_>>(),
            ["list nodes", "patch nodes", "patch nodes/status"]
        );
    }

    #[test]
    fn a_request_without_an_object_is_parsed() {
        let line =
            r#"{"stage":"ResponseComplete","verb":"get","stageTimestamp":"2026-01-01T00:00:00Z"}"#;
        assert_eq!(Request::parse(line).unwrap().unwrap().kind(), "get");
    }

    #[test]
    fn incomplete_log_lines_are_read_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut log = AuditLog::new(&path);
        assert!(
            log.read().unwrap().is_empty(),
            "the log need not be there yet"
        );
        let whole = line("ResponseComplete", "list", "nodes", "", 200);
        let (first, second) = whole.split_at(40);
        let mut file = File::create(&path).unwrap();
        write!(file, "{first}").unwrap();
        assert!(log.read().unwrap().is_empty());
        writeln!(file, "{second}").unwrap();
        assert_eq!(log.read().unwrap().len(), 1);
        assert!(log.read().unwrap().is_empty());
    }
}
