//! Stops mass deletions of nodes, which are usually a mistake of a cloud, its credentials or a
//! plugin.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use skydock_cloud::units::duration;
use tokio::time::Instant;

/// How many nodes may be deleted within an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrakeOptions {
    /// Maximum number of nodes (`--node-deletion-limit`). If 0, only nodes whose deletion an
    /// operator has allowed are deleted.
    pub limit: usize,
    /// Maximum number of nodes, in percent of the provider's nodes (`--node-deletion-share`). In a
    /// small cluster, up to ten nodes may be deleted as long as half of the nodes remain. If 0,
    /// only nodes whose deletion an operator has allowed are deleted.
    pub share_percent: u8,
    /// The interval (`--node-deletion-interval`).
    pub interval: Duration,
}

/// An autoscaler may remove this many nodes from a small cluster, where they are a large share.
const SMALL: usize = 10;

impl Default for BrakeOptions {
    /// A quarter of the cluster, but not more than the nodes of a large zone.
    fn default() -> Self {
        Self {
            limit: 500,
            share_percent: 25,
            interval: Duration::from_secs(600),
        }
    }
}

impl BrakeOptions {
    /// Returns the maximum number of nodes that may be deleted within the interval in a cluster of
    /// this size.
    #[must_use]
    pub fn most(&self, nodes: usize) -> usize {
        if self.share_percent == 0 {
            return 0;
        }
        let share = nodes.saturating_mul(usize::from(self.share_percent)) / 100;
        share.max(SMALL.min(nodes / 2)).min(self.limit)
    }

    /// Decides whether these candidates may be deleted, in a cluster with `nodes` remaining nodes,
    /// after `deleted` nodes were deleted within the interval: either all or none. If the cloud is
    /// wrong, deleting some of them would be as wrong as deleting all.
    ///
    /// # Errors
    ///
    /// Returns the reason if none may be deleted.
    pub fn decide(
        &self,
        candidates: usize,
        nodes: usize,
        deleted: usize,
    ) -> Result<(), LimitExceeded> {
        // The share refers to the original size of the cluster: otherwise each deletion would lower
        // the limit for the next.
        let before = nodes.saturating_add(deleted);
        let most = self.most(before);
        let wanted = candidates.saturating_add(deleted);

        if wanted <= most {
            Ok(())
        } else {
            Err(LimitExceeded {
                wanted,
                nodes: before,
                most,
                interval: self.interval,
            })
        }
    }

    /// Like [`BrakeOptions::decide`], while the answers about `unanswered` other nodes are still missing.
    #[must_use]
    pub fn decide_early(
        &self,
        candidates: usize,
        unanswered: usize,
        nodes: usize,
        deleted: usize,
    ) -> DeletionDecision {
        match self.decide(candidates, nodes, deleted) {
            Err(exceeded) => DeletionDecision::Hold(exceeded),
            Ok(())
                if self
                    .decide(candidates.saturating_add(unanswered), nodes, deleted)
                    .is_ok() =>
            {
                DeletionDecision::Delete
            }
            Ok(()) => DeletionDecision::Wait,
        }
    }
}

/// Decision about the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionDecision {
    /// Delete the candidates.
    Delete,
    /// Wait: together with the nodes whose answers are missing, they may exceed the limit.
    Wait,
    /// The candidates exceed the limit.
    Hold(LimitExceeded),
}

/// Why no candidate is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "deleting {wanted} of {nodes} nodes within {} exceeds the limit of {most} (--node-deletion-limit, --node-deletion-share)",
    duration(*.interval)
)]
pub struct LimitExceeded {
    wanted: usize,
    nodes: usize,
    most: usize,
    interval: Duration,
}

/// UIDs of deleted nodes, and the times of their deletion. It is lost when the process restarts,
/// which makes new deletions possible; but before that, the cloud must confirm each missing
/// instance again, as often and as long as usual.
///
/// Attempts are counted: an answer may be lost, and the cache may contain a node for a while after
/// its deletion.
#[derive(Debug, Default)]
pub struct History(HashMap<String, Instant>);

impl History {
    /// Records an attempt to delete a node, whether the first or a later one.
    pub fn add(&mut self, uid: &str, now: Instant) {
        self.0.insert(uid.to_owned(), now);
    }

    /// Removes entries that are older than the interval, and returns the UIDs of the others.
    pub fn within(&mut self, interval: Duration, now: Instant) -> HashSet<String> {
        self.0
            .retain(|_, at| now.saturating_duration_since(*at) < interval);
        self.0.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_share_or_half_of_a_small_cluster() {
        let options = BrakeOptions::default();
        for (nodes, most) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 1),
            (4, 2),
            (8, 4),
            (20, 10),
            (39, 10),
            (100, 25),
            (2000, 500),
            (5000, 500),
        ] {
            assert_eq!(options.most(nodes), most, "{nodes} nodes");
        }
        assert_eq!(
            BrakeOptions {
                share_percent: 100,
                ..options
            }
            .most(40),
            40
        );
        assert_eq!(
            BrakeOptions {
                share_percent: 0,
                ..options
            }
            .most(40),
            0
        );
        assert_eq!(
            BrakeOptions {
                share_percent: 1,
                ..options
            }
            .most(40),
            10
        );
        assert_eq!(
            BrakeOptions {
                limit: 0,
                ..options
            }
            .most(40),
            0
        );
    }

    #[test]
    fn too_many_candidates_and_recent_deletions_stop_all() {
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
            assert_eq!(
                options.decide(candidates, nodes, deleted).is_ok(),
                goes,
                "{candidates} {nodes} {deleted}"
            );
        }
        let stopped = options.decide(20, 70, 10).unwrap_err();
        assert_eq!(
            stopped.to_string(),
            "deleting 30 of 80 nodes within 10m exceeds the limit of 20 (--node-deletion-limit, --node-deletion-share)"
        );
    }

    #[test]
    fn deletions_wait_while_open_queries_could_exceed_the_limit() {
        let options = BrakeOptions::default();
        let decide = |candidates, open| options.decide_early(candidates, open, 100, 0);
        assert_eq!(decide(5, 20), DeletionDecision::Delete);
        assert_eq!(decide(5, 21), DeletionDecision::Wait);
        assert_eq!(decide(25, 0), DeletionDecision::Delete);
        assert!(matches!(decide(26, 0), DeletionDecision::Hold(_)));
        assert!(matches!(decide(26, 50), DeletionDecision::Hold(_)));
    }

    #[test]
    fn a_retried_deletion_counts_once_within_the_interval() {
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
