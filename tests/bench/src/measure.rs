//! Takes a manager's figures from one moment to another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::audit::{AuditLog, Request, Tally};
use crate::scenario::Figures;
use crate::side::Manager;

/// How long nothing may happen before the work counts as done. Both sides do the last of it, such as events, a while
/// after what matters.
const REST: Duration = Duration::from_secs(3);
/// How often the log is read.
const POLL: Duration = Duration::from_millis(100);
/// How often the manager is asked for its calls, which costs it something.
const ASK: Duration = Duration::from_secs(1);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long after the goal work may go on without an end; what repeats for ever is cut off there. Skydock's events may take
/// 205 s: 2,048 wait, and 10 a second are written.
const AFTERWARDS: Duration = Duration::from_secs(4 * 60);

/// What is to be written, and by which request each is known.
#[derive(Debug, Default)]
pub(crate) struct Goal {
    /// Of a resource, maybe one with subresource: the names that are still to be written.
    wanted: BTreeMap<Kind, BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    delete: bool,
    resource: &'static str,
    /// None is any.
    subresource: Option<&'static str>,
}

impl Goal {
    /// Each of these nodes is written to.
    pub(crate) fn nodes_written(self, names: &[String]) -> Self {
        self.with(Kind { delete: false, resource: "nodes", subresource: None }, names)
    }

    /// Each of these nodes is written to, and its status.
    pub(crate) fn nodes_initialised(self, names: &[String]) -> Self {
        let kind = |subresource| Kind { delete: false, resource: "nodes", subresource: Some(subresource) };
        self.with(kind(""), names).with(kind("status"), names)
    }

    /// Each of these nodes is deleted.
    pub(crate) fn nodes_deleted(self, names: &[String]) -> Self {
        self.with(Kind { delete: true, resource: "nodes", subresource: None }, names)
    }

    /// The status of each of these services is written.
    pub(crate) fn services_written(self, names: &[String]) -> Self {
        self.with(Kind { delete: false, resource: "services", subresource: Some("status") }, names)
    }

    fn with(mut self, kind: Kind, names: &[String]) -> Self {
        self.wanted.insert(kind, names.iter().cloned().collect());
        self
    }

    fn left(&self) -> usize {
        self.wanted.values().map(BTreeSet::len).sum()
    }

    /// Crosses off what this request has done; true if it is about what is wanted at all.
    fn take(&mut self, request: &Request) -> bool {
        if !request.is_write() || !request.succeeded() {
            return false;
        }
        let mut concerns = false;
        for (kind, names) in &mut self.wanted {
            let fits = kind.resource == request.resource()
                && kind.delete == (request.verb == "delete")
                && kind.subresource.is_none_or(|wanted| wanted == request.subresource());
            if fits {
                names.remove(request.name());
                concerns = true;
            }
        }
        concerns
    }
}

/// A measurement that runs.
pub(crate) struct Measurement<'a> {
    manager: &'a mut Manager,
    log: &'a mut AuditLog,
    start: Timestamp,
    cpu: Duration,
    calls: BTreeMap<String, u64>,
    tally: Tally,
}

impl<'a> Measurement<'a> {
    /// Begins with a manager that runs, now.
    pub(crate) async fn of_running(manager: &'a mut Manager, log: &'a mut AuditLog) -> Result<Self> {
        manager.process.forget_peak()?;
        let (cpu, calls) = (manager.process.cpu()?, manager.calls().await?);
        log.read()?;
        Ok(Self { manager, log, start: Timestamp::now(), cpu, calls, tally: Tally::default() })
    }

    /// Begins with a manager that has just been started; nothing of the log may have been read since.
    pub(crate) fn of_started(manager: &'a mut Manager, log: &'a mut AuditLog) -> Self {
        let start = manager.process.started;
        Self { manager, log, start, cpu: Duration::ZERO, calls: BTreeMap::new(), tally: Tally::default() }
    }

