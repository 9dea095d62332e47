//! Decides what to do about a node whose instance may be stopped or missing. All functions are
//! pure.
//!
//! [`decide`] says for how long, and how often, the cloud has to report that an instance does not
//! exist before its node is deleted. `brake.rs` says how many nodes may be.
//!
//! A rule that needs no answer of the cloud belongs in [`precheck`], any other in [`decide`]. What
//! else is done about a node is a case of their results, which `round.rs` carries out, or of
//! [`Change`], which `apply.rs` writes.

use std::time::Duration;

use skydock_cloud::{Node, Presence, ProviderInfo, TaintEffect};
use skydock_controller_base::objects::constants::{
    ANNOTATION_ALLOW_DELETION, ANNOTATION_OUT_OF_SERVICE, OUT_OF_SERVICE_VALUE,
    TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN,
};
use tokio::time::Instant;

use super::memory::AnswerSeries;
use crate::node::plan::uninitialized;

/// Number of equal answers of the cloud that are required before an irreversible action.
const ANSWERS: u32 = 2;
/// Time for which the instance of an uninitialized node must be missing: the cloud may not know it
/// yet.
const PATIENCE_BEFORE_INITIALIZATION: Duration = Duration::from_secs(600);

/// A change of a node's taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add the taint that prevents scheduling.
    AddShutdown,
    /// Remove that taint.
    RemoveShutdown,
    /// Add the taint that deletes its Pods and detaches their volumes.
    AddOutOfService,
    /// Remove that taint.
    RemoveOutOfService,
}

/// Result of looking at the node alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precheck {
    /// It is ready, or not owned by this provider: change its taints in this way; the list may be
    /// empty.
    Decided(Vec<Change>),
    /// Query the cloud.
    Ask,
}

/// Looks at a node. The cloud is only queried about nodes that are not ready and whose provider ID
/// this provider owns.
#[must_use]
pub fn precheck(node: &Node, info: &ProviderInfo) -> Precheck {
    let owned = node.provider_id.as_ref().is_some_and(|id| info.owns(id));
    match (owned, node.ready) {
        (true, true) => Precheck::Decided(back(node)),
        (true, false) => Precheck::Ask,
        (false, _) => Precheck::Decided(Vec::new()),
    }
}

/// Returns true if passes check a node, whoever owns it: it is not ready, or has the taint of a
/// stopped instance.
#[must_use]
pub fn needs_check(node: &Node) -> bool {
    !node.ready || !back(node).is_empty()
}

/// Returns true if nobody can find out whether the instance of a node exists: the node is not ready
/// and has no provider ID.
#[must_use]
pub fn unidentified(node: &Node) -> bool {
    !node.ready && node.provider_id.is_none()
}

/// Returns true if an answer about the node as it was applies to the node as it is.
#[must_use]
pub fn same_question(asked: &Node, now: &Node) -> bool {
    asked.uid == now.uid && asked.provider_id == now.provider_id && !now.ready
}

/// What to do after an answer of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Change its taints in this way; the list may be empty.
    Taint(Vec<Change>),
    /// The cloud has reported that the instance does not exist, but not often or long enough: query
    /// it again.
    Confirm,
    /// The instance does not exist: delete the node.
    Delete,
}

/// Decides by the current series of equal answers.
#[must_use]
pub fn decide(
    node: &Node,
    series: AnswerSeries,
    now: Instant,
    period: Duration,
    out_of_service: bool,
) -> Act {
    let least = if uninitialized(node) {
        PATIENCE_BEFORE_INITIALIZATION.max(period)
    } else {
        period
    };

    let lasts = now.saturating_duration_since(series.since);
    let sure = series.answers >= ANSWERS && lasts >= least;

    match series.presence {
        Presence::Absent if sure => Act::Delete,
        Presence::Absent => Act::Confirm,
        Presence::Running => Act::Taint(back(node)),
        Presence::Stopped => {
            let mut changes = Vec::new();
            // This taint only keeps Pods away and can be removed, so one answer is enough.
            if !has(node, TAINT_SHUTDOWN, TaintEffect::NoSchedule) {
                changes.push(Change::AddShutdown);
            }

            // The taint is only set once: if someone has removed it or set it themselves, it is not
            // changed.
            if out_of_service
                && sure
                && !marked(node)
                && !has(node, TAINT_OUT_OF_SERVICE, TaintEffect::NoExecute)
            {
                changes.push(Change::AddOutOfService);
            }

            Act::Taint(changes)
        }
    }
}

/// Returns true if an operator has allowed deleting the node, however many others are to be
/// deleted.
#[must_use]
pub fn deletion_is_allowed(node: &Node) -> bool {
    node.annotations
        .get(ANNOTATION_ALLOW_DELETION)
        .is_some_and(|value| value == "true")
}

