//! Failures that a test asks for.
use serde::{Deserialize, Serialize};

use crate::api::error::{Error, Result};
use crate::api::path::Operation;

/// Maximum number of failures at a time.
const MOST: usize = 100;

/// A failure of some future calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failure {
    /// `KIND.ACTION`, each of which may be `*`.
    operation: String,
    /// Status of the answer; none cuts the connection.
    #[serde(default)]
    pub(crate) status: Option<u16>,
    /// Header `Retry-After`, in seconds.
    #[serde(default)]
    pub(crate) retry_after: Option<u64>,
    /// Whether the effect comes first.
    #[serde(default)]
    pub(crate) after: bool,
    /// Number of calls that go well first.
    #[serde(default)]
    skip: u32,
    /// Number of calls that fail.
    #[serde(default = "once")]
    count: u32,
}

fn once() -> u32 {
    1
}

/// Failures, in the order in which they were asked for.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Failures(Vec<Failure>);

impl Failures {
    pub(crate) fn add(&mut self, failure: Failure) -> Result<()> {
        if !Operation::is_pattern(&failure.operation) {
            return Err(Error::field(
                "operation",
                "expected KIND.ACTION, for example routes.create, routes.*, *.*",
            ));
        }

        if failure
            .status
            .is_some_and(|status| !(400..=599).contains(&status))
        {
            return Err(Error::field(
                "status",
                "expected 400 to 599, or null to cut the connection",
            ));
        }

        if failure.count == 0 {
            return Err(Error::field("count", "expected 1 or more"));
        }
        if self.0.len() >= MOST {
            return Err(Error::quota(MOST, "failures"));
        }

        self.0.push(failure);
        Ok(())
    }

    /// Returns the failure of a call, and counts it.
    pub(crate) fn take(&mut self, operation: Operation) -> Option<Failure> {
        let mut matching = self
            .0
            .iter_mut()
            .filter(|failure| operation.matches(&failure.operation));

        let hit = matching.find_map(|failure| {
            let passes = failure.skip > 0;
            failure.skip = failure.skip.saturating_sub(1);
            failure.count -= u32::from(!passes);
            (!passes).then(|| failure.clone())
        });
        self.0.retain(|failure| failure.count > 0);
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> Failure {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_failure_hits_its_operation_so_many_times() {
        let create = Operation::of("POST", "/v1/routes").unwrap();
        let list = Operation::of("GET", "/v1/routes").unwrap();
        let mut failures = Failures::default();
        failures
            .add(failure(
                r#"{"operation": "routes.create", "skip": 1, "count": 2, "status": 503}"#,
            ))
            .unwrap();
        failures.add(failure(r#"{"operation": "*.list"}"#)).unwrap();

        assert_eq!(
            failures.take(list).map(|failure| failure.status),
            Some(None)
        );

        let hits: Vec<_> = (0..4).map(|_| failures.take(create).is_some()).collect();
        assert_eq!(
            (hits, failures.take(list)),
            (vec![false, true, true, false], None)
        );
        assert!(failures.0.is_empty());
    }

    #[test]
    fn a_failure_that_cannot_happen_is_rejected() {
        for text in [
            r#"{"operation": "routes"}"#,
            r#"{"operation": "routes.write"}"#,
            r#"{"operation": "zones.create"}"#,
            r#"{"operation": "*.*", "status": 200}"#,
            r#"{"operation": "*.*", "count": 0}"#,
        ] {
            assert!(Failures::default().add(failure(text)).is_err(), "{text}");
        }
        let mut failures = Failures::default();
        let added = (0..=MOST).filter(|_| failures.add(failure(r#"{"operation": "*.*"}"#)).is_ok());
        assert_eq!(added.count(), MOST);
    }
}
