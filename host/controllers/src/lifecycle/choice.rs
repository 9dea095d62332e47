//! Decides which of the nodes that are marked for deletion are deleted now.

use std::collections::HashSet;

use skydock_kube::events::REMINDER_PERIOD;
use tokio::time::Instant;

use super::{
    NodeEntry,
    brake::{BrakeOptions, DeletionDecision},
    memory::LifecycleMemory,
    plan,
};

/// What to do about the nodes that are marked for deletion.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) decision: DeletionDecision,
    /// Nodes to delete.
    pub(super) released: Vec<NodeEntry>,
    /// Number of nodes that are not deleted because they are too many.
    pub(super) held: usize,
    /// Those of them that get an event.
    pub(super) reported: Vec<NodeEntry>,
}

/// Returns true if a node would be deleted, provided that the cloud knows the instances of the ready
/// nodes.
pub(super) fn would_delete(
    nodes: &[NodeEntry],
    deleted: &HashSet<String>,
    brake: &BrakeOptions,
    memory: &LifecycleMemory,
) -> bool {
    let (marked, decision) = decide(nodes, deleted, 0, brake, memory);
    let is_new = |entry: &&NodeEntry| memory.get(entry.uid()).is_some_and(|known| known.undecided);
    decision == DeletionDecision::Delete && marked.iter().any(is_new)
}

/// Returns the marked nodes, and whether they are too many.
fn decide<'a>(
    nodes: &'a [NodeEntry],
    deleted: &HashSet<String>,
    ready_but_absent: usize,
    brake: &BrakeOptions,
    memory: &LifecycleMemory,
) -> (Vec<&'a NodeEntry>, DeletionDecision) {
    let was_attempted = |entry: &NodeEntry| deleted.contains(entry.uid());
    let is_leaving = |entry: &NodeEntry| entry.object.deletion_timestamp.is_some();

    let mut marked = Vec::new();
    let mut unanswered = 0;
    for entry in nodes {
        match memory.get(entry.uid()) {
            Some(known) if known.marked => marked.push(entry),
            Some(known)
                if known.may_be_marked_soon() && !was_attempted(entry) && !is_leaving(entry) =>
            {
                unanswered += 1;
            }
            _ => {}
        }
    }

    let candidates = marked.iter().filter(|entry| !was_attempted(entry)).count();
    let others = nodes.iter().filter(|entry| !was_attempted(entry)).count();
    // Ready nodes are no candidates, and only count beside nodes that are.
    let ready_but_absent = if marked.is_empty() {
        0
    } else {
        ready_but_absent
    };

    let decision = brake.decide_early(
        candidates + ready_but_absent,
        unanswered,
        others,
        deleted.len(),
    );
    (marked, decision)
}

