//! The writes of each host, from the audit log of the API server.

use std::path::Path;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::Value;

/// The account of the host that must not write.
pub(super) const LOOKER: &str = "host-looks";
/// The prefix of account names.
const ACCOUNTS: &str = "system:serviceaccount:kube-system:";
/// The lease of the hosts.
const LEASE: &str = "cloud-controller-manager";

/// A write that the API server has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    account: String,
    verb: String,
    /// The resource with its subresource.
    resource: String,
    name: String,
    /// True for a dry run, which the API server validates but does not store.
    dry: bool,
    received: Timestamp,
    /// The time of the answer, which is not before the write.
    answered: Timestamp,
}

impl Write {
    /// Reads an event of the audit log. Returns `None` for reads, failed requests, and other
    /// accounts.
    fn of(event: &Value) -> Option<Self> {
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str);
        let time = |pointer| text(pointer)?.parse().ok();
        let verb = text("/verb").filter(|verb| !["get", "list", "watch"].contains(verb))?;
        let code = event
            .pointer("/responseStatus/code")
            .and_then(Value::as_u64)?;
        if !(200..300).contains(&code) {
            return None;
        }
        let resource = text("/objectRef/resource")?;
        let in_body = event
            .pointer("/requestObject/dryRun/0")
            .is_some_and(|option| option == "All");
        // The API server ignores the options in the query of a DELETE request that has a body.
        let in_query =
            verb != "delete" && text("/requestURI").is_some_and(|uri| uri.contains("dryRun=All"));
        Some(Self {
            account: text("/user/username")?.strip_prefix(ACCOUNTS)?.to_owned(),
            verb: verb.to_owned(),
            resource: text("/objectRef/subresource").map_or_else(
                || resource.to_owned(),
                |subresource| format!("{resource}/{subresource}"),
            ),
            name: text("/objectRef/name").unwrap_or_default().to_owned(),
            dry: in_body || in_query,
            received: time("/requestReceivedTimestamp")?,
            answered: time("/stageTimestamp")?,
        })
    }

    fn is_lease(&self) -> bool {
        self.resource == "leases" && self.name == LEASE
    }

    /// Returns true for writes that only a leader may do. Former leaders may write the events of
    /// their time, which change nothing.
    fn is_work(&self) -> bool {
        !self.dry && self.resource != "leases" && self.resource != "events"
    }
}

/// Returns all writes in the log so far.
pub(super) fn read(log: &Path) -> Result<Vec<Write>> {
    if !log.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(log).context("cannot read the audit log")?;
    // The last line may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let events = whole
        .lines()
        .map(serde_json::from_str::<Value>)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(events.iter().filter_map(Write::of).collect())
}

/// Returns the writes that only a leader may do.
pub(super) fn work(log: &[Write]) -> impl Iterator<Item = &Write> {
    log.iter().filter(|write| write.is_work())
}

/// Returns the account that wrote the lease last.
pub(super) fn leader(log: &[Write]) -> Option<&str> {
    log.iter()
        .rfind(|write| write.is_lease())
        .map(|write| write.account.as_str())
}

/// Returns how often the lease was written by another account than before.
pub(super) fn leaders(log: &[Write]) -> usize {
    let holders: Vec<_> = log
        .iter()
        .filter(|write| write.is_lease())
        .map(|write| &write.account)
        .collect();
    holders
        .windows(2)
        .filter(|pair| pair.first() != pair.last())
        .count()
}

/// Returns forbidden writes: those of the dry-run host, and those of hosts that did not hold the
/// lease when the request was received.
pub(super) fn wrongs(log: &[Write]) -> Vec<String> {
    let leases: Vec<_> = log.iter().filter(|write| write.is_lease()).collect();
    let wrong = |write: &&Write| {
        if write.account == LOOKER {
            return !write.dry;
        }
        if !write.is_work() {
            return false;
        }
        let taken = leases
            .iter()
            .filter(|lease| lease.account != write.account && lease.answered <= write.received);
        let held = leases
            .iter()
            .filter(|lease| lease.account == write.account && lease.received <= write.received);
        let (taken, held) = (
            taken.map(|lease| lease.received).max(),
            held.map(|lease| lease.received).max(),
        );
        held.is_none() || held < taken
    };
    let sentence = |write: &Write| {
        let Write {
            account,
            verb,
            resource,
            name,
            received,
            ..
        } = write;
        format!("{account} did not lead, and has done {verb} {resource} {name} at {received}")
    };
    log.iter().filter(wrong).map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(account: &str, resource: &str, second: i64) -> Write {
        Write {
            account: account.to_owned(),
            verb: "patch".to_owned(),
            resource: resource.to_owned(),
            name: if resource == "leases" {
                LEASE.to_owned()
            } else {
                "n0".to_owned()
            },
            dry: false,
            received: Timestamp::from_second(second).unwrap(),
            answered: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn the_lease_holder_may_write() {
        let log = [
            write("a", "leases", 1),
            write("a", "nodes", 2),
            write("b", "leases", 3),
            write("b", "nodes", 4),
        ];
        assert_eq!(wrongs(&log), Vec::<String>::new());
        assert_eq!((leaders(&log), work(&log).count()), (1, 2));
    }

    #[test]
    fn a_write_after_another_took_the_lease_is_wrong() {
        let log = [
            write("a", "leases", 1),
            write("b", "leases", 3),
            write("a", "nodes", 4),
            write("b", "nodes", 5),
        ];
        assert_eq!(
            wrongs(&log),
            ["a did not lead, and has done patch nodes n0 at 1970-01-01T00:00:04Z"]
        );
    }

    #[test]
    fn a_write_without_any_lease_is_wrong() {
        assert_eq!(wrongs(&[write("a", "services/status", 1)]).len(), 1);
    }

    #[test]
    fn events_are_allowed_after_losing_the_lease() {
        let log = [
            write("a", "leases", 1),
            write("b", "leases", 3),
            write("a", "events", 4),
        ];
        assert_eq!(wrongs(&log), Vec::<String>::new());
    }

    #[test]
    fn a_dry_run_host_may_send_only_dry_run_writes() {
        let dry = Write {
            dry: true,
            ..write(LOOKER, "nodes", 1)
        };
        assert_eq!(wrongs(std::slice::from_ref(&dry)), Vec::<String>::new());
        for resource in ["nodes", "events", "leases"] {
            assert_eq!(
                wrongs(&[Write {
                    dry: false,
                    ..write(LOOKER, resource, 1)
                }])
                .len(),
                1,
                "{resource}"
            );
        }
        assert_eq!(work(&[dry]).count(), 0);
    }

    #[test]
    fn dry_run_of_a_delete_counts_only_in_its_body() {
        let event = |body: Value| {
            json!({
                "verb": "delete", "requestURI": "/api/v1/nodes/n0?dryRun=All", "requestObject": body,
                "user": {"username": "system:serviceaccount:kube-system:host-a"},
                "objectRef": {"resource": "nodes", "name": "n0"}, "responseStatus": {"code": 200},
                "requestReceivedTimestamp": "2026-01-01T00:00:00.5Z", "stageTimestamp": "2026-01-01T00:00:01.5Z",
            })
        };
        assert!(!Write::of(&event(json!({}))).unwrap().dry);
        assert!(Write::of(&event(json!({"dryRun": ["All"]}))).unwrap().dry);
    }
}
