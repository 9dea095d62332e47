//! The memory about nodes that the cloud is queried about: its answers, and when to query it again.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use skydock_cloud::{CloudError, Node, Presence};
use skydock_controller_base::calls::{progress::ProgressTracker, retry::RetryWhen};
use skydock_kube::queue::with_jitter;
use tokio::time::Instant;

use crate::batches::BatchLimit;

/// Longest delay after consecutive errors: the absence of an instance must not be noticed much
/// later than without errors.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A series of equal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerSeries {
    /// The answer.
    pub presence: Presence,
    /// Number of answers.
    pub answers: u32,
    /// Time of the first answer.
    pub since: Instant,
}

impl AnswerSeries {
    /// Returns the series after one more answer.
    #[must_use]
    pub fn after(series: Option<Self>, presence: Presence, now: Instant) -> Self {
        match series.filter(|series| series.presence == presence) {
            Some(series) => Self {
                answers: series.answers.saturating_add(1),
                ..series
            },
            None => Self {
                presence,
                answers: 1,
                since: now,
            },
        }
    }
}

/// When a node may be queried again.
#[derive(Clone, Debug)]
enum Wait {
    Until(Instant),
    /// Not before the node differs from this.
    Change(Arc<Node>),
}

/// What is remembered about one node.
#[derive(Clone, Debug, Default)]
pub struct KnownNode {
    series: Option<AnswerSeries>,
    wait: Option<Wait>,
    failures: u32,
    /// Number of the query that is not answered yet.
    asked: Option<u64>,
    /// How large a batch with this node may be.
    pub(crate) batch_limit: BatchLimit,
    /// It is marked for deletion: an answer was confirmed, and no later one has reverted that.
    pub marked: bool,
    /// The last answer has marked it, and what follows was not decided yet.
    pub undecided: bool,
    /// The brake allows its deletion, which has not started yet.
    pub released: bool,
    /// Time of the last event about its stopped deletion.
    pub reported: Option<Instant>,
    /// How long the cloud has answered that an operation is in progress.
    pub(crate) progress: ProgressTracker,
}

impl KnownNode {
    /// Records an answer and returns its series. The node is not queried again before `next`.
    pub fn answer(&mut self, presence: Presence, next: Instant, now: Instant) -> AnswerSeries {
        let series = AnswerSeries::after(self.series, presence, now);
        self.series = Some(series);
        self.wait = Some(Wait::Until(next));
        self.failures = 0;
        self.marked &= presence == Presence::Absent;
        self.released &= self.marked;
        self.undecided = false;
        self.progress = ProgressTracker::default();
        series
    }

    /// Records the decision to delete the node. If someone else is deleting it already (`leaving`),
    /// nothing needs to be done.
    pub fn mark_for_deletion(&mut self, leaving: bool) {
        self.marked = !leaving;
        self.undecided = !leaving;
    }

    /// Returns true if this was the last answer.
    #[must_use]
    pub fn says(&self, presence: Presence) -> bool {
        self.series
            .is_some_and(|series| series.presence == presence)
    }

    /// Returns true if the node may be marked soon: its instance was reported as absent, and
    /// this is to be confirmed, or there is an open query, and the previous one has not failed.
    #[must_use]
    pub fn may_be_marked_soon(&self) -> bool {
        let is_confirmed_next = self.says(Presence::Absent) && !self.marked;
        is_confirmed_next || self.asked.is_some() && self.failures == 0
    }

