//! Stops a mass deletion of nodes, which is more often a mistake (of a cloud, of its credentials, of a plugin) than a wish.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;

/// How many nodes may be deleted in a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrakeOptions {
    /// Most nodes (`--node-deletion-limit`); with 0, none is deleted but those that an operator allows.
    pub limit: usize,
    /// Most nodes, in percent of the cluster's (`--node-deletion-share`); of a small cluster, up to ten nodes may go as
    /// long as half of it stays. With 0, none is deleted but those that an operator allows.
    pub share_percent: u8,
    /// The while (`--node-deletion-interval`).
    pub interval: Duration,
}

/// An autoscaler may well take this many nodes from a small cluster, where they are a large share.
const SMALL: usize = 10;

impl Default for BrakeOptions {
    /// A quarter of a cluster, and never more than a large zone.
    fn default() -> Self {
        Self { limit: 500, share_percent: 25, interval: Duration::from_secs(600) }
    }
}

impl BrakeOptions {
    /// Most nodes of a cluster of this size that may be deleted within the interval.
    #[must_use]
    pub fn most(&self, nodes: usize) -> usize {
        if self.share_percent == 0 {
            return 0;
        }
        let share = nodes.saturating_mul(usize::from(self.share_percent)) / 100;
        share.max(SMALL.min(nodes / 2)).min(self.limit)
    }

    /// Decides about deleting this many candidates of so many nodes that there are, after so many were deleted within the
    /// interval: all of them or none. A part of them would be as wrong as all, if the cloud is wrong.
    ///
    /// # Errors
    ///
    /// If none may be deleted, with the reason.
    pub fn judge(&self, candidates: usize, nodes: usize, deleted: usize) -> Result<(), Stopped> {
        // The share is one of the cluster as it was before: else each deletion would lower it for the next.
        let before = nodes.saturating_add(deleted);
        let most = self.most(before);
        let wanted = candidates.saturating_add(deleted);
        if wanted <= most { Ok(()) } else { Err(Stopped { wanted, nodes: before, most, interval: self.interval }) }
    }

    /// As [`BrakeOptions::judge`], while so many nodes more are still asked about.
    #[must_use]
    pub fn judge_early(&self, candidates: usize, open: usize, nodes: usize, deleted: usize) -> Verdict {
        match self.judge(candidates, nodes, deleted) {
            Err(stopped) => Verdict::Stop(stopped),
            Ok(()) if self.judge(candidates.saturating_add(open), nodes, deleted).is_ok() => Verdict::Go,
            Ok(()) => Verdict::Wait,
        }
    }
}

/// What is to be done with the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Delete them.
    Go,
    /// With those that are still asked about, they may be too many.
    Wait,
    /// They are too many.
    Stop(Stopped),
}

/// Why no candidate is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} of {nodes} nodes would be deleted within {interval:?}, and at most {most} may be")]
pub struct Stopped {
    wanted: usize,
    nodes: usize,
    most: usize,
    interval: Duration,
}

/// Which nodes were deleted, by UID, and when. It is lost at a restart: that gives a new allowance, after each node's absence
/// has been said anew as often and as long as ever.
///
/// What was tried counts: the answer may be lost, and the cache may show a node for a while after it is gone.
#[derive(Debug, Default)]
pub struct History(HashMap<String, Instant>);

impl History {
    /// Counts a deletion that is about to be tried, for the first time or again.
    pub fn add(&mut self, uid: &str, now: Instant) {
        self.0.insert(uid.to_owned(), now);
    }

    /// Forgets what is longer ago than the interval, and gives the UIDs of the others.
    pub fn within(&mut self, interval: Duration, now: Instant) -> HashSet<String> {
        self.0.retain(|_, at| now.saturating_duration_since(*at) < interval);
        self.0.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_may_go_half_of_a_small_cluster_and_never_all() {
        let options = BrakeOptions::default();
        for (nodes, most) in
            [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (8, 4), (20, 10), (39, 10), (100, 25), (2000, 500), (5000, 500)]
        {
            assert_eq!(options.most(nodes), most, "{nodes} nodes");
        }
        assert_eq!(BrakeOptions { share_percent: 100, ..options }.most(40), 40);
        assert_eq!(BrakeOptions { share_percent: 0, ..options }.most(40), 0);
        assert_eq!(BrakeOptions { share_percent: 1, ..options }.most(40), 10);
        assert_eq!(BrakeOptions { limit: 0, ..options }.most(40), 0);
    }

    // Holds: OPS-17, OPS-18, OPS-19, OPS-20
    #[test]
    fn too_many_candidates_with_those_just_deleted_stop_all_of_them() {
        let options = BrakeOptions::default();
        for (candidates, nodes, deleted, goes) in [
            (25, 100, 0, true),
            (26, 100, 0, false),
            (5, 80, 20, true),
            (6, 80, 20, false),
            (4, 8, 0, true),
            (5, 8, 0, false),
            (1, 1, 0, false),
            (1, 2, 0, true),
            (2, 3, 0, false),
            (1, 3, 1, true),
            (2, 3, 1, false),
            (0, 0, 0, true),
            (500, 5000, 0, true),
            (501, 5000, 0, false),
        ] {
            assert_eq!(options.judge(candidates, nodes, deleted).is_ok(), goes, "{candidates} {nodes} {deleted}");
        }
        let stopped = options.judge(20, 70, 10).unwrap_err();
        assert_eq!(stopped.to_string(), "30 of 80 nodes would be deleted within 600s, and at most 20 may be");
    }

    #[test]
    fn while_others_are_asked_about_only_what_is_right_in_any_case_is_done() {
        let options = BrakeOptions::default();
        let judge = |candidates, open| options.judge_early(candidates, open, 100, 0);
        assert_eq!(judge(5, 20), Verdict::Go);
        assert_eq!(judge(5, 21), Verdict::Wait);
        assert_eq!(judge(25, 0), Verdict::Go);
        assert!(matches!(judge(26, 0), Verdict::Stop(_)));
        assert!(matches!(judge(26, 50), Verdict::Stop(_)));
    }

    #[test]
    fn a_deletion_counts_for_the_interval_and_one_that_is_tried_again_counts_once() {
        let (start, interval) = (Instant::now(), Duration::from_secs(600));
        let mut history = History::default();
        history.add("a", start);
        history.add("b", start);
        history.add("b", start + Duration::from_secs(60));
        let mut at = |second| history.within(interval, start + Duration::from_secs(second));
        assert_eq!(at(599), HashSet::from(["a".to_owned(), "b".to_owned()]));
        assert_eq!(at(600), HashSet::from(["b".to_owned()]));
        assert_eq!(at(660), HashSet::new());
    }
}
