//! A cluster with changes, while one kind of failure happens.
#![allow(clippy::unwrap_used, clippy::panic)] // clippy's exceptions for test functions do not cover helpers

mod clocks;
mod cloud;
mod network;

use std::{collections::BTreeMap, time::Duration};

use rand::{SeedableRng as _, rngs::StdRng};
use skydock_devplane::{Fault, Rule, Verb};
use skydock_simulation::{ApiTrouble, Step, World};

/// Returns the steps of every scenario: nodes are registered, stop reporting, stop and disappear;
/// services are created, change their type and are deleted; routes and labels are changed by other
/// clients.
fn work() -> Vec<Step> {
    let second = Step::Wait(Duration::from_secs(1));
    vec![
        Step::Register {
            node: "n2",
            with_id: false,
        },
        Step::Create("s1"),
        Step::Port {
            service: "s0",
            port: 81,
        },
        second.clone(),
        Step::Vanish("n0"),
        Step::PowerOff("n1"),
        Step::StrayRoute {
            cidr: "10.244.2.128/25",
            node: None,
        },
        Step::Note {
            service: "s0",
            note: 7,
        },
        Step::Type {
            service: "s1",
            balanced: false,
        },
        second.clone(),
        Step::LoseRoutes("n1"),
        Step::Register {
            node: "n3",
            with_id: true,
        },
        Step::Create("s2"),
        Step::Relabel("n1"),
        Step::Silence("n2"),
        Step::Wait(Duration::from_secs(20)),
        Step::Delete("s2"),
        Step::Type {
            service: "s1",
            balanced: true,
        },
        second,
        Step::Blackhole("n3"),
        Step::Readdress("n2"),
        Step::DeleteNode("n3"),
        Step::Delete("s1"),
    ]
}

/// Returns a cluster with two nodes and a service with its load balancer, in the expected state.
async fn cluster() -> World {
    let mut world = World::new(1).await.unwrap();
    let begin = [
        Step::Register {
            node: "n0",
            with_id: false,
        },
        Step::Register {
            node: "n1",
            with_id: true,
        },
        Step::Create("s0"),
    ];
    world.steps(&begin).await.unwrap();
    settled(&mut world).await;
    assert_eq!(world.cloud().balancers().len(), 1);
    world
}

/// Waits until the expected state is reached.
async fn settled(world: &mut World) -> Duration {
    world
        .settle()
        .await
        .unwrap_or_else(|differences| panic!("{differences}"))
}

/// Performs [`work`] while the API server fails, and returns how often each fault has happened.
async fn work_under(trouble: ApiTrouble) -> BTreeMap<&'static str, u64> {
    let mut world = cluster().await;
    world.step(&Step::Api { trouble, seed: 7 }).await.unwrap();
    world.steps(&work()).await.unwrap();
    settled(&mut world).await;
    world.plane().faults().met()
}

macro_rules! under {
    ($($name:ident: $trouble:ident meets $($fault:literal),+;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let met = work_under(ApiTrouble::$trouble).await;
            $(assert!(met.get($fault).is_some_and(|times| *times >= 2), "too little happened: {met:?}");)+
        }
    )+};
}

under! {
    nothing_is_lost_in_a_storm_of_conflicts: Conflicts meets "conflict";
    nothing_is_lost_when_every_other_request_is_one_too_many: TooMany meets "too many requests";
    nothing_is_lost_when_the_api_server_fails: Errors meets "internal error", "service unavailable";
    nothing_is_lost_when_the_api_server_is_slow: Slow meets "slow";
    nothing_is_lost_when_the_api_server_takes_requests_and_never_answers: Partition meets "silence";
    nothing_is_lost_when_every_connection_is_cut: Rejected meets "cut";
    nothing_is_lost_when_changes_are_made_and_their_answers_lost: LostAnswers meets "answer lost";
    nothing_is_lost_when_watches_are_cut_and_expire: BrokenWatches meets "cut", "expired";
    nothing_is_lost_when_watches_are_late_and_have_no_bookmarks: LateEvents meets "slow", "no bookmarks";
}

