//! Goals for the ratio of Skydock's figures to the peer's. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use skydock_bench::as_f64;

use crate::scenario::{Figures, Kind, Stage};

/// A goal and its result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Goal {
    pub(crate) what: &'static str,
    /// The maximum ratio of Skydock's figure to the peer's.
    pub(crate) at_most: f64,
    /// The ratio, or `None` if the peer has no figure to compare with.
    pub(crate) found: Option<f64>,
    /// True if Skydock makes one call, which is the minimum.
    pub(crate) one_call: bool,
}

impl Goal {
    pub(crate) fn is_met(&self) -> bool {
        // Ratios are displayed with two digits and compared accordingly.
        self.one_call || self.found.is_none_or(|found| found <= self.at_most + 0.005)
    }
}

type Side = BTreeMap<Stage, Figures>;

/// Returns all goals for a cloud.
pub(crate) fn goals(kind: Kind, peer: &Side, skydock: &Side) -> Vec<Goal> {
    let part = |value: &dyn Fn(&Side) -> f64| {
        let peer = value(peer);
        (peer > 0.0).then(|| value(skydock) / peer)
    };
    let calls = |stages: &'static [Stage]| {
        part(&move |side| {
            stages
                .iter()
                .filter_map(|stage| side.get(stage))
                .map(|it| as_f64(it.all_calls()))
                .sum()
        })
    };
    let most = |bytes: fn(&Figures) -> u64| {
        part(&|side| as_f64(side.values().map(bytes).max().unwrap_or_default()))
    };
    let tenth = 0.1;
    let third = 1.0 / 3.0;
    let time = match kind {
        Kind::Openstack => third,
        Kind::Aws => 0.67,
    };
    let goal = |what, at_most, found| Goal {
        what,
        at_most,
        found,
        one_call: false,
    };
    let at_rest = skydock.get(&Stage::Rest).map(Figures::all_calls);
    vec![
        goal("calls to initialize nodes", tenth, calls(&[Stage::Nodes])),
        // With few nodes, upstream needs few calls, and Skydock's minimum is one call for all of
        // them.
        Goal {
            one_call: at_rest == Some(1),
            ..goal("calls at rest", tenth, calls(&[Stage::Rest]))
        },
        goal("calls to ensure services", 1.0, calls(&[Stage::Services])),
        goal("calls to change services", 1.0, calls(&[Stage::Change])),
        goal("calls to delete services", 1.0, calls(&[Stage::Delete])),
        goal(
            "time to initialize nodes",
            time,
            part(&|side| {
                side.get(&Stage::Nodes)
                    .and_then(|it| it.seconds)
                    .unwrap_or_default()
            }),
        ),
        goal("peak memory", third, most(|it| it.peak_bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(calls: u64, seconds: f64, peak_bytes: u64) -> Side {
        let figures = Figures {
            seconds: Some(seconds),
            calls: BTreeMap::from([("x".to_owned(), calls)]),
            peak_bytes,
            peak_anonymous_bytes: peak_bytes / 2,
            ..Figures::default()
        };
        Stage::ALL
            .into_iter()
            .map(|stage| (stage, figures.clone()))
            .collect()
    }

    fn missed(kind: Kind, skydock: &Side) -> Vec<&'static str> {
        let all = goals(kind, &side(100, 10.0, 300), skydock);
        all.iter()
            .filter(|goal| !goal.is_met())
            .map(|goal| goal.what)
            .collect()
    }

    #[test]
    fn a_tenth_of_the_calls_and_a_third_of_the_memory_are_enough() {
        assert_eq!(
            missed(Kind::Openstack, &side(10, 3.3, 100)),
            [] as [&str; 0]
        );
        assert_eq!(missed(Kind::Aws, &side(10, 6.7, 100)), [] as [&str; 0]);
        assert_eq!(
            missed(Kind::Openstack, &side(10, 6.7, 100)),
            ["time to initialize nodes"]
        );
    }

    #[test]
    fn one_call_at_rest_always_meets_the_goal() {
        let rest = |calls| goals(Kind::Aws, &side(3, 1.0, 3), &side(calls, 0.1, 1)).swap_remove(1);
        assert!(rest(1).is_met() && rest(0).is_met());
        assert!(!rest(2).is_met());
    }

    #[test]
    fn exceeding_each_limit_misses_its_goal() {
        let all = missed(Kind::Aws, &side(101, 8.0, 120));
        assert_eq!(all.len(), 7, "{all:?}");
    }

    #[test]
    fn goals_without_figures_of_the_peer_are_met() {
        let none = goals(Kind::Aws, &side(0, 0.0, 0), &side(1, 1.0, 1));
        assert!(
            none.iter()
                .all(|goal| goal.found.is_none() && goal.is_met())
        );
    }
}