/// Decides about the nodes that the last answers have marked. If they are too many, only those are
/// deleted that an operator has allowed, and those whose deletion was attempted before. All of them
/// count, so that allowing a few does not release the others.
///
/// It need not be known for every node that is not ready whether its instance exists: if the limit
/// would not be exceeded even if none did, no more answers are waited for.
///
/// `deleted` has the UIDs of nodes whose deletion was attempted within the interval, and
/// `ready_but_absent` is the number of ready nodes whose instances the cloud does not know either.
/// Each decision to delete a node, or to hold it with an event, is made once for each answer; this
/// is recorded in `memory`.
pub(super) fn choose(
    nodes: &[NodeEntry],
    deleted: &HashSet<String>,
    ready_but_absent: usize,
    brake: &BrakeOptions,
    memory: &mut LifecycleMemory,
    now: Instant,
) -> Choice {
    let was_attempted = |entry: &NodeEntry| deleted.contains(entry.uid());
    let (marked, decision) = decide(nodes, deleted, ready_but_absent, brake, memory);

    let is_released = |entry: &NodeEntry| {
        decision == DeletionDecision::Delete
            || plan::deletion_is_allowed(&entry.view)
            || was_attempted(entry)
    };
    let are_held = matches!(decision, DeletionDecision::Hold(_));
    let held = if are_held {
        marked.iter().filter(|entry| !is_released(entry)).count()
    } else {
        0
    };

    let mut choice = Choice {
        decision,
        released: Vec::new(),
        held,
        reported: Vec::new(),
    };

    for entry in marked {
        let known = memory.entry(entry.uid());
        if !known.undecided || (decision == DeletionDecision::Wait && !is_released(entry)) {
            continue;
        }

        known.undecided = false;
        if is_released(entry) {
            known.released = true;
            choice.released.push(entry.clone());
        } else if known
            .reported
            .is_none_or(|reported| now.duration_since(reported) >= REMINDER_PERIOD)
        {
            known.reported = Some(now);
            choice.reported.push(entry.clone());
        }
    }

    choice
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use serde_json::json;
    use skydock_cloud::Presence;
    use skydock_controller_base::{
        objects::constants::ANNOTATION_ALLOW_DELETION,
        testing::{node, with},
    };
    use skydock_kube::informer::Entry;

    use super::*;

    /// Returns this many nodes, of which the first ones are marked by the last answer, and the
    /// following ones are in question.
    fn cluster(
        nodes: usize,
        marked: usize,
        unanswered: usize,
        now: Instant,
    ) -> (Vec<NodeEntry>, LifecycleMemory) {
        let mut memory = LifecycleMemory::default();
        let entries: Vec<NodeEntry> = (0..nodes)
            .map(|n| Arc::new(Entry::new(node(&format!("n{n}")))))
            .collect();
        for entry in &entries[..marked] {
            memory.entry(entry.uid()).answer(Presence::Absent, now, now);
            memory.entry(entry.uid()).mark_for_deletion(false);
        }
        for entry in &entries[marked..marked + unanswered] {
            memory.ask(entry.uid(), &entry.view, now).unwrap();
        }
        (entries, memory)
    }

    fn names(nodes: &[NodeEntry]) -> Vec<&str> {
        nodes.iter().map(|entry| entry.name()).collect()
    }

    #[test]
    fn all_condemned_nodes_go_or_all_are_held() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        for (marked, unanswered, deleted, released, held) in [
            (0, 0, 0, 0, 0),
            (25, 0, 0, 25, 0),
            (26, 0, 0, 0, 26),
            (20, 5, 0, 20, 0),
            (20, 6, 0, 0, 0),
            (26, 6, 0, 0, 26),
            (20, 0, 5, 20, 0),
            (20, 0, 8, 0, 20),
        ] {
            let (nodes, mut memory) = cluster(100, marked, unanswered, now);
            let deleted = (0..deleted).map(|n| format!("gone-{n}")).collect();
            let choice = choose(&nodes, &deleted, 0, &brake, &mut memory, now);
            assert_eq!(
                (choice.released.len(), choice.held),
                (released, held),
                "{marked} {unanswered} {deleted:?}"
            );
            assert_eq!(
                choice.reported.len(),
                held,
                "{marked} {unanswered} {deleted:?}"
            );
            let taken = (0..100)
                .filter(|n| memory.take_released(&format!("uid-n{n}")))
                .count();
            assert_eq!(taken, released, "{marked} {unanswered} {deleted:?}");
        }
    }

    #[test]
    fn allowed_and_attempted_nodes_go_and_still_count() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        for unanswered in [0, 3] {
            let (mut nodes, mut memory) = cluster(10, 6 - unanswered, unanswered, now);
            let allowed = json!({"metadata": {"annotations": {ANNOTATION_ALLOW_DELETION: "true"}}});
            nodes[1] = Arc::new(Entry::new(with(&node("n1"), &allowed)));
            let deleted = HashSet::from(["uid-n2".to_owned()]);
            let choice = choose(&nodes, &deleted, 0, &brake, &mut memory, now);
            assert_eq!(
                names(&choice.released),
                ["n1", "n2"],
                "{unanswered} unanswered"
            );
            let held = if unanswered == 0 {
                vec!["n0", "n3", "n4", "n5"]
            } else {
                vec![]
            };
            assert_eq!(
                (names(&choice.reported), choice.held),
                (held.clone(), held.len()),
                "{unanswered} unanswered"
            );
        }
    }

    #[test]
    fn only_unanswered_nodes_that_may_count_are_waited_for() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        // With five more, the limit of 25 would be reached, and with six exceeded.
        let (nodes, mut memory) = cluster(100, 20, 5, now);
        memory
            .entry(nodes[30].uid())
            .answer(Presence::Running, now, now);
        assert_eq!(
            choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now).decision,
            DeletionDecision::Delete
        );

        let (nodes, mut memory) = cluster(100, 20, 6, now);
        assert_eq!(
            choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now).decision,
            DeletionDecision::Wait
        );

        // The deletion of one of those in question was attempted before: it counts already.
        let (nodes, mut memory) = cluster(100, 20, 5, now);
        let attempted = HashSet::from([nodes[20].uid().to_owned()]);
        assert_eq!(
            choose(&nodes, &attempted, 0, &brake, &mut memory, now).decision,
            DeletionDecision::Delete
        );
    }

    #[test]
    fn nodes_that_wait_for_confirmation_are_waited_for() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        for (absent, expected) in [(5, DeletionDecision::Delete), (6, DeletionDecision::Wait)] {
            let (nodes, mut memory) = cluster(100, 20, 0, now);
            for entry in &nodes[20..20 + absent] {
                memory.entry(entry.uid()).answer(Presence::Absent, now, now);
            }
            let choice = choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now);
            assert_eq!(choice.decision, expected, "{absent}");
        }
    }

    #[test]
    fn ready_nodes_that_the_cloud_denies_count() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        for (ready_but_absent, released) in [(0, 20), (5, 20), (6, 0)] {
            let (nodes, mut memory) = cluster(100, 20, 0, now);
            assert!(would_delete(&nodes, &HashSet::new(), &brake, &memory));
            let choice = choose(
                &nodes,
                &HashSet::new(),
                ready_but_absent,
                &brake,
                &mut memory,
                now,
            );
            assert_eq!(
                (choice.released.len(), choice.held),
                (released, 20 - released),
                "{ready_but_absent}"
            );
            assert!(!would_delete(&nodes, &HashSet::new(), &brake, &memory));
        }
    }

    #[test]
    fn each_answer_is_acted_upon_once() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        let nobody = HashSet::new();
        let (nodes, mut memory) = cluster(100, 5, 0, now);
        assert_eq!(
            choose(&nodes, &nobody, 0, &brake, &mut memory, now)
                .released
                .len(),
            5
        );
        assert_eq!(
            choose(&nodes, &nobody, 0, &brake, &mut memory, now)
                .released
                .len(),
            0
        );

        // Those that have to wait are decided about when the others have answered.
        let (nodes, mut memory) = cluster(100, 20, 6, now);
        assert_eq!(
            choose(&nodes, &nobody, 0, &brake, &mut memory, now)
                .released
                .len(),
            0
        );

        nodes[20..26]
            .iter()
            .for_each(|entry| memory.forget(entry.uid()));
        assert_eq!(
            choose(&nodes, &nobody, 0, &brake, &mut memory, now)
                .released
                .len(),
            20
        );
    }

    #[test]
    fn a_held_node_is_reported_again_after_a_while() {
        let (brake, start) = (BrakeOptions::default(), Instant::now());
        let (nodes, mut memory) = cluster(1, 1, 0, start);
        let mut reported = Vec::new();
        for minutes in 0..=70 {
            let now = start + Duration::from_secs(60 * minutes);
            memory.entry("uid-n0").mark_for_deletion(false);
            let choice = choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now);
            assert_eq!(choice.held, 1);
            reported.extend(choice.reported.iter().map(|_| minutes));
        }
        assert_eq!(reported, [0, 30, 60]);
    }
}