#[tokio::test(start_paused = true)]
async fn no_change_is_missed_while_watches_are_cut() {
    let mut world = cluster().await;
    for step in work() {
        world.step(&Step::CutWatches).await.unwrap();
        world.steps(&[step]).await.unwrap();
    }
    settled(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn no_change_is_missed_while_the_history_is_compacted() {
    let mut world = cluster().await;
    for step in work() {
        world.steps(&[step, Step::Compact]).await.unwrap();
    }
    settled(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn deletions_without_a_watch_are_found_by_the_next_list() {
    let mut world = cluster().await;
    world
        .step(&Step::Api {
            trouble: ApiTrouble::Rejected,
            seed: 1,
        })
        .await
        .unwrap();
    let steps = [
        Step::CutWatches,
        Step::Delete("s0"),
        Step::Vanish("n0"),
        Step::Wait(Duration::from_secs(300)),
        Step::Compact,
    ];
    world.steps(&steps).await.unwrap();
    settled(&mut world).await;
    assert!(world.cloud().balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_healed_partition_is_over_within_minutes() {
    for (trouble, longest) in [(ApiTrouble::Rejected, 60), (ApiTrouble::Partition, 400)] {
        let mut world = cluster().await;
        world.step(&Step::Api { trouble, seed: 1 }).await.unwrap();
        let steps = [
            Step::CutWatches,
            Step::Port {
                service: "s0",
                port: 82,
            },
            Step::Register {
                node: "n2",
                with_id: true,
            },
            Step::Wait(Duration::from_secs(30)),
        ];
        world.steps(&steps).await.unwrap();
        let took = settled(&mut world).await;
        assert!(took < Duration::from_secs(longest), "{trouble:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_delays_its_node_by_about_a_minute() {
    let mut world = cluster().await;
    let silence = Rule::new(Fault::Silence)
        .verbs(&[Verb::Patch])
        .resource("nodes")
        .times(1);
    world
        .plane()
        .faults()
        .set(silence, StdRng::seed_from_u64(1));
    world
        .steps(&[Step::Register {
            node: "n2",
            with_id: false,
        }])
        .await
        .unwrap();
    assert_eq!(
        world.plane().faults().met(),
        BTreeMap::from([("silence", 1)])
    );
    let took = settled(&mut world).await;
    assert!(
        took > Duration::from_secs(30) && took < Duration::from_secs(120),
        "{took:?}"
    );
}

/// Returns the calls that change load balancers since `before` calls.
fn changes(world: &World, before: usize) -> Vec<String> {
    let calls = world.cloud().calls().into_iter().skip(before);
    let changes = |call: &String| call.starts_with("ensure ") || call.starts_with("update ");
    calls.filter(changes).collect()
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_no_load_balancer_that_is_right() {
    let kill = Step::Kill {
        down: Duration::from_secs(3),
    };
    let mut world = cluster().await;
    for step in [Step::Restart, kill.clone(), kill, Step::Restart] {
        let before = world.cloud().calls().len();
        world.step(&step).await.unwrap();
        settled(&mut world).await;
        assert_eq!(changes(&world, before), [""; 0], "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_at_any_moment_of_a_change_is_not_believed() {
    let exclude = |out| Step::Exclude { node: "n0", out };
    let port = |port| Step::Port {
        service: "s0",
        port,
    };
    let balanced = |balanced| Step::Type {
        service: "s0",
        balanced,
    };
    let kill = Step::Kill {
        down: Duration::from_secs(3),
    };

    // A change of nodes takes about 250 ms, and its record follows after some 15 s.
    let moments = (0..400).step_by(20).chain((9_000..17_000).step_by(390));
    for moment in moments {
        for (change, undo) in [
            (exclude(true), exclude(false)),
            (port(81), port(80)),
            (balanced(false), balanced(true)),
        ] {
            let mut world = cluster().await;
            for step in [
                &change,
                &Step::Wait(Duration::from_millis(moment)),
                &undo,
                &kill,
            ] {
                world.step(step).await.unwrap();
            }
            let took = world
                .settle()
                .await
                .unwrap_or_else(|wrong| panic!("{change:?}, killed after {moment} ms: {wrong}"));
            assert!(took < Duration::from_secs(300), "{change:?}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_at_any_moment_leaves_nothing_behind() {
    // The complete change takes about 300 ms: finalizer, cloud, status.
    for moment in (0..400).step_by(20) {
        for change in [
            Step::Create("s1"),
            Step::Delete("s0"),
            Step::Type {
                service: "s0",
                balanced: false,
            },
        ] {
            let mut world = cluster().await;
            let steps = [
                Step::Wait(Duration::from_millis(moment)),
                Step::Kill {
                    down: Duration::from_secs(3),
                },
            ];
            world.step(&change).await.unwrap();
            for step in &steps {
                world.step(step).await.unwrap();
            }
            world
                .settle()
                .await
                .unwrap_or_else(|wrong| panic!("{change:?}, killed after {moment} ms: {wrong}"));
        }
    }
}
