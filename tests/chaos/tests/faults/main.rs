//! A cluster at work, while one thing goes wrong.
#![allow(clippy::unwrap_used, clippy::panic)] // a test: what clippy allows in test functions does not reach the helpers beside them

use std::{collections::BTreeMap, time::Duration};

use rand::{SeedableRng as _, rngs::StdRng};
use skydock_chaos::{ApiTrouble, Mishap, Step, Trouble, World};
use skydock_cloud::{CloudError, Retry};
use skydock_devplane::{Fault, Rule, Verb};

/// What every scenario does while things go wrong: nodes come, fall silent, stop and vanish; services come, change their
/// type and go.
fn work() -> Vec<Step> {
    let second = Step::Wait(Duration::from_secs(1));
    vec![
        Step::Register { node: "n2", with_id: false },
        Step::Create("s1"),
        Step::Port { service: "s0", port: 81 },
        second.clone(),
        Step::Vanish("n0"),
        Step::PowerOff("n1"),
        Step::Note { service: "s0", note: 7 },
        Step::Type { service: "s1", balanced: false },
        second.clone(),
        Step::Register { node: "n3", with_id: true },
        Step::Create("s2"),
        Step::Silence("n2"),
        Step::Wait(Duration::from_secs(20)),
        Step::Delete("s2"),
        Step::Type { service: "s1", balanced: true },
        second,
        Step::DeleteNode("n3"),
        Step::Delete("s1"),
    ]
}

/// A cluster with two nodes and a service with its load balancer, at peace.
async fn cluster() -> World {
    let mut world = World::new(1).await.unwrap();
    let begin = [
        Step::Register { node: "n0", with_id: false },
        Step::Register { node: "n1", with_id: true },
        Step::Create("s0"),
    ];
    world.steps(&begin).await.unwrap();
    settled(&mut world).await;
    assert_eq!(world.cloud().balancers().len(), 1);
    world
}

/// Waits until all is as it should be.
async fn settled(world: &mut World) -> Duration {
    world.settle().await.unwrap_or_else(|differences| panic!("{differences}"))
}

