//! Measures a manager during a period of time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::audit::{AuditLog, Request, Tally};
use crate::scenario::Figures;
use crate::side::Manager;

/// How long the manager must be idle until its work counts as done. Both sides do the last part of
/// it, for example events, some time after the essential part.
const REST: Duration = Duration::from_secs(3);
/// How often the log is read.
const POLL: Duration = Duration::from_millis(100);
/// How often the manager is asked for its number of calls, which causes some load.
const ASK: Duration = Duration::from_secs(1);
/// How long a scenario may take.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long the work may continue after the goal is reached. Work that repeats forever is cut off
/// then.
const AFTERWARDS: Duration = Duration::from_secs(4 * 60);

/// The objects that must be written, and the requests that write them.
#[derive(Debug, Default)]
pub(crate) struct Goal {
    /// The names of the objects that have not been written yet, by resource and subresource.
    wanted: BTreeMap<Kind, BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    delete: bool,
    resource: &'static str,
    /// The subresource, or `None` for any.
    subresource: Option<&'static str>,
}

impl Goal {
    /// Requires that each of these nodes is written.
    pub(crate) fn nodes_written(self, names: &[String]) -> Self {
        self.with(
            Kind {
                delete: false,
                resource: "nodes",
                subresource: None,
            },
            names,
        )
    }

    /// Requires that each of these nodes and its status are written.
    pub(crate) fn nodes_initialized(self, names: &[String]) -> Self {
        let kind = |subresource| Kind {
            delete: false,
            resource: "nodes",
            subresource: Some(subresource),
        };
        self.with(kind(""), names).with(kind("status"), names)
    }

    /// Requires that each of these nodes is deleted.
    pub(crate) fn nodes_deleted(self, names: &[String]) -> Self {
        self.with(
            Kind {
                delete: true,
                resource: "nodes",
                subresource: None,
            },
            names,
        )
    }

    /// Requires that the status of each of these services is written.
    pub(crate) fn services_written(self, names: &[String]) -> Self {
        self.with(
            Kind {
                delete: false,
                resource: "services",
                subresource: Some("status"),
            },
            names,
        )
    }

    fn with(mut self, kind: Kind, names: &[String]) -> Self {
        self.wanted.insert(kind, names.iter().cloned().collect());
        self
    }

    fn left(&self) -> usize {
        self.wanted.values().map(BTreeSet::len).sum()
    }

    /// Removes what this request has written. Returns true if the request belongs to the goal.
    fn take(&mut self, request: &Request) -> bool {
        if !request.is_write() || !request.succeeded() {
            return false;
        }
        let mut concerns = false;
        for (kind, names) in &mut self.wanted {
            let fits = kind.resource == request.resource()
                && kind.delete == (request.verb == "delete")
                && kind
                    .subresource
                    .is_none_or(|wanted| wanted == request.subresource());
            if fits {
                names.remove(request.name());
                concerns = true;
            }
        }
        concerns
    }
}

/// A running measurement.
pub(crate) struct Measurement<'a> {
    manager: &'a mut Manager,
    log: &'a mut AuditLog,
    start: Timestamp,
    cpu: Duration,
    calls: BTreeMap<String, u64>,
    tally: Tally,
}

impl<'a> Measurement<'a> {
    /// Starts a measurement of a running manager.
    pub(crate) async fn of_running(
        manager: &'a mut Manager,
        log: &'a mut AuditLog,
    ) -> Result<Self> {
        manager.process.forget_peak()?;
        let (cpu, calls) = (manager.process.cpu()?, manager.calls().await?);
        log.read()?;
        Ok(Self {
            manager,
            log,
            start: Timestamp::now(),
            cpu,
            calls,
            tally: Tally::default(),
        })
    }

