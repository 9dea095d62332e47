use std::{sync::Arc, time::Duration};

use serde_json::json;
use skydock_cloud::Retry;
use skydock_controller_base::testing::{node, with};
use skydock_kube::informer::Entry;

use super::*;
use crate::ClusterCidrs;
use crate::route::{
    plan,
    tests::{route, unavailable},
};

fn entry(name: &str, cidr: &str) -> NodeEntry {
    Arc::new(Entry::new(with(
        &node(name),
        &json!({"spec": {"podCIDRs": [cidr], "providerID": format!("fake://{name}")}}),
    )))
}

/// A state with its memory, at a time.
struct Bench {
    state: State,
    memory: RouteMemory,
    now: Instant,
    long: Gauge,
}

fn bench() -> Bench {
    Bench {
        state: State::default(),
        memory: RouteMemory::default(),
        now: Instant::now(),
        long: Gauge::default(),
    }
}

impl Bench {
    /// Begins a round with these routes and nodes.
    fn lists(&mut self, routes: Vec<Route>, nodes: &[NodeEntry]) -> Effects {
        self.state.begin_list(&self.memory);
        self.listed(routes, nodes)
    }

    fn listed(&mut self, routes: Vec<Route>, nodes: &[NodeEntry]) -> Effects {
        let meanwhile = self.state.end_list(&self.memory).unwrap();
        let views: Vec<_> = nodes.iter().map(|entry| &*entry.view).collect();
        let plan = plan::plan(
            routes,
            &views,
            &ClusterCidrs::parse(&["10.244.0.0/16"]).unwrap(),
        );
        self.state.listed(
            &mut self.memory,
            &meanwhile,
            (plan, nodes.to_vec()),
            self.now,
        )
    }

    fn created(
        &mut self,
        effects: &Effects,
        result: &Result<(), CloudError>,
        begun: u64,
    ) -> Effects {
        let done = effects
            .due
            .creates
            .iter()
            .map(|ready| done(ready.change.clone(), result))
            .collect();
        self.state
            .created(&mut self.memory, done, begun, (self.now, &self.long))
    }

    fn deleted(
        &mut self,
        effects: &Effects,
        result: &Result<(), CloudError>,
        begun: u64,
    ) -> Effects {
        let done = effects
            .due
            .deletes
            .iter()
            .map(|ready| done(ready.change.clone(), result))
            .collect();
        self.state
            .deleted(&mut self.memory, done, begun, (self.now, &self.long))
    }

    /// Returns the delay before the next retry.
    fn next(&self) -> Option<Duration> {
        self.state.next_try(&self.memory).at.map(|at| at - self.now)
    }
}

fn done<T>(change: T, result: &Result<(), CloudError>) -> Done<T> {
    Done {
        change,
        result: result.clone(),
        took: Duration::ZERO,
        spoiled: None,
    }
}

/// Returns the CIDRs that are to be created, and the names of the routes to be deleted.
fn due(effects: &Effects) -> (Vec<&str>, Vec<&str>) {
    let creates = effects
        .due
        .creates
        .iter()
        .map(|ready| ready.change.destination_cidr.as_str());
    (
        creates.collect(),
        effects
            .due
            .deletes
            .iter()
            .map(|ready| ready.change.name.as_str())
            .collect(),
    )
}

fn networks(effects: &Effects) -> Vec<(&str, Network)> {
    effects
        .networks
        .iter()
        .map(|(entry, network)| (entry.name(), *network))
        .collect()
}

#[test]
fn a_change_in_progress_is_not_requested_again() {
    let mut bench = bench();
    let nodes = [entry("a", "10.244.1.0/24")];
    let gone = || vec![route("gone", "10.244.9.0/24")];
    let first = bench.lists(gone(), &nodes);
    assert_eq!(
        due(&first),
        (vec!["10.244.1.0/24"], vec!["gone-10.244.9.0/24"])
    );
    assert!(
        first.networks.is_empty(),
        "not known while its route is being created"
    );
    assert_eq!(due(&bench.lists(gone(), &nodes)), (vec![], vec![]));

    let created = bench.created(&first, &Ok(()), 0);
    assert_eq!(
        (networks(&created), created.list_again),
        (vec![("a", Network::Available)], false)
    );
    assert!(matches!(
        &created.reports[..],
        [Report::Created(_, Some(_))]
    ));

    let deleted = bench.deleted(&first, &Ok(()), 0);
    assert!(!deleted.list_again && matches!(&deleted.reports[..], [Report::Deleted(_)]));
    assert_eq!(bench.next(), None);
}

