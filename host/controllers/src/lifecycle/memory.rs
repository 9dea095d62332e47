//! What is remembered of a node that the cloud is asked about, from one question to the next.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use skydock_cloud::{CloudError, Node, Presence};
use tokio::time::Instant;

use crate::{batches::Fit, patience::Patience, queue::apart, retry::Again};

/// Longest wait after errors in a row: a machine that is gone shall not be noticed much later than without them.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The same answer, given each time since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The answer.
    pub presence: Presence,
    /// How often it was given.
    pub answers: u32,
    /// When it was given first.
    pub since: Instant,
}

impl Row {
    /// The row after one more answer.
    #[must_use]
    pub fn after(row: Option<Self>, presence: Presence, now: Instant) -> Self {
        match row.filter(|row| row.presence == presence) {
            Some(row) => Self { answers: row.answers.saturating_add(1), ..row },
            None => Self { presence, answers: 1, since: now },
        }
    }
}

/// When a node may be asked about again.
#[derive(Clone, Debug)]
enum Wait {
    Until(Instant),
    /// Not as long as it is this.
    Change(Arc<Node>),
}

/// What is remembered of one node.
#[derive(Clone, Debug, Default)]
pub struct Known {
    row: Option<Row>,
    wait: Option<Wait>,
    failures: u32,
    /// The question that is not answered yet.
    asked: Option<u64>,
    /// In how large a batch it may go.
    pub(crate) fit: Fit,
    /// Its deletion was decided, and no answer has taken that back.
    pub condemned: bool,
    /// That was the last answer, and it was not done yet.
    pub doomed: bool,
    /// The brake has let it go, and its turn has not come yet.
    pub going: bool,
    /// When somebody was told that its deletion is stopped.
    pub told: Option<Instant>,
    /// For how long the cloud has been at it, instead of an answer.
    pub(crate) patience: Patience,
}

impl Known {
    /// Takes note of an answer and gives the row it belongs to. It is not asked for again before `next`.
    pub fn answer(&mut self, presence: Presence, next: Instant, now: Instant) -> Row {
        let row = Row::after(self.row, presence, now);
        (self.row, self.wait, self.failures) = (Some(row), Some(Wait::Until(next)), 0);
        self.condemned &= presence == Presence::Absent;
        self.going &= self.condemned;
        self.doomed = false;
        self.patience = Patience::default();
        row
    }

    /// Takes note of the decision to delete it; one that somebody is deleting already is left to that.
    pub fn condemn(&mut self, leaving: bool) {
        (self.condemned, self.doomed) = (!leaving, !leaving);
    }

    /// True if that was the last answer.
    #[must_use]
    pub fn says(&self, presence: Presence) -> bool {
        self.row.is_some_and(|row| row.presence == presence)
    }

    /// True if an answer is worth waiting for: there is a question, and none that was asked before it has failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.asked.is_some() && self.failures == 0
    }

    /// Takes note of an error. No answer is no absence, and breaks the row of those there were; to be asked to wait says
    /// nothing about the machine. `condemned` stays: if half of the answers fail, the other half is not suddenly few.
    pub fn error(&mut self, error: &CloudError, node: &Arc<Node>, period: Duration, now: Instant) {
        self.doomed = false;
        self.wait = match Again::after(error) {
            Again::After(delay) => {
                self.wait = Some(Wait::Until(now + delay));
                return;
            }
            Again::OnChange => Some(Wait::Change(Arc::clone(node))),
            Again::Soon => None,
            Again::BackOff => {
                let wait = period.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST_WAIT);
                self.failures = self.failures.saturating_add(1);
                // A little apart from those that have failed with it, except the first time, when nobody is to wait for long.
                let wait = if self.failures > 1 { apart(wait, &(&node.uid, self.failures)) } else { wait };
                Some(Wait::Until(now + wait))
            }
        };
        self.row = None;
    }

    /// True if the cloud may be asked about the node now.
    #[must_use]
    pub fn may_ask(&self, node: &Node, now: Instant) -> bool {
        match &self.wait {
            None => true,
            Some(Wait::Until(until)) => now >= *until,
            Some(Wait::Change(refused)) => **refused != *node,
        }
    }
}

/// What is remembered of all nodes, by UID.
#[derive(Debug, Default)]
pub struct Memory {
    nodes: HashMap<String, Known>,
    /// Questions that were asked, also of what is forgotten since.
    questions: u64,
}

impl Memory {
    /// Forgets all, the questions that are not answered yet too: another plugin answers now.
    pub fn clear(&mut self) {
        self.nodes.clear();
    }

    /// Begins a question about a node: its number, and in how large a batch it may go. `None` if the node is asked about, or
    /// not to be asked about now.
    pub(crate) fn ask(&mut self, uid: &str, node: &Node, now: Instant) -> Option<(u64, Fit)> {
        if self.get(uid).is_some_and(|known| known.asked.is_some() || !known.may_ask(node, now)) {
            return None;
        }
        self.questions += 1;
        let number = self.questions;
        let known = self.entry(uid);
        known.asked = Some(number);
        Some((number, known.fit))
    }

    /// Ends a question; `None` if it was forgotten.
    pub fn answered(&mut self, uid: &str, question: u64) -> Option<&mut Known> {
        let known = self.nodes.get_mut(uid).filter(|known| known.asked == Some(question))?;
        known.asked = None;
        Some(known)
    }