    /// Waits for the goal, and then for rest; says what is left of the goal as it shrinks.
    pub(crate) async fn reach(&mut self, mut goal: Goal, progress: impl Fn(usize)) -> Result<Figures> {
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
                bail!("{} objects were not written in {} min", goal.left(), PATIENCE.as_secs() / 60);
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

    /// Waits for the goal alone; answers the seconds from the first to the last write that brought it nearer, and what was asked
    /// until then.
    pub(crate) async fn written(&mut self, mut goal: Goal) -> Result<(f64, Tally)> {
        let begun = Instant::now();
        let (mut first, mut last) = (None, self.start);
        while goal.left() > 0 {
            self.manager.process.check()?;
            if begun.elapsed() > PATIENCE {
                bail!("{} objects were not written in {} min", goal.left(), PATIENCE.as_secs() / 60);
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
        Ok((first.map(|first| seconds_between(first, last)).unwrap_or_default(), self.tally.clone()))
    }

    /// Waits so long since the beginning, and at least until it leads, which shows in a renewed lease. When that was is told
    /// as the time.
    pub(crate) async fn last(&mut self, time: Duration) -> Result<Figures> {
        let mut leads = None;
        while leads.is_none() || seconds_between(self.start, Timestamp::now()) < time.as_secs_f64() {
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

    /// What it took until now.
    async fn figures(&mut self) -> Result<Figures> {
        for request in self.log.read()? {
            self.tally.count(&request);
        }
        let mut cloud_calls = self.manager.calls().await?;
        for (kind, count) in &mut cloud_calls {
            *count -= self.calls.get(kind).copied().unwrap_or_default().min(*count);
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

/// Seconds from one moment to another; 0 if the second is before the first.
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
    fn a_goal_is_reached_when_each_name_was_written_and_the_write_was_taken() {
        let mut goal = Goal::default().nodes_written(&names(&["a", "b"]));
        assert!(!goal.take(&request("patch", "nodes", "", "a", 409)));
        assert!(!goal.take(&request("get", "nodes", "", "a", 200)));
        assert_eq!(goal.left(), 2);
        assert!(goal.take(&request("patch", "nodes", "status", "a", 200)));
        assert!(goal.take(&request("update", "nodes", "", "a", 200)), "what is written again concerns the goal too");
        assert_eq!(goal.left(), 1);
        assert!(goal.take(&request("update", "nodes", "", "b", 200)));
        assert_eq!(goal.left(), 0);
    }

    #[test]
    fn a_node_that_is_to_be_deleted_is_not_deleted_by_another_write() {
        let mut goal = Goal::default().nodes_deleted(&names(&["a"])).nodes_written(&names(&["b"]));
        goal.take(&request("patch", "nodes", "", "a", 200));
        goal.take(&request("delete", "nodes", "", "b", 200));
        assert_eq!(goal.left(), 2);
        goal.take(&request("delete", "nodes", "", "a", 200));
        goal.take(&request("patch", "nodes", "", "b", 200));
        assert_eq!(goal.left(), 0);
    }

    #[test]
    fn a_node_is_initialised_when_both_it_and_its_status_are_written() {
        for (first, second) in [("status", ""), ("", "status")] {
            let mut goal = Goal::default().nodes_initialised(&names(&["a"]));
            assert!(goal.take(&request("patch", "nodes", first, "a", 200)));
            assert_eq!(goal.left(), 1);
            assert!(goal.take(&request("patch", "nodes", second, "a", 200)));
            assert_eq!(goal.left(), 0);
        }
    }

    #[test]
    fn a_service_is_written_when_its_status_is() {
        let mut goal = Goal::default().services_written(&names(&["a"]));
        assert!(!goal.take(&request("patch", "services", "", "a", 200)));
        assert!(goal.take(&request("patch", "services", "status", "a", 200)));
        assert_eq!(goal.left(), 0);
    }
}
