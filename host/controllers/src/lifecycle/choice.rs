//! Decides which condemned nodes are deleted now.

use std::collections::HashSet;

use skydock_kube::events::REMINDER_PERIOD;
use tokio::time::Instant;

use super::{
    NodeEntry,
    brake::{BrakeOptions, Verdict},
    memory::LifecycleMemory,
    plan,
};

/// What to do about the condemned nodes.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) verdict: Verdict,
    /// Nodes to delete.
    pub(super) going: Vec<NodeEntry>,
    /// Number of nodes that are not deleted because they are too many.
    pub(super) held: usize,
    /// Those of them that get an event.
    pub(super) reported: Vec<NodeEntry>,
}

/// Returns true if [`choose`] would let a node go as far as its answer is concerned.
pub(super) fn would_delete(
    nodes: &[NodeEntry],
    deleted: &HashSet<String>,
    brake: &BrakeOptions,
    memory: &LifecycleMemory,
) -> bool {
    let (condemned, verdict) = judge(nodes, deleted, 0, brake, memory);
    let is_new = |entry: &&NodeEntry| memory.get(entry.uid()).is_some_and(|known| known.doomed);
    verdict == Verdict::Go && condemned.iter().any(is_new)
}

/// Returns the condemned nodes, and whether they are too many.
fn judge<'a>(
    nodes: &'a [NodeEntry],
    deleted: &HashSet<String>,
    denied: usize,
    brake: &BrakeOptions,
    memory: &LifecycleMemory,
) -> (Vec<&'a NodeEntry>, Verdict) {
    let counted = |entry: &NodeEntry| deleted.contains(entry.uid());
    let leaving = |entry: &NodeEntry| entry.object.deletion_timestamp.is_some();

    let mut condemned = Vec::new();
    let mut open = 0;
    for entry in nodes {
        match memory.get(entry.uid()) {
            Some(known) if known.condemned => condemned.push(entry),
            Some(known) if known.is_open() && !counted(entry) && !leaving(entry) => open += 1,
            _ => {}
        }
    }

    let candidates = condemned.iter().filter(|entry| !counted(entry)).count();
    let others = nodes.iter().filter(|entry| !counted(entry)).count();
    // Ready nodes are no candidates, and only count beside nodes that are.
    let denied = if condemned.is_empty() { 0 } else { denied };

    let verdict = brake.judge_early(candidates + denied, open, others, deleted.len());
    (condemned, verdict)
}