    /// Starts a measurement of a manager that has just been started. The log must not have been
    /// read since then.
    pub(crate) fn of_started(manager: &'a mut Manager, log: &'a mut AuditLog) -> Self {
        let start = manager.process.started;
        Self {
            manager,
            log,
            start,
            cpu: Duration::ZERO,
            calls: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// Waits until the goal is reached and the manager is idle, and reports how much of the goal is
    /// left.
    pub(crate) async fn reach(
        &mut self,
        mut goal: Goal,
        progress: impl Fn(usize),
    ) -> Result<Figures> {
        let begun = Instant::now();
        let (mut first, mut last, mut rest) = (None, self.start, self.start);
        let mut calls = self.manager.calls().await?;
        let mut busy = Instant::now();
        let mut asked = Instant::now();
        let mut reached = None;
        loop {
            for request in self.log.read()? {
                self.tally.count(&request);
                if !request.is_write() || request.is_lease() {
                    continue;
                }
                busy = Instant::now();
                rest = rest.max(request.done);
                if goal.take(&request) {
                    first.get_or_insert(request.done);
                    last = last.max(request.done);
                }
            }
            if asked.elapsed() >= ASK {
                asked = Instant::now();
                let now = self.manager.calls().await?;
                if now != calls {
                    (calls, busy, rest) = (now, Instant::now(), rest.max(Timestamp::now()));
                }
            }
            if goal.left() == 0 {
                let reached = reached.get_or_insert_with(Instant::now);
                if busy.elapsed() >= REST || reached.elapsed() >= AFTERWARDS {
                    break;
                }
            } else if begun.elapsed() > PATIENCE {
                bail!(
                    "{} objects were not written in {} min",
                    goal.left(),
                    PATIENCE.as_secs() / 60
                );
            }
            progress(goal.left());
            sleep(POLL).await;
        }
        let mut figures = self.figures().await?;
        figures.seconds = Some(seconds_between(self.start, last));
        figures.seconds_writing = first.map(|first| seconds_between(first, last));
        figures.seconds_to_rest = Some(seconds_between(self.start, rest));
        Ok(figures)
    }

    /// Waits until the goal is reached. Returns the seconds between the first and the last write
    /// for the goal, and the requests until then.
    pub(crate) async fn written(&mut self, mut goal: Goal) -> Result<(f64, Tally)> {
        let begun = Instant::now();
        let (mut first, mut last) = (None, self.start);
        while goal.left() > 0 {
            self.manager.process.check()?;
            if begun.elapsed() > PATIENCE {
                bail!(
                    "{} objects were not written in {} min",
                    goal.left(),
                    PATIENCE.as_secs() / 60
                );
            }
            for request in self.log.read()? {
                self.tally.count(&request);
                if goal.take(&request) {
                    first.get_or_insert(request.done);
                    last = last.max(request.done);
                }
            }
            sleep(POLL).await;
        }
        Ok((
            first
                .map(|first| seconds_between(first, last))
                .unwrap_or_default(),
            self.tally.clone(),
        ))
    }

    /// Waits for this time since the start, and at least until the manager leads, which shows in a
    /// lease renewal. The time of that renewal is returned as `seconds`.
    pub(crate) async fn last(&mut self, time: Duration) -> Result<Figures> {
        let mut leads = None;
        while leads.is_none() || seconds_between(self.start, Timestamp::now()) < time.as_secs_f64()
        {
            self.manager.process.check()?;
            for request in self.log.read()? {
                self.tally.count(&request);
                if request.is_lease() && request.is_write() && request.succeeded() {
                    leads.get_or_insert(request.done);
                }
            }
            sleep(POLL).await;
        }
        let mut figures = self.figures().await?;
        figures.seconds = leads.map(|leads| seconds_between(self.start, leads));
        Ok(figures)
    }

    /// Returns the figures so far.
    async fn figures(&mut self) -> Result<Figures> {
        for request in self.log.read()? {
            self.tally.count(&request);
        }
        let mut cloud_calls = self.manager.calls().await?;
        for (kind, count) in &mut cloud_calls {
            *count -= self
                .calls
                .get(kind)
                .copied()
                .unwrap_or_default()
                .min(*count);
        }
        cloud_calls.retain(|_, count| *count > 0);
        Ok(Figures {
            requests: self.tally.clone(),
            cloud_calls,
            cpu_seconds: (self.manager.process.cpu()?.saturating_sub(self.cpu)).as_secs_f64(),
            peak_bytes: self.manager.process.peak()?,
            ..Figures::default()
        })
    }
}

/// Returns the seconds between two moments, or 0 if the second is before the first.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, resource: &str, subresource: &str, name: &str, code: u16) -> Request {
        serde_json::from_value(serde_json::json!({
            "stage": "ResponseComplete", "verb": verb, "stageTimestamp": "2026-01-01T00:00:00Z",
            "objectRef": {"resource": resource, "subresource": subresource, "name": name},
            "responseStatus": {"code": code},
        }))
        .unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_goal_needs_a_successful_write_of_each_name() {
        let mut goal = Goal::default().nodes_written(&names(&["a", "b"]));
        assert!(!goal.take(&request("patch", "nodes", "", "a", 409)));
        assert!(!goal.take(&request("get", "nodes", "", "a", 200)));
        assert_eq!(goal.left(), 2);
        assert!(goal.take(&request("patch", "nodes", "status", "a", 200)));
        assert!(
            goal.take(&request("update", "nodes", "", "a", 200)),
            "what is written again concerns the goal too"
        );
        assert_eq!(goal.left(), 1);
        assert!(goal.take(&request("update", "nodes", "", "b", 200)));
        assert_eq!(goal.left(), 0);
    }

    #[test]
    fn only_a_delete_completes_a_deletion_goal() {
        let mut goal = Goal::default()
            .nodes_deleted(&names(&["a"]))
            .nodes_written(&names(&["b"]));
        goal.take(&request("patch", "nodes", "", "a", 200));
        goal.take(&request("delete", "nodes", "", "b", 200));
        assert_eq!(goal.left(), 2);
        goal.take(&request("delete", "nodes", "", "a", 200));
        goal.take(&request("patch", "nodes", "", "b", 200));
        assert_eq!(goal.left(), 0);
    }

    #[test]
    fn initialization_needs_writes_of_node_and_status() {
        for (first, second) in [("status", ""), ("", "status")] {
            let mut goal = Goal::default().nodes_initialized(&names(&["a"]));
            assert!(goal.take(&request("patch", "nodes", first, "a", 200)));
            assert_eq!(goal.left(), 1);
            assert!(goal.take(&request("patch", "nodes", second, "a", 200)));
            assert_eq!(goal.left(), 0);
        }
    }

    #[test]
    fn a_service_goal_needs_a_status_write() {
        let mut goal = Goal::default().services_written(&names(&["a"]));
        assert!(!goal.take(&request("patch", "services", "", "a", 200)));
        assert!(goal.take(&request("patch", "services", "status", "a", 200)));
        assert_eq!(goal.left(), 0);
    }
}