/// Returns the changes for a node whose instance is running.
fn back(node: &Node) -> Vec<Change> {
    let mut changes = Vec::new();
    if has(node, TAINT_SHUTDOWN, TaintEffect::NoSchedule) {
        changes.push(Change::RemoveShutdown);
    }
    if marked(node) {
        changes.push(Change::RemoveOutOfService);
    }
    changes
}

/// Compares key and effect, as upstream compares taints.
fn has(node: &Node, key: &str, effect: TaintEffect) -> bool {
    node.taints
        .iter()
        .any(|taint| taint.key == key && taint.effect == effect)
}

/// Returns true if Skydock has set the out-of-service taint.
fn marked(node: &Node) -> bool {
    node.annotations
        .get(ANNOTATION_OUT_OF_SERVICE)
        .is_some_and(|value| value == OUT_OF_SERVICE_VALUE)
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Taint;
    use skydock_controller_base::{objects::constants::TAINT_UNINITIALIZED, testing::info};

    use super::*;

    const PERIOD: Duration = Duration::from_secs(5);
    const SHUTDOWN: (&str, TaintEffect) = (TAINT_SHUTDOWN, TaintEffect::NoSchedule);
    const OUT_OF_SERVICE: (&str, TaintEffect) = (TAINT_OUT_OF_SERVICE, TaintEffect::NoExecute);

    fn node(provider_id: Option<&str>, ready: bool, taints: &[(&str, TaintEffect)]) -> Node {
        let taint = |&(key, effect): &(&str, TaintEffect)| Taint {
            key: key.to_owned(),
            value: String::new(),
            effect,
        };
        Node {
            provider_id: provider_id.map(str::to_owned),
            ready,
            taints: taints.iter().map(taint).collect(),
            ..Node::default()
        }
    }

    fn ours(taints: &[(&str, TaintEffect)]) -> Node {
        node(Some("fake://1"), false, taints)
    }

    fn with_mark(node: Node) -> Node {
        let mark = (
            ANNOTATION_OUT_OF_SERVICE.to_owned(),
            OUT_OF_SERVICE_VALUE.to_owned(),
        );
        Node {
            annotations: [mark].into(),
            ..node
        }
    }

    /// Decides after this many equal answers, the first of which was given this long ago.
    fn after(
        node: &Node,
        presence: Presence,
        answers: u32,
        lasts: Duration,
        out_of_service: bool,
    ) -> Act {
        let since = Instant::now();
        decide(
            node,
            AnswerSeries {
                presence,
                answers,
                since,
            },
            since + lasts,
            PERIOD,
            out_of_service,
        )
    }

    // Holds: L-05, L-06, L-13
    #[test]
    fn only_own_nodes_that_are_not_ready_are_queried() {
        let decided = |changes: &[Change]| Precheck::Decided(changes.to_vec());
        for (id, ready, taints, expected) in [
            (Some("fake://1"), true, vec![], decided(&[])),
            (
                Some("fake://1"),
                true,
                vec![SHUTDOWN],
                decided(&[Change::RemoveShutdown]),
            ),
            (
                Some("fake://1"),
                true,
                vec![(TAINT_SHUTDOWN, TaintEffect::NoExecute)],
                decided(&[]),
            ),
            (Some("fake://1"), false, vec![], Precheck::Ask),
            (Some("fake://1"), false, vec![SHUTDOWN], Precheck::Ask),
            (Some("aws:///i-1"), false, vec![], decided(&[])),
            (Some("aws:///i-1"), true, vec![SHUTDOWN], decided(&[])),
            (None, false, vec![], decided(&[])),
            (None, true, vec![SHUTDOWN], decided(&[])),
        ] {
            assert_eq!(
                precheck(&node(id, ready, &taints), &info()),
                expected,
                "{id:?} ready={ready} {taints:?}"
            );
        }
    }

    #[test]
    fn a_node_that_is_not_checked_needs_nothing() {
        let stopped = [SHUTDOWN];
        for (node, expected) in [
            (node(Some("fake://1"), true, &[]), false),
            (node(None, true, &[OUT_OF_SERVICE]), false),
            (node(Some("fake://1"), true, &stopped), true),
            (with_mark(node(Some("fake://1"), true, &[])), true),
            (node(Some("fake://1"), false, &[]), true),
            (node(None, false, &[]), true),
        ] {
            assert_eq!(needs_check(&node), expected, "{node:?}");
            let nothing = precheck(&node, &info()) == Precheck::Decided(Vec::new());
            assert!(expected || (nothing && !unidentified(&node)), "{node:?}");
        }
    }

    // Holds: L-11, L-12
    #[test]
    fn nobody_knows_the_instance_of_a_node_without_provider_id() {
        for (id, ready, expected) in [
            (None, false, true),
            (None, true, false),
            (Some("fake://1"), false, false),
            (Some("aws:///i-1"), false, false),
        ] {
            assert_eq!(
                unidentified(&node(id, ready, &[])),
                expected,
                "{id:?} {ready}"
            );
        }
    }

    #[test]
    fn an_answer_counts_if_uid_provider_id_and_readiness_are_same() {
        let asked = ours(&[]);
        assert!(same_question(&asked, &ours(&[SHUTDOWN])));
        for other in [
            Node {
                uid: "another".into(),
                ..asked.clone()
            },
            Node {
                provider_id: Some("fake://2".into()),
                ..asked.clone()
            },
            Node {
                ready: true,
                ..asked.clone()
            },
        ] {
            assert!(!same_question(&asked, &other), "{other:?}");
        }
    }

    // Holds: L-08, L-12, SEC-07
    #[test]
    fn an_absence_counts_after_two_answers_one_period_apart() {
        let node = ours(&[SHUTDOWN]);
        for (answers, seconds, expected) in [
            (1, 0, Act::Confirm),
            (1, 3600, Act::Confirm),
            (2, 4, Act::Confirm),
            (2, 5, Act::Delete),
            (9, 60, Act::Delete),
        ] {
            let act = after(
                &node,
                Presence::Absent,
                answers,
                Duration::from_secs(seconds),
                false,
            );
            assert_eq!(act, expected, "{answers} answers in {seconds} s");
        }
    }

    // Holds: L-12
    #[test]
    fn an_uninitialized_node_has_ten_minutes_to_appear() {
        let node = ours(&[(TAINT_UNINITIALIZED, TaintEffect::NoSchedule)]);
        for (seconds, expected) in [(5, Act::Confirm), (599, Act::Confirm), (600, Act::Delete)] {
            let act = after(
                &node,
                Presence::Absent,
                100,
                Duration::from_secs(seconds),
                false,
            );
            assert_eq!(act, expected, "{seconds} s");
        }
    }

    // Holds: L-09
    #[test]
    fn the_shutdown_taint_follows_the_instance_of_an_unready_node() {
        for (presence, taints, expected) in [
            (Presence::Stopped, vec![], vec![Change::AddShutdown]),
            (Presence::Stopped, vec![SHUTDOWN], vec![]),
            (
                Presence::Stopped,
                vec![(TAINT_SHUTDOWN, TaintEffect::NoExecute)],
                vec![Change::AddShutdown],
            ),
            (
                Presence::Running,
                vec![SHUTDOWN],
                vec![Change::RemoveShutdown],
            ),
            (Presence::Running, vec![], vec![]),
        ] {
            let act = after(&ours(&taints), presence, 1, Duration::ZERO, false);
            assert_eq!(act, Act::Taint(expected), "{presence:?} {taints:?}");
        }
    }

    // Holds: L-15
    #[test]
    fn out_of_service_needs_the_option_and_two_stopped_answers() {
        let add = vec![Change::AddOutOfService];
        for (node, answers, wanted, expected) in [
            (ours(&[SHUTDOWN]), 2, true, add),
            (
                ours(&[]),
                2,
                true,
                vec![Change::AddShutdown, Change::AddOutOfService],
            ),
            (ours(&[SHUTDOWN]), 1, true, vec![]),
            (ours(&[SHUTDOWN]), 2, false, vec![]),
            (ours(&[SHUTDOWN, OUT_OF_SERVICE]), 2, true, vec![]),
            (with_mark(ours(&[SHUTDOWN])), 2, true, vec![]),
        ] {
            let act = after(&node, Presence::Stopped, answers, PERIOD, wanted);
            assert_eq!(act, Act::Taint(expected), "{node:?} {answers} {wanted}");
        }
        assert_eq!(
            after(&ours(&[SHUTDOWN]), Presence::Absent, 1, PERIOD, true),
            Act::Confirm
        );
    }

    // Holds: L-15
    #[test]
    fn our_own_out_of_service_taint_is_removed() {
        let taints = [SHUTDOWN, OUT_OF_SERVICE];
        let both = vec![Change::RemoveShutdown, Change::RemoveOutOfService];
        // Also if the option was switched off in the meantime.
        for out_of_service in [true, false] {
            let act = after(
                &with_mark(ours(&taints)),
                Presence::Running,
                1,
                Duration::ZERO,
                out_of_service,
            );
            assert_eq!(act, Act::Taint(both.clone()));
        }
        assert_eq!(
            precheck(&with_mark(node(Some("fake://1"), true, &taints)), &info()),
            Precheck::Decided(both)
        );
        assert_eq!(
            precheck(&node(Some("fake://1"), true, &taints), &info()),
            Precheck::Decided(vec![Change::RemoveShutdown])
        );
    }

    #[test]
    fn only_the_value_true_allows_a_deletion() {
        for (value, allowed) in [
            (None, false),
            (Some("true"), true),
            (Some("false"), false),
            (Some(""), false),
        ] {
            let annotation =
                value.map(|value| (ANNOTATION_ALLOW_DELETION.to_owned(), value.to_owned()));
            let node = Node {
                annotations: annotation.into_iter().collect(),
                ..Node::default()
            };
            assert_eq!(deletion_is_allowed(&node), allowed, "{value:?}");
        }
    }
}