    /// True once for each time that a node was let go, unless an answer has taken that back.
    pub fn goes(&mut self, uid: &str) -> bool {
        self.nodes.get_mut(uid).is_some_and(|known| std::mem::take(&mut known.going))
    }

    /// Forgets nodes that are not among these.
    pub fn retain(&mut self, uids: &HashSet<&str>) {
        self.nodes.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// Forgets a node.
    pub fn forget(&mut self, uid: &str) {
        self.nodes.remove(uid);
    }

    /// What is remembered of a node; `None` if nothing is.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&Known> {
        self.nodes.get(uid)
    }

    /// What is remembered of a node, to be changed.
    pub fn entry(&mut self, uid: &str) -> &mut Known {
        self.nodes.entry(uid.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(5);

    #[test]
    fn each_error_has_its_own_consequence_for_the_next_question() {
        let start = Instant::now();
        let retry = || Retry { after: Duration::from_secs(42), message: String::new() };
        let node = Arc::new(Node::default());
        let changed = Node { ready: true, ..Node::default() };
        let seconds = |seconds| start + Duration::from_secs(seconds);
        // error, whether the row of answers goes on, when the same node and a changed one may be asked about again
        for (error, goes_on, same, other) in [
            (CloudError::NotFound(String::new()), false, Some(5), Some(5)),
            (CloudError::ImplementedElsewhere, false, None, Some(0)),
            (CloudError::Conflict(String::new()), false, Some(0), Some(0)),
            (CloudError::Throttled(retry()), true, Some(42), Some(42)),
            (CloudError::InProgress(retry()), true, Some(42), Some(42)),
            (CloudError::Denied(String::new()), false, Some(5), Some(5)),
            (CloudError::Invalid(String::new()), false, None, Some(0)),
            (CloudError::Unavailable(String::new()), false, Some(5), Some(5)),
            (CloudError::Internal(String::new()), false, Some(5), Some(5)),
        ] {
            let mut known = Known::default();
            known.answer(Presence::Absent, start, start);
            known.condemned = true;
            known.error(&error, &node, PERIOD, start);
            let first = |node: &Node| (0..100).find(|&second| known.may_ask(node, seconds(second)));
            assert_eq!((first(&node), first(&changed)), (same, other), "{error}");
            assert!(known.condemned, "{error}");
            let answers = known.answer(Presence::Absent, start, start).answers;
            assert_eq!(answers == 2, goes_on, "{error}");
        }
    }

    // Holds: OPS-77
    #[test]
    fn failures_in_a_row_wait_longer_until_an_answer_ends_that() {
        let start = Instant::now();
        let node = Arc::new(Node::default());
        let mut known = Known::default();
        let wait = |known: &mut Known| {
            known.error(&CloudError::Unavailable("down".into()), &node, PERIOD, start);
            (0..100).find(|&second| known.may_ask(&node, start + Duration::from_secs(second))).unwrap()
        };
        for longest in [5, 10, 20, 40, 60, 60] {
            let wait = wait(&mut known);
            assert!((longest * 4 / 5..=longest).contains(&wait), "{wait} s, not {longest} s");
        }
        known.answer(Presence::Running, start, start);
        assert_eq!(wait(&mut known), 5);
    }

    #[test]
    fn those_that_fail_together_are_not_asked_about_together_for_ever() {
        let start = Instant::now();
        let waits: HashSet<_> = (0..100)
            .map(|number| {
                let node = Arc::new(Node { uid: format!("uid-{number}"), ..Node::default() });
                let mut known = Known::default();
                known.error(&CloudError::Unavailable("down".into()), &node, PERIOD, start);
                let soon = start + PERIOD;
                assert!(
                    known.may_ask(&node, soon) && !known.may_ask(&node, soon - Duration::from_nanos(1)),
                    "the first time"
                );
                for _ in 0..3 {
                    known.error(&CloudError::Unavailable("down".into()), &node, PERIOD, start);
                }
                (0..100).find(|&second| known.may_ask(&node, start + Duration::from_secs(second)))
            })
            .collect();
        assert!(waits.len() > 2, "{waits:?}");
    }

    #[test]
    fn only_the_answer_to_the_last_question_counts() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let node = Node::default();
        let (first, _) = memory.ask("a", &node, now).unwrap();
        assert!(memory.ask("a", &node, now).is_none(), "it is asked about");
        memory.forget("a");
        let (second, _) = memory.ask("a", &node, now).unwrap();
        assert!(memory.answered("a", first).is_none());
        assert!(memory.answered("a", second).is_some());
        assert!(memory.answered("a", second).is_none(), "once");
    }

    // Holds: OPS-14
    #[test]
    fn another_answer_begins_anew_and_takes_a_condemnation_back() {
        let start = Instant::now();
        let mut known = Known::default();
        let later = start + PERIOD;
        known.answer(Presence::Absent, start, start);
        assert_eq!(
            known.answer(Presence::Absent, later, later),
            Row { presence: Presence::Absent, answers: 2, since: start }
        );
        known.condemned = true;
        assert_eq!(
            known.answer(Presence::Stopped, later, later),
            Row { presence: Presence::Stopped, answers: 1, since: later }
        );
        assert!(!known.condemned);
    }
}