    /// Records an error. An error does not mean that the instance is absent, and ends the series of
    /// answers; but a cloud that asks to wait says nothing about the instance. `marked` is not
    /// changed: if half of the answers fail, the other half must not seem few.
    pub fn error(&mut self, error: &CloudError, node: &Arc<Node>, period: Duration, now: Instant) {
        self.undecided = false;

        self.wait = match RetryWhen::after(error) {
            RetryWhen::After(delay) => {
                self.wait = Some(Wait::Until(now + delay));
                return;
            }
            RetryWhen::OnChange => Some(Wait::Change(Arc::clone(node))),
            RetryWhen::Soon => None,
            RetryWhen::BackOff => {
                let wait = period
                    .saturating_mul(2_u32.saturating_pow(self.failures))
                    .min(LONGEST_WAIT);
                self.failures = self.failures.saturating_add(1);
                // Spreads the retries of nodes that failed together, but not the first one, which
                // should come soon.
                let wait = if self.failures > 1 {
                    with_jitter(wait, &(&node.uid, self.failures))
                } else {
                    wait
                };
                Some(Wait::Until(now + wait))
            }
        };

        self.series = None;
    }

    /// Returns true if the cloud may be queried about the node now.
    #[must_use]
    pub fn may_ask(&self, node: &Node, now: Instant) -> bool {
        match &self.wait {
            None => true,
            Some(Wait::Until(until)) => now >= *until,
            Some(Wait::Change(rejected)) => **rejected != *node,
        }
    }
}

/// What is remembered about all nodes, by UID.
#[derive(Debug, Default)]
pub struct LifecycleMemory {
    nodes: HashMap<String, KnownNode>,
    /// Number of queries so far, including those about nodes that were forgotten.
    questions: u64,
}

impl LifecycleMemory {
    /// Forgets everything, including open queries, because the plugin was replaced.
    pub fn clear(&mut self) {
        self.nodes.clear();
    }

    /// Returns true if no node is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Starts a query about a node. Returns its number and how large its batch may be; `None` if a
    /// query is open, or if the node must not be queried now.
    pub(crate) fn ask(
        &mut self,
        uid: &str,
        node: &Node,
        now: Instant,
    ) -> Option<(u64, BatchLimit)> {
        if self
            .get(uid)
            .is_some_and(|known| known.asked.is_some() || !known.may_ask(node, now))
        {
            return None;
        }

        self.questions += 1;
        let number = self.questions;
        let known = self.entry(uid);
        known.asked = Some(number);

        Some((number, known.batch_limit))
    }

    /// Ends a query; returns `None` if it was forgotten.
    pub fn answered(&mut self, uid: &str, question: u64) -> Option<&mut KnownNode> {
        let known = self
            .nodes
            .get_mut(uid)
            .filter(|known| known.asked == Some(question))?;
        known.asked = None;
        Some(known)
    }

    /// Returns true once each time the deletion of a node was allowed, unless a later answer has
    /// reverted that.
    pub fn take_released(&mut self, uid: &str) -> bool {
        self.nodes
            .get_mut(uid)
            .is_some_and(|known| std::mem::take(&mut known.released))
    }

    /// Forgets all nodes except these.
    pub fn retain(&mut self, uids: &HashSet<&str>) {
        self.nodes.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// Forgets a node.
    pub fn forget(&mut self, uid: &str) {
        self.nodes.remove(uid);
    }

    /// Returns what is remembered about a node, if anything.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&KnownNode> {
        self.nodes.get(uid)
    }