/// Work while the API server is in trouble; answers how often each fault has happened.
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
    nothing_is_lost_when_every_connection_is_cut: Refused meets "cut";
    nothing_is_lost_when_changes_are_made_and_their_answers_lost: LostAnswers meets "answer lost";
    nothing_is_lost_when_watches_are_cut_and_expire: BrokenWatches meets "cut", "expired";
    nothing_is_lost_when_watches_are_late_and_have_no_bookmarks: LateEvents meets "slow", "no bookmarks";
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_watches_are_cut_again_and_again_is_seen() {
    let mut world = cluster().await;
    for step in work() {
        world.step(&Step::CutWatches).await.unwrap();
        world.steps(&[step]).await.unwrap();
    }
    settled(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_the_history_is_compacted_is_seen() {
    let mut world = cluster().await;
    for step in work() {
        world.steps(&[step, Step::Compact]).await.unwrap();
    }
    settled(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_deleted_and_a_node_gone_while_nothing_is_watched_are_found_by_the_next_list() {
    let mut world = cluster().await;
    world.step(&Step::Api { trouble: ApiTrouble::Refused, seed: 1 }).await.unwrap();
    let steps =
        [Step::CutWatches, Step::Delete("s0"), Step::Vanish("n0"), Step::Wait(Duration::from_secs(300)), Step::Compact];
    world.steps(&steps).await.unwrap();
    settled(&mut world).await;
    assert!(world.cloud().balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_healed_partition_is_over_within_seconds_if_connections_are_cut_and_within_minutes_if_they_only_fall_silent()
{
    for (trouble, longest) in [(ApiTrouble::Refused, 60), (ApiTrouble::Partition, 400)] {
        let mut world = cluster().await;
        world.step(&Step::Api { trouble, seed: 1 }).await.unwrap();
        let steps = [
            Step::CutWatches,
            Step::Port { service: "s0", port: 82 },
            Step::Register { node: "n2", with_id: true },
            Step::Wait(Duration::from_secs(30)),
        ];
        world.steps(&steps).await.unwrap();
        let took = settled(&mut world).await;
        assert!(took < Duration::from_secs(longest), "{trouble:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_that_is_never_answered_holds_up_its_node_for_a_minute_and_no_longer() {
    let mut world = cluster().await;
    let silence = Rule::new(Fault::Silence).verbs(&[Verb::Patch]).resource("nodes").times(1);
    world.plane().faults().set(silence, StdRng::seed_from_u64(1));
    world.steps(&[Step::Register { node: "n2", with_id: false }]).await.unwrap();
    assert_eq!(world.plane().faults().met(), BTreeMap::from([("silence", 1)]));
    let took = settled(&mut world).await;
    assert!(took > Duration::from_secs(30) && took < Duration::from_secs(120), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_suspended_for_an_hour_goes_on_where_it_was() {
    let mut world = cluster().await;
    for step in work() {
        world.steps(&[step, Step::Suspend(Duration::from_secs(3600))]).await.unwrap();
    }
    settled(&mut world).await;
}

/// The wall clock is not the one that tests stop: while hours go by for all waits and periods, it moves by the moments that
/// the test takes. What depended on it would never become due.
#[tokio::test(start_paused = true)]
async fn the_wall_clock_stands_still_and_everything_happens_in_its_time() {
    let (wall, clock) = (std::time::Instant::now(), tokio::time::Instant::now());
    let mut world = cluster().await;
    for step in work() {
        world.steps(&[step, Step::Wait(Duration::from_secs(900))]).await.unwrap();
    }
    settled(&mut world).await;
    assert!(clock.elapsed() > Duration::from_secs(4 * 3600));
    assert!(wall.elapsed() < Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_the_cloud_once_by_mistake_calls_gone_keeps_its_node() {
    let mut world = cluster().await;
    world.cloud().trouble(Trouble::always("check", Mishap::Lie));
    world.steps(&[Step::Silence("n0"), Step::PowerOff("n1"), Step::Wait(Duration::from_secs(600))]).await.unwrap();
    assert!(world.cloud().met()["lie"] > 50, "{:?}", world.cloud().met());
    settled(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn no_node_is_deleted_because_the_cloud_fails_in_any_way() {
    let text = || "no".to_owned();
    let retry = || Retry { after: Duration::from_secs(1), message: text() };
    for error in [
        CloudError::NotFound(text()),
        CloudError::ImplementedElsewhere,
        CloudError::Conflict(text()),
        CloudError::Throttled(retry()),
        CloudError::InProgress(retry()),
        CloudError::Denied(text()),
        CloudError::Invalid(text()),
        CloudError::Unavailable(text()),
        CloudError::Internal(text()),
    ] {
        let mut world = cluster().await;
        world.cloud().trouble(Trouble::always("check", Mishap::Refused(error)));
        world.steps(&[Step::Silence("n0"), Step::PowerOff("n1"), Step::Wait(Duration::from_secs(120))]).await.unwrap();
        assert!(world.cloud().met().values().sum::<u64>() > 10);
        settled(&mut world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_of_the_cloud_can_go_wrong_in_every_way_and_nothing_is_left_over() {
    let text = || "no".to_owned();
    let retry = || Retry { after: Duration::from_secs(2), message: text() };
    for mishap in [
        Mishap::Refused(CloudError::Conflict(text())),
        Mishap::Refused(CloudError::Throttled(retry())),
        Mishap::Refused(CloudError::Denied(text())),
        Mishap::Refused(CloudError::Unavailable(text())),
        Mishap::Refused(CloudError::Internal(text())),
        Mishap::AnswerLost,
        Mishap::HalfDone(CloudError::Unavailable(text())),
        Mishap::HalfDone(CloudError::InProgress(retry())),
        Mishap::Hangs { done: false },
        Mishap::Hangs { done: true },
        Mishap::Slow(Duration::from_secs(20)),
    ] {
        for call in ["ensure", "update", "delete", "get", "describe", "check", "locate"] {
            let mut world = cluster().await;
            world.cloud().trouble(Trouble::always(call, mishap.clone()).times(3));
            world.steps(&work()).await.unwrap();
            let took = world.settle().await.unwrap_or_else(|wrong| panic!("{call} {mishap:?}: {wrong}"));
            assert!(took < Duration::from_secs(1200), "{call} {mishap:?}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_at_any_moment_of_making_and_deleting_leaves_nothing_behind() {
    // From the change to its end it takes some 300 ms: finalizer, cloud, status.
    for moment in (0..400).step_by(20) {
        for change in [Step::Create("s1"), Step::Delete("s0"), Step::Type { service: "s0", balanced: false }] {
            let mut world = cluster().await;
            let steps = [Step::Wait(Duration::from_millis(moment)), Step::Kill { down: Duration::from_secs(3) }];
            world.step(&change).await.unwrap();
            for step in &steps {
                world.step(step).await.unwrap();
            }
            world.settle().await.unwrap_or_else(|wrong| panic!("{change:?}, killed after {moment} ms: {wrong}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_after_half_of_the_work_leaves_nothing_behind() {
    let half = || Mishap::HalfDone(CloudError::Unavailable("no".to_owned()));
    for (call, before, after) in [
        ("ensure", Step::Create("s1"), Step::Delete("s1")),
        ("ensure", Step::Create("s1"), Step::Type { service: "s1", balanced: false }),
        ("delete", Step::Type { service: "s0", balanced: false }, Step::Type { service: "s0", balanced: true }),
        ("delete", Step::Type { service: "s0", balanced: false }, Step::Delete("s0")),
        ("delete", Step::Delete("s0"), Step::Swap),
    ] {
        let mut world = cluster().await;
        world.cloud().trouble(Trouble::always(call, half()));
        let kill = Step::Kill { down: Duration::from_secs(3) };
        let wait = Step::Wait(Duration::from_secs(1));
        world.steps(&[before.clone(), wait, kill, after.clone()]).await.unwrap();
        world.settle().await.unwrap_or_else(|wrong| panic!("{before:?}, {after:?}: {wrong}"));
        assert!(world.cloud().met()["half done"] > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_made_anew_with_the_same_name_is_not_deleted_for_the_machine_of_the_old_one() {
    // The answer about the old machine is on its way while the new one registers.
    for moment in (0..12_000).step_by(500) {
        let mut world = cluster().await;
        world.cloud().trouble(Trouble::always("check", Mishap::Slow(Duration::from_secs(2))));
        let steps = [
            Step::Vanish("n0"),
            Step::Wait(Duration::from_millis(moment)),
            Step::Register { node: "n0", with_id: true },
            Step::Silence("n0"),
            Step::Wait(Duration::from_secs(20)),
        ];
        world.steps(&steps).await.unwrap();
        settled(&mut world).await;
    }
}