#[test]
fn changes_completed_while_listing_are_not_repeated() {
    let mut bench = bench();
    let nodes = [entry("a", "10.244.1.0/24")];
    let routes = || vec![route("gone", "10.244.9.0/24")];
    let first = bench.lists(routes(), &nodes);
    bench.state.begin_list(&bench.memory);
    bench.created(&first, &Ok(()), 0);
    bench.deleted(&first, &Ok(()), 0);
    let second = bench.listed(routes(), &nodes);
    assert_eq!(due(&second), (vec![], vec![]));
    assert_eq!(networks(&second), [("a", Network::Available)]);
}

// Holds: R-18
#[test]
fn a_route_deleted_while_listing_is_listed_again_if_wanted() {
    let (wanted, routes) = ([entry("a", "10.244.1.0/24")], || {
        vec![route("a", "10.244.1.0/24")]
    });
    // what the list shows, and the nodes at its end; whether to list again, and the conditions
    for (listed, nodes, list_again, known) in [
        (routes(), &wanted[..], true, vec![]),
        (Vec::new(), &wanted[..], false, vec![]),
        (routes(), &[][..], false, vec![]),
        (Vec::new(), &[][..], false, vec![]),
        (vec![], &[entry("b", "10.244.2.0/24")][..], false, vec![]),
        (routes(), &[entry("a", "10.244.3.0/24")][..], false, vec![]),
    ] {
        let mut bench = bench();
        let first = bench.lists(routes(), &[]);
        assert_eq!(due(&first).1, ["a-10.244.1.0/24"]);
        bench.state.begin_list(&bench.memory);
        assert!(!bench.deleted(&first, &Ok(()), 0).list_again);
        let second = bench.listed(listed, nodes);
        assert_eq!(
            (second.list_again, networks(&second)),
            (list_again, known),
            "{nodes:?}"
        );
        assert_eq!(
            due(&second).0.len(),
            usize::from(!list_again && !nodes.is_empty()),
            "{nodes:?}"
        );
    }
}

#[test]
fn a_route_created_while_listing_is_listed_again_if_unwanted() {
    let (wanted, routes) = ([entry("a", "10.244.1.0/24")], || {
        vec![route("a", "10.244.1.0/24")]
    });
    for (listed, nodes, list_again) in [
        (Vec::new(), &[][..], true),
        (Vec::new(), &[entry("a", "10.244.2.0/24")][..], true),
        (Vec::new(), &wanted[..], false),
        (routes(), &wanted[..], false),
    ] {
        let mut bench = bench();
        let first = bench.lists(Vec::new(), &wanted);
        bench.state.begin_list(&bench.memory);
        assert!(!bench.created(&first, &Ok(()), 0).list_again);
        assert_eq!(
            bench.listed(listed, nodes).list_again,
            list_again,
            "{nodes:?}"
        );
    }
}

