//! The goals for large clusters, and whether they are met.

use serde::Serialize;
use skydock_bench::mebibytes;

use crate::cost::Row;
use crate::run::Rows;
use crate::scenario::{Scenario, Size};

/// The factor by which the costs may grow more than linearly: trees are deeper, and caches are
/// missed more often.
const SLACK: f64 = 1.2;
/// The minimum number of nodes of the runs to which the memory goal applies.
const MANY_NODES: u32 = 100_000;
/// The maximum memory in bytes of these runs.
const MEMORY: u64 = 1 << 30;
/// The resolution of CPU times of the kernel in seconds.
const TICK: f64 = 0.01;

/// A goal and its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) found: String,
    pub(crate) met: bool,
}

/// Returns all goals that can be checked with these runs.
pub(crate) fn check(runs: &[Rows]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for large in runs {
        for small in runs {
            let (nodes, services) = factors(small.size, large.size);
            let grows = |factor: f64| factor > 1.0;
            let stays = |factor: f64| (factor - 1.0).abs() < f64::EPSILON;
            if grows(nodes) && stays(services) || stays(nodes) && grows(services) {
                goals.push(linear(small, large, nodes * services));
            } else if grows(nodes) && grows(services) {
                goals.extend(passes(small, large, nodes * services));
            }
        }
    }
    goals.extend(
        runs.iter()
            .filter(|run| run.size.nodes >= MANY_NODES)
            .map(memory),
    );
    goals.extend(runs.iter().map(ended));
    goals
}

/// Returns the ratios of nodes and of services of the large size to the small one. They are less
/// than one if the large size has fewer.
fn factors(small: Size, large: Size) -> (f64, f64) {
    (
        f64::from(large.nodes) / f64::from(small.nodes),
        f64::from(large.services) / f64::from(small.services),
    )
}

/// If either nodes or services grow, the costs of all scenarios must grow at most by about the same
/// factor.
fn linear(small: &Rows, large: &Rows, factor: f64) -> Goal {
    let growths = small
        .rows
        .iter()
        .filter_map(|row| Some((growth(row, large)?, row.scenario)));
    let worst = growths.max_by(|(one, _), (other, _)| one.total_cmp(other));
    goal(
        format!("from {} to {}: CPU", small.size, large.size),
        factor * SLACK,
        worst.map(|(growth, scenario)| {
            (
                growth,
                format!("{growth:.1} × ({})", scenario.title(large.size)),
            )
        }),
    )
}

/// If both grow, the costs of load balancers may grow by the product, because each service depends
/// on each node.
fn passes(small: &Rows, large: &Rows, factor: f64) -> Option<Goal> {
    let row = small
        .rows
        .iter()
        .find(|row| row.scenario == Scenario::LoadBalancers)?;
    let growth = growth(row, large)?;
    Some(goal(
        format!(
            "from {} to {}: CPU of a load-balancer pass",
            small.size, large.size
        ),
        factor * SLACK,
        Some((growth, format!("{growth:.1} ×"))),
    ))
}

fn goal(what: String, limit: f64, found: Option<(f64, String)>) -> Goal {
    let (met, found) = found.map_or((false, "nothing".to_owned()), |(growth, found)| {
        (growth <= limit, found)
    });
    Goal {
        what,
        wanted: format!("at most {limit:.0} ×"),
        found,
        met,
    }
}

/// Returns the ratio of the CPU time in a larger run to the one in this row. CPU times below a
/// clock tick count as one.
fn growth(row: &Row, large: &Rows) -> Option<f64> {
    let other = large
        .rows
        .iter()
        .find(|other| other.scenario == row.scenario)?;
    Some(other.cpu_seconds / row.cpu_seconds.max(TICK / f64::from(row.times)))
}

