//! Clocks that jump, and processes that stand still.

use std::time::Duration;

use skydock_chaos::{Step, World};

use super::{cluster, settled, work};

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

/// What the API server writes is dated hours before or after what the host takes for the present time.
#[tokio::test(start_paused = true)]
async fn the_wall_clock_jumps_by_hours_and_nothing_is_lost_or_done_too_early() {
    for hours in [[2, 2, 2], [-2, -2, -2], [30, -60, 45]] {
        let mut world = cluster().await;
        for (step, hours) in work().into_iter().zip(hours.into_iter().cycle()) {
            world.steps(&[Step::WallClock { hours }, step]).await.unwrap();
        }
        settled(&mut world).await;
    }
}

/// As in a machine that is suspended together with its monotonic clock: by that, all happens in one moment, and what was
/// watched and waited for is as old as the machine's sleep.
#[tokio::test(start_paused = true)]
async fn the_world_goes_on_while_the_clock_stands_still() {
    let mut world = cluster().await;
    let start = tokio::time::Instant::now();
    for step in work() {
        if !matches!(step, Step::Wait(_)) {
            world.step(&step).await.unwrap();
        }
    }
    world.step(&Step::WallClock { hours: 7 }).await.unwrap();
    world.step(&Step::Compact).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    settled(&mut world).await;
}

/// Between the two answers that a deletion takes, hours go by for all waits.
#[tokio::test(start_paused = true)]
async fn a_sleep_of_hours_between_two_answers_deletes_no_node_whose_machine_is_back() {
    let mut world = cluster().await;
    world.cloud().blind(true);
    world.step(&Step::Silence("n0")).await.unwrap();
    absent_once(&world).await;
    world.cloud().blind(false);
    world.steps(&[Step::Suspend(Duration::from_secs(7 * 3600)), Step::Wait(Duration::from_secs(60))]).await.unwrap();
    settled(&mut world).await;
}

/// Waits until the cloud was asked about a machine.
async fn absent_once(world: &World) {
    let asked = || world.cloud().calls().iter().filter(|call| call.starts_with("check")).count();
    let before = asked();
    while asked() == before {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}