// Holds: R-18
#[test]
fn a_node_whose_route_is_being_deleted_has_no_known_network() {
    let (nodes, routes) = ([entry("a", "10.244.1.0/24")], || {
        vec![route("a", "10.244.1.0/24")]
    });
    for result in [Ok(()), Err(unavailable())] {
        let mut bench = bench();
        let first = bench.lists(routes(), &[]);
        // The node registers again before the deletion ends.
        let second = bench.lists(routes(), &nodes);
        assert_eq!(
            (due(&second), networks(&second)),
            ((vec![], vec![]), vec![])
        );
        assert!(bench.deleted(&first, &result, 0).list_again);
        let third = bench.lists(if result.is_ok() { Vec::new() } else { routes() }, &nodes);
        let known = if result.is_ok() {
            vec![]
        } else {
            vec![("a", Network::Available)]
        };
        assert_eq!(
            (due(&third).0.len(), networks(&third)),
            (usize::from(result.is_ok()), known)
        );
    }
    // Another route that is being deleted does not matter, also if it leads to the same
    // destination.
    let mut bench = bench();

    let black = || Route {
        name: "black".into(),
        blackhole: true,
        ..route("a", "10.244.1.0/24")
    };
    let both = || {
        vec![
            black(),
            route("a", "10.244.1.0/24"),
            route("a", "10.244.7.0/24"),
        ]
    };
    let first = bench.lists(both(), &nodes);
    assert_eq!(
        (due(&first).1.len(), networks(&first)),
        (2, vec![("a", Network::Available)])
    );
    assert_eq!(
        networks(&bench.lists(both(), &nodes)),
        [("a", Network::Available)]
    );
}

#[test]
fn results_are_judged_by_the_current_round_and_plugin() {
    for (what, result, other_nodes, begun, list_again, retry) in [
        ("success", Ok(()), false, 0, false, false),
        ("success for an earlier round", Ok(()), true, 0, true, false),
        (
            "success of the previous plugin",
            Ok(()),
            false,
            9,
            false,
            false,
        ),
        ("failure", Err(unavailable()), false, 0, false, true),
        (
            "failure for an earlier round",
            Err(unavailable()),
            true,
            0,
            true,
            false,
        ),
        (
            "failure of the previous plugin",
            Err(unavailable()),
            false,
            9,
            true,
            false,
        ),
    ] {
        let mut bench = bench();
        let nodes = [entry("a", "10.244.1.0/24")];
        let gone = [route("gone", "10.244.9.0/24")];
        let first = bench.lists(gone.to_vec(), &nodes);
        if other_nodes {
            bench.lists(Vec::new(), &[entry("a", "10.244.2.0/24")]);
        }
        let created = bench.created(&first, &result, begun);
        assert_eq!(created.list_again, list_again, "{what}");
        assert_eq!(created.reports.len(), 1, "{what}");
        assert_eq!(bench.next().is_some(), retry, "{what}");
        let deleted = bench.deleted(&first, &result, begun);
        assert_eq!(deleted.list_again, list_again, "{what}");
        let wait = retry.then_some(Duration::from_secs(1));
        assert_eq!(bench.next(), wait, "{what}");
    }
}

// Holds: R-12
#[test]
fn a_deletion_frees_the_route_that_replaces_it() {
    for result in [Ok(()), Err(unavailable())] {
        let mut bench = bench();
        let nodes = [entry("a", "10.244.1.0/24")];
        let first = bench.lists(vec![route("b", "10.244.1.0/24")], &nodes);
        assert_eq!(due(&first), (vec![], vec!["b-10.244.1.0/24"]));
        let second = bench.deleted(&first, &result, 0);
        let freed = if result.is_ok() {
            vec!["10.244.1.0/24"]
        } else {
            vec![]
        };
        assert_eq!(due(&second), (freed, vec![]));
        let known = if result.is_ok() {
            vec![]
        } else {
            vec![("a", Network::Unavailable)]
        };
        assert_eq!(networks(&second), known, "{result:?}");
    }
}

#[test]
fn overlapping_routes_are_created_one_after_the_other() {
    let mut bench = bench();
    let nodes = [entry("a", "10.244.1.0/24"), entry("b", "10.244.1.0/25")];
    let first = bench.lists(Vec::new(), &nodes);
    assert_eq!(due(&first).0.len(), 1);
    assert!(
        bench.created(&first, &Ok(()), 0).list_again,
        "the other one is due"
    );
    // Also if the list has shown in the meantime that it waits.
    let mut bench = self::bench();
    let first = bench.lists(Vec::new(), &nodes);
    let second = bench.lists(Vec::new(), &nodes);
    assert_eq!(due(&second), (vec![], vec![]));
    bench.deleted(&second, &Ok(()), 0);
    assert!(bench.created(&first, &Ok(()), 0).list_again);
}

