//! Clocks that jump, and processes that are suspended.

use std::time::Duration;

use skydock_simulation::{Step, World};

use super::{cluster, settled, work};

#[tokio::test(start_paused = true)]
async fn a_process_suspended_for_an_hour_resumes_its_work() {
    let mut world = cluster().await;
    for step in work() {
        world
            .steps(&[step, Step::Suspend(Duration::from_secs(3600))])
            .await
            .unwrap();
    }
    settled(&mut world).await;
}

/// The wall clock is not paused by the test: while hours pass for all delays and periods, it
/// advances only by the duration of the test. Anything that depends on it would never become due.
#[tokio::test(start_paused = true)]
async fn everything_works_while_the_wall_clock_stands_still() {
    let (wall, clock) = (std::time::Instant::now(), tokio::time::Instant::now());
    let mut world = cluster().await;
    for step in work() {
        world
            .steps(&[step, Step::Wait(Duration::from_secs(900))])
            .await
            .unwrap();
    }
    settled(&mut world).await;
    assert!(clock.elapsed() > Duration::from_secs(4 * 3600));
    assert!(wall.elapsed() < Duration::from_secs(600));
}

/// Times written by the API server are hours before or after the host's current time.
#[tokio::test(start_paused = true)]
async fn wall_clock_jumps_cause_no_loss_or_early_action() {
    for hours in [[2, 2, 2], [-2, -2, -2], [30, -60, 45]] {
        let mut world = cluster().await;
        for (step, hours) in work().into_iter().zip(hours.into_iter().cycle()) {
            world
                .steps(&[Step::WallClock { hours }, step])
                .await
                .unwrap();
        }
        settled(&mut world).await;
    }
}

/// As on a machine that is suspended together with its monotonic clock: by this clock everything
/// happens in one moment, but watches and delays are as old as the suspension is long.
#[tokio::test(start_paused = true)]
async fn changes_during_a_stop_of_the_monotonic_clock_are_handled() {
    let mut world = cluster().await;
    let start = tokio::time::Instant::now();
    for step in work() {
        if !matches!(step, Step::Wait(_)) {
            world.step(&step).await.unwrap();
        }
    }
    world.step(&Step::WallClock { hours: 7 }).await.unwrap();
    world.step(&Step::Compact).await.unwrap();
    assert!(
        start.elapsed() < Duration::from_millis(100),
        "{:?}",
        start.elapsed()
    );
    settled(&mut world).await;
}

/// Hours pass for all delays between the two answers that a deletion requires.
#[tokio::test(start_paused = true)]
async fn a_long_suspension_does_not_delete_a_returned_node() {
    let mut world = cluster().await;
    world.cloud().blind(true);
    world.step(&Step::Silence("n0")).await.unwrap();
    absent_once(&world).await;
    world.cloud().blind(false);
    world
        .steps(&[
            Step::Suspend(Duration::from_secs(7 * 3600)),
            Step::Wait(Duration::from_secs(60)),
        ])
        .await
        .unwrap();
    settled(&mut world).await;
}

/// Waits until the cloud was asked about an instance.
async fn absent_once(world: &World) {
    let asked = || {
        world
            .cloud()
            .calls()
            .iter()
            .filter(|call| call.starts_with("check"))
            .count()
    };
    let before = asked();
    while asked() == before {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}