/// Decides about the nodes that the last answers have condemned. If they are too many, only those
/// are deleted that an operator has allowed, and those whose deletion was attempted before. All of
/// them count, so that allowing a few does not release the others.
///
/// It need not be known for every node that is not ready whether its instance exists: if the limit
/// would not be exceeded even if none did, no more answers are waited for.
///
/// `deleted` has the UIDs of nodes whose deletion was attempted within the interval, and `denied` is
/// the number of ready nodes whose instances the cloud does not know either. Each decision to delete
/// a node, or to hold it with an event, is made once for each answer; this is recorded in `memory`.
pub(super) fn choose(
    nodes: &[NodeEntry],
    deleted: &HashSet<String>,
    denied: usize,
    brake: &BrakeOptions,
    memory: &mut LifecycleMemory,
    now: Instant,
) -> Choice {
    let counted = |entry: &NodeEntry| deleted.contains(entry.uid());
    let (condemned, verdict) = judge(nodes, deleted, denied, brake, memory);

    let goes = |entry: &NodeEntry| {
        verdict == Verdict::Go || plan::deletion_is_allowed(&entry.view) || counted(entry)
    };
    let stopped = matches!(verdict, Verdict::Stop(_));
    let held = if stopped {
        condemned.iter().filter(|entry| !goes(entry)).count()
    } else {
        0
    };

    let mut choice = Choice {
        verdict,
        going: Vec::new(),
        held,
        reported: Vec::new(),
    };

    for entry in condemned {
        let known = memory.entry(entry.uid());
        if !known.doomed || (verdict == Verdict::Wait && !goes(entry)) {
            continue;
        }

        known.doomed = false;
        if goes(entry) {
            known.going = true;
            choice.going.push(entry.clone());
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

    /// Returns this many nodes, of which the first ones are condemned by the last answer, and the
    /// following ones are in question.
    fn cluster(
        nodes: usize,
        condemned: usize,
        open: usize,
        now: Instant,
    ) -> (Vec<NodeEntry>, LifecycleMemory) {
        let mut memory = LifecycleMemory::default();
        let entries: Vec<NodeEntry> = (0..nodes)
            .map(|n| Arc::new(Entry::new(node(&format!("n{n}")))))
            .collect();
        for entry in &entries[..condemned] {
            memory.entry(entry.uid()).answer(Presence::Absent, now, now);
            memory.entry(entry.uid()).condemn(false);
        }
        for entry in &entries[condemned..condemned + open] {
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
        for (condemned, open, deleted, going, held) in [
            (0, 0, 0, 0, 0),
            (25, 0, 0, 25, 0),
            (26, 0, 0, 0, 26),
            (20, 5, 0, 20, 0),
            (20, 6, 0, 0, 0),
            (26, 6, 0, 0, 26),
            (20, 0, 5, 20, 0),
            (20, 0, 8, 0, 20),
        ] {
            let (nodes, mut memory) = cluster(100, condemned, open, now);
            let deleted = (0..deleted).map(|n| format!("gone-{n}")).collect();
            let choice = choose(&nodes, &deleted, 0, &brake, &mut memory, now);
            assert_eq!(
                (choice.going.len(), choice.held),
                (going, held),
                "{condemned} {open} {deleted:?}"
            );
            assert_eq!(
                choice.reported.len(),
                held,
                "{condemned} {open} {deleted:?}"
            );
            let goes = (0..100)
                .filter(|n| memory.goes(&format!("uid-n{n}")))
                .count();
            assert_eq!(goes, going, "{condemned} {open} {deleted:?}");
        }
    }

    #[test]
    fn allowed_and_attempted_nodes_go_and_still_count() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        for open in [0, 3] {
            let (mut nodes, mut memory) = cluster(10, 6 - open, open, now);
            let allowed = json!({"metadata": {"annotations": {ANNOTATION_ALLOW_DELETION: "true"}}});
            nodes[1] = Arc::new(Entry::new(with(&node("n1"), &allowed)));
            let deleted = HashSet::from(["uid-n2".to_owned()]);
            let choice = choose(&nodes, &deleted, 0, &brake, &mut memory, now);
            assert_eq!(names(&choice.going), ["n1", "n2"], "{open} open");
            let held = if open == 0 {
                vec!["n0", "n3", "n4", "n5"]
            } else {
                vec![]
            };
            assert_eq!(
                (names(&choice.reported), choice.held),
                (held.clone(), held.len()),
                "{open} open"
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
            choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now).verdict,
            Verdict::Go
        );

        let (nodes, mut memory) = cluster(100, 20, 6, now);
        assert_eq!(
            choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now).verdict,
            Verdict::Wait
        );

        // The deletion of one of those in question was attempted before: it counts already.
        let (nodes, mut memory) = cluster(100, 20, 5, now);
        let attempted = HashSet::from([nodes[20].uid().to_owned()]);
        assert_eq!(
            choose(&nodes, &attempted, 0, &brake, &mut memory, now).verdict,
            Verdict::Go
        );
    }

    #[test]
    fn nodes_that_wait_for_confirmation_are_waited_for() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        for (absent, expected) in [(5, Verdict::Go), (6, Verdict::Wait)] {
            let (nodes, mut memory) = cluster(100, 20, 0, now);
            for entry in &nodes[20..20 + absent] {
                memory.entry(entry.uid()).answer(Presence::Absent, now, now);
            }
            let choice = choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now);
            assert_eq!(choice.verdict, expected, "{absent}");
        }
    }

    #[test]
    fn ready_nodes_that_the_cloud_denies_count() {
        let (brake, now) = (BrakeOptions::default(), Instant::now());
        for (denied, going) in [(0, 20), (5, 20), (6, 0)] {
            let (nodes, mut memory) = cluster(100, 20, 0, now);
            assert!(would_delete(&nodes, &HashSet::new(), &brake, &memory));
            let choice = choose(&nodes, &HashSet::new(), denied, &brake, &mut memory, now);
            assert_eq!(
                (choice.going.len(), choice.held),
                (going, 20 - going),
                "{denied}"
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
                .going
                .len(),
            5
        );
        assert_eq!(
            choose(&nodes, &nobody, 0, &brake, &mut memory, now)
                .going
                .len(),
            0
        );

        // Those that have to wait are decided about when the others have answered.
        let (nodes, mut memory) = cluster(100, 20, 6, now);
        assert_eq!(
            choose(&nodes, &nobody, 0, &brake, &mut memory, now)
                .going
                .len(),
            0
        );

        nodes[20..26]
            .iter()
            .for_each(|entry| memory.forget(entry.uid()));
        assert_eq!(
            choose(&nodes, &nobody, 0, &brake, &mut memory, now)
                .going
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
            memory.entry("uid-n0").condemn(false);
            let choice = choose(&nodes, &HashSet::new(), 0, &brake, &mut memory, now);
            assert_eq!(choice.held, 1);
            reported.extend(choice.reported.iter().map(|_| minutes));
        }
        assert_eq!(reported, [0, 30, 60]);
    }
}