// Holds: R-06
#[test]
fn a_failed_list_changes_nothing_and_is_retried() {
    let mut bench = bench();
    for seconds in [1, 2, 4] {
        bench.state.begin_list(&bench.memory);
        assert!(bench.state.is_listing());
        bench.state.end_list(&bench.memory).unwrap();
        let effects = bench
            .state
            .list_failed(&mut bench.memory, unavailable(), bench.now);
        assert!(matches!(&effects.reports[..], [Report::ListFailed(_)]));
        assert_eq!(
            (due(&effects), networks(&effects), effects.list_again),
            ((vec![], vec![]), vec![], false)
        );
        assert_eq!(bench.next(), Some(Duration::from_secs(seconds)));
    }
    bench.lists(Vec::new(), &[]);
    assert_eq!((bench.next(), bench.memory.failures), (None, 0));
}

// Holds: R-06
#[test]
fn after_a_failed_list_only_the_list_is_retried() {
    let retry = || Retry {
        after: Duration::from_secs(60),
        message: "busy".into(),
    };
    for (error, next) in [
        (CloudError::Throttled(retry()), Some(60)),
        (CloudError::InProgress(retry()), Some(60)),
        (unavailable(), Some(1)),
        (CloudError::Invalid("no such table".into()), None),
        (CloudError::ImplementedElsewhere, None),
    ] {
        let mut bench = bench();
        let first = bench.lists(Vec::new(), &[entry("a", "10.244.1.0/24")]);
        bench.created(&first, &Err(unavailable()), 0);
        assert_eq!(bench.next(), Some(Duration::from_secs(1)));
        bench.now += Duration::from_secs(1);
        bench.state.begin_list(&bench.memory);
        bench.state.end_list(&bench.memory).unwrap();
        bench
            .state
            .list_failed(&mut bench.memory, error.clone(), bench.now);
        assert_eq!(bench.next(), next.map(Duration::from_secs), "{error}");
        let retried = bench.lists(Vec::new(), &[entry("a", "10.244.1.0/24")]);
        assert_eq!(
            due(&retried).0,
            ["10.244.1.0/24"],
            "the creation is due: {error}"
        );
    }
}

#[test]
fn a_list_of_the_previous_plugin_is_ignored() {
    let mut bench = bench();
    bench.state.begin_list(&bench.memory);
    bench.memory.forgotten += 1;
    assert!(bench.state.end_list(&bench.memory).is_none() && !bench.state.is_listing());
}

#[test]
fn a_reached_limit_is_reported_every_half_hour() {
    let minute = Duration::from_secs(60);
    for (routes, limit, expected) in [
        (79, Some(100), &[][..]),
        (80, Some(100), &[0, 30, 60]),
        (101, Some(100), &[0, 30, 60]),
        (4, Some(4), &[0, 30, 60]),
        (1000, None, &[]),
    ] {
        let (start, mut memory) = (Instant::now(), RouteMemory::default());
        let reported: Vec<_> = (0..=70)
            .filter(|at| {
                memory
                    .near_limit(routes, limit, start + minute * *at)
                    .is_some()
            })
            .collect();
        assert_eq!(reported, expected, "{routes} {limit:?}");
    }
}

#[test]
fn pod_cidrs_outside_the_cluster_are_reported_every_half_hour() {
    let mut bench = bench();
    let nodes = [entry("a", "10.244.1.0/24"), entry("b", "192.0.2.0/24")];
    let start = bench.now;

    let mut reported = Vec::new();
    for minutes in 0..=70 {
        bench.now = start + Duration::from_secs(60 * minutes);
        let effects = bench.lists(Vec::new(), &nodes);
        for report in &effects.reports {
            let Report::Outside(entry, cidrs) = report else {
                panic!("another report")
            };
            assert_eq!(
                (entry.name(), &cidrs[..]),
                ("b", &["192.0.2.0/24".to_owned()][..])
            );
            reported.push(minutes);
        }
    }
    assert_eq!(reported, [0, 30, 60]);

    bench.lists(Vec::new(), &[]);
    assert!(
        bench.memory.next_outside_reports.is_empty(),
        "what is gone is forgotten"
    );
}