    /// Returns what is remembered about a node, for changes.
    pub fn entry(&mut self, uid: &str) -> &mut KnownNode {
        self.nodes.entry(uid.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(5);

    #[test]
    fn each_error_decides_when_a_node_is_queried_again() {
        let start = Instant::now();
        let retry = || Retry {
            after: Duration::from_secs(42),
            message: String::new(),
        };
        let node = Arc::new(Node::default());
        let changed = Node {
            ready: true,
            ..Node::default()
        };
        let seconds = |seconds| start + Duration::from_secs(seconds);
        // error, whether the series of answers continues, when the same node and a changed one may
        // be queried again
        for (error, goes_on, same, other) in [
            (CloudError::NotFound(String::new()), false, Some(5), Some(5)),
            (CloudError::ImplementedElsewhere, false, None, Some(0)),
            (CloudError::Conflict(String::new()), false, Some(0), Some(0)),
            (CloudError::Throttled(retry()), true, Some(42), Some(42)),
            (CloudError::InProgress(retry()), true, Some(42), Some(42)),
            (CloudError::Denied(String::new()), false, Some(5), Some(5)),
            (CloudError::Invalid(String::new()), false, None, Some(0)),
            (
                CloudError::Unavailable(String::new()),
                false,
                Some(5),
                Some(5),
            ),
            (CloudError::Internal(String::new()), false, Some(5), Some(5)),
        ] {
            let mut known = KnownNode::default();
            known.answer(Presence::Absent, start, start);
            known.marked = true;
            known.error(&error, &node, PERIOD, start);
            let first = |node: &Node| (0..100).find(|&second| known.may_ask(node, seconds(second)));
            assert_eq!((first(&node), first(&changed)), (same, other), "{error}");
            assert!(known.marked, "{error}");
            let answers = known.answer(Presence::Absent, start, start).answers;
            assert_eq!(answers == 2, goes_on, "{error}");
        }
    }

    #[test]
    fn repeated_failures_back_off_until_an_answer() {
        let start = Instant::now();
        let node = Arc::new(Node::default());
        let mut known = KnownNode::default();
        let wait = |known: &mut KnownNode| {
            known.error(
                &CloudError::Unavailable("down".into()),
                &node,
                PERIOD,
                start,
            );
            (0..100)
                .find(|&second| known.may_ask(&node, start + Duration::from_secs(second)))
                .unwrap()
        };
        for longest in [5, 10, 20, 40, 60, 60] {
            let wait = wait(&mut known);
            assert!(
                (longest * 4 / 5..=longest).contains(&wait),
                "{wait} s, not {longest} s"
            );
        }

        known.answer(Presence::Running, start, start);
        assert_eq!(wait(&mut known), 5);
    }

    #[test]
    fn nodes_that_fail_together_are_queried_at_different_times() {
        let start = Instant::now();
        let waits: HashSet<_> = (0..100)
            .map(|number| {
                let node = Arc::new(Node {
                    uid: format!("uid-{number}"),
                    ..Node::default()
                });
                let mut known = KnownNode::default();
                known.error(
                    &CloudError::Unavailable("down".into()),
                    &node,
                    PERIOD,
                    start,
                );
                let soon = start + PERIOD;
                assert!(
                    known.may_ask(&node, soon)
                        && !known.may_ask(&node, soon - Duration::from_nanos(1)),
                    "the first time"
                );
                for _ in 0..3 {
                    known.error(
                        &CloudError::Unavailable("down".into()),
                        &node,
                        PERIOD,
                        start,
                    );
                }
                (0..100).find(|&second| known.may_ask(&node, start + Duration::from_secs(second)))
            })
            .collect();
        assert!(waits.len() > 2, "{waits:?}");
    }

    #[test]
    fn only_the_answer_to_the_last_query_counts() {
        let (mut memory, now) = (LifecycleMemory::default(), Instant::now());
        let node = Node::default();
        let (first, _) = memory.ask("a", &node, now).unwrap();
        assert!(memory.ask("a", &node, now).is_none(), "it is asked about");
        memory.forget("a");
        let (second, _) = memory.ask("a", &node, now).unwrap();
        assert!(memory.answered("a", first).is_none());
        assert!(memory.answered("a", second).is_some());
        assert!(memory.answered("a", second).is_none(), "once");
    }

    #[test]
    fn a_different_answer_restarts_the_count_and_cancels_deletion() {
        let start = Instant::now();
        let mut known = KnownNode::default();
        let later = start + PERIOD;
        known.answer(Presence::Absent, start, start);
        assert_eq!(
            known.answer(Presence::Absent, later, later),
            AnswerSeries {
                presence: Presence::Absent,
                answers: 2,
                since: start
            }
        );

        known.marked = true;
        assert_eq!(
            known.answer(Presence::Stopped, later, later),
            AnswerSeries {
                presence: Presence::Stopped,
                answers: 1,
                since: later
            }
        );
        assert!(!known.marked);
    }
}