fn memory(run: &Rows) -> Goal {
    let peak = run
        .rows
        .iter()
        .map(|row| row.peak_bytes)
        .max()
        .unwrap_or_default();
    Goal {
        what: format!("{}: memory", run.size),
        wanted: format!("below {}", mebibytes(MEMORY)),
        found: mebibytes(peak),
        met: peak < MEMORY,
    }
}

fn ended(run: &Rows) -> Goal {
    let given_up: Vec<_> = run
        .rows
        .iter()
        .filter(|row| !row.reached)
        .map(|row| row.scenario.title(run.size))
        .collect();
    Goal {
        what: format!(
            "{}: each scenario ends, and no bound is met unannounced",
            run.size
        ),
        wanted: "all".to_owned(),
        found: if given_up.is_empty() {
            "all".to_owned()
        } else {
            format!("not: {}", given_up.join("; "))
        },
        met: given_up.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(nodes: u32, services: u32, scenario: Scenario, cpu_seconds: f64) -> Rows {
        let row = Row {
            scenario,
            reached: true,
            times: 1,
            seconds: 1.0,
            cpu_seconds,
            api_cpu_seconds: 0.0,
            peak_bytes: 900 << 20,
            api_peak_bytes: 0,
            note: String::new(),
        };
        Rows {
            size: Size { nodes, services },
            rows: vec![row],
        }
    }

    fn met(runs: &[Rows]) -> Vec<bool> {
        check(runs).iter().map(|goal| goal.met).collect()
    }

    #[test]
    fn ten_times_the_size_costs_at_most_twelve_times_as_much() {
        for (nodes, services) in [(1000, 10), (100, 100)] {
            for (cost, expected) in [(12.0, true), (12.1, false)] {
                let runs = [
                    rows(100, 10, Scenario::Rest, 1.0),
                    rows(nodes, services, Scenario::Rest, cost),
                ];
                assert_eq!(
                    met(&runs)[0],
                    expected,
                    "{nodes} nodes, {services} services, {cost}"
                );
            }
        }
    }

    #[test]
    fn runs_with_opposite_size_changes_are_not_compared() {
        let runs = [
            rows(100, 100, Scenario::Rest, 1.0),
            rows(1000, 10, Scenario::Rest, 100.0),
        ];
        assert_eq!(check(&runs).len(), 2, "that each run ended");
    }

    #[test]
    fn if_both_sizes_grow_only_load_balancers_have_a_goal() {
        let both = |scenario, cost| {
            [
                rows(100, 10, scenario, 1.0),
                rows(1000, 100, scenario, cost),
            ]
        };
        assert_eq!(
            check(&both(Scenario::Rest, 1000.0)).len(),
            2,
            "that each run ended"
        );
        assert!(met(&both(Scenario::LoadBalancers, 120.0))[0]);
        assert!(!met(&both(Scenario::LoadBalancers, 121.0))[0]);
    }

    #[test]
    fn a_hundred_thousand_nodes_need_less_than_a_gibibyte() {
        let mut run = rows(100_000, 10, Scenario::Rest, 1.0);
        assert!(
            check(std::slice::from_ref(&run))
                .iter()
                .all(|goal| goal.met)
        );
        run.rows[0].peak_bytes = 1 << 30;
        assert_eq!(met(&[run]), [false, true]);
        assert_eq!(check(&[rows(99_999, 10, Scenario::Rest, 1.0)]).len(), 1);
    }

    #[test]
    fn an_abandoned_scenario_misses_its_goal() {
        let mut run = rows(10, 1, Scenario::Races, 1.0);
        run.rows[0].reached = false;
        let goals = check(&[run]);
        assert!(
            !goals[0].met && goals[0].found.contains("1 lost races"),
            "{goals:?}"
        );
    }

    #[test]
    fn costs_below_one_tick_count_as_one_tick() {
        let runs = [
            rows(100, 10, Scenario::Rest, 0.0),
            rows(1000, 10, Scenario::Rest, 0.1),
        ];
        assert!(met(&runs)[0]);
    }
}
