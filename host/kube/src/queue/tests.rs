use std::{
    collections::HashSet,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use proptest::prelude::*;
use tokio::time::advance;

use super::*;

/// Counts how often a future is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    /// Returns the number since the last call.
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn queue() -> Queue<u8> {
    let metrics = WorkqueueMetrics::register(&mut prometheus_client::registry::Registry::default());
    Queue::new(
        Limiter {
            base: Duration::from_secs(5),
            max: Duration::from_secs(300),
            bucket: None,
        },
        metrics.queue("test"),
    )
}

/// Takes the items that are ready now.
async fn ready(queue: &Queue<u8>, max: usize) -> Vec<u8> {
    match tokio::time::timeout(Duration::from_micros(1), queue.take_batch(max)).await {
        Ok(batch) => batch
            .unwrap_or_default()
            .into_iter()
            .map(|(key, _)| key)
            .collect(),
        Err(_) => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_added_twice_is_handed_out_once() {
    let queue = queue();
    queue.add(1, Priority::Change);
    queue.add(1, Priority::Change);
    assert_eq!(ready(&queue, 10).await, [1]);
    assert!(ready(&queue, 10).await.is_empty());
}

// Holds: S-42
#[tokio::test(start_paused = true)]
async fn an_item_in_progress_is_not_handed_out_until_it_is_done() {
    let queue = queue();
    queue.add(1, Priority::Change);
    assert_eq!(ready(&queue, 1).await, [1]);
    queue.add(1, Priority::Change);
    assert!(ready(&queue, 1).await.is_empty());
    queue.done(&1);
    assert_eq!(ready(&queue, 1).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn changes_go_before_rechecks_and_a_change_raises_a_recheck() {
    let queue = queue();
    for key in [1, 2, 3] {
        queue.add(key, Priority::Recheck);
    }
    queue.add(9, Priority::Change);
    queue.add(2, Priority::Change);

    assert_eq!(
        ready(&queue, 10).await,
        [9, 2],
        "priorities are not mixed in a batch"
    );
    assert_eq!(ready(&queue, 10).await, [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn held_items_go_together_or_when_the_hold_ends() {
    let queue = queue();
    queue.hold(Duration::from_millis(250));
    queue.add(1, Priority::Change);
    queue.add(2, Priority::Recheck);
    assert!(ready(&queue, 3).await.is_empty());
    assert_eq!(ready(&queue, 2).await, [1], "no more would come with it");
    queue.add(3, Priority::Change);
    let held = Instant::now();
    let batch = queue.take_changes(10).await.unwrap();
    assert_eq!(batch, [(3, Priority::Change)]);
    assert!(
        (200..=251).contains(&held.elapsed().as_millis()),
        "{:?}",
        held.elapsed()
    );

    queue.hold(Duration::from_secs(60));
    queue.add(4, Priority::Change);
    let held = Instant::now();
    let (batch, ()) = tokio::join!(queue.take_changes(10), async {
        queue.add(5, Priority::Change);
        queue.release();
    });
    assert_eq!(batch.unwrap().len(), 2);
    assert!(
        held.elapsed() < Duration::from_secs(1),
        "the end of the hold is not waited for: {:?}",
        held.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_added_again_keeps_its_place() {
    let queue = queue();
    for key in [1, 2, 1] {
        queue.add(key, Priority::Change);
    }
    assert_eq!(ready(&queue, 10).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_for_changes_takes_nothing_else() {
    let queue = queue();
    queue.add(1, Priority::Recheck);
    let none = tokio::time::timeout(Duration::from_secs(60), queue.take_changes(10)).await;
    assert!(none.is_err(), "{none:?}");
    queue.add(1, Priority::Change);
    assert_eq!(
        queue.take_changes(10).await,
        Some(vec![(1, Priority::Change)]),
        "raised to a change"
    );
    assert!(ready(&queue, 10).await.is_empty());
}

/// Raising the priority of one item must not scan the others: 100,000 take moments, not minutes.
#[tokio::test(start_paused = true)]
async fn raising_many_rechecks_is_fast() {
    let metrics = WorkqueueMetrics::register(&mut prometheus_client::registry::Registry::default());
    let queue = Queue::new(Limiter::NODES, metrics.queue("test"));
    queue.add_all(0..100_000_u32, Priority::Recheck);
    let started = std::time::Instant::now();
    (0..100_000)
        .rev()
        .for_each(|key| queue.add(key, Priority::Change));
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    let taken = queue.take_batch(200_000).await.unwrap();

    assert_eq!(
        (taken.len(), taken[0]),
        (100_000, (99_999, Priority::Change))
    );
}

fn with_bucket() -> Queue<u32> {
    let metrics = WorkqueueMetrics::register(&mut prometheus_client::registry::Registry::default());
    Queue::new(Limiter::NODES, metrics.queue("test"))
}

// Holds: N-18
#[tokio::test(start_paused = true)]
async fn conflict_retries_do_not_share_a_rate_limit() {
    let queue = with_bucket();
    let waits: HashSet<_> = (0..1000)
        .map(|key| queue.retry_after_conflict(key, Duration::from_millis(100), Priority::Change))
        .collect();
    assert_eq!(waits, HashSet::from([Duration::from_millis(100)]));

    assert_eq!(
        queue.retry(2000, queue.base(), Priority::Change),
        Duration::from_millis(5),
        "the bucket is full for what fails otherwise"
    );
    assert_eq!(
        queue.retry_after_conflict(1, Duration::from_millis(100), Priority::Change),
        Duration::from_millis(200)
    );
}

// Holds: N-03
#[tokio::test(start_paused = true)]
async fn failures_of_one_call_use_one_token_and_are_spread() {
    let metrics = WorkqueueMetrics::register(&mut prometheus_client::registry::Registry::default());
    let second = Limiter {
        base: Duration::from_secs(1),
        ..Limiter::NODES
    };
    let queue = Queue::new(second, metrics.queue("test"));
    for call in 0..100 {
        queue.retry_together((0..100).map(|key| call * 100 + key), true);
    }
    assert_eq!(ready_at(&queue, Duration::from_millis(849)).await, 0);
    assert!(
        (4000..6000).contains(&ready_at(&queue, Duration::from_millis(76)).await),
        "not all at once"
    );
    assert_eq!(
        ready_at(&queue, Duration::from_millis(76)).await,
        10_000,
        "none later than its failures ask for"
    );

    (0..20).for_each(|key| queue.retry_together([key + 20_000], true));
    assert_eq!(
        ready_at(&queue, Duration::from_millis(1001)).await,
        10_020,
        "tokens come back"
    );

    (0..110).for_each(|key| queue.retry_together([key + 30_000], true));
    assert!(
        ready_at(&queue, Duration::from_millis(1001)).await < 10_130,
        "and calls without end wait for theirs"
    );
}

/// Returns how many items are ready after this delay, without taking them.
async fn ready_at(queue: &Queue<u32>, wait: Duration) -> usize {
    sleep(wait).await;
    let mut state = queue.lock();
    queue.promote(&mut state);
    state.dirty.len()
}

#[tokio::test(start_paused = true)]
async fn endless_changes_do_not_starve_a_recheck() {
    let queue = queue();
    queue.add(255, Priority::Recheck);
    let mut taken = 0;
    loop {
        queue.add(1, Priority::Change);
        queue.add(2, Priority::Change);
        let key = ready(&queue, 1).await[0];
        if key == 255 {
            break;
        }
        taken += 1;
        assert!(taken < 100, "the re-check starves");
        queue.done(&key);
    }
    assert!(taken >= 10, "after {taken} changes only");
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_no_more_than_requested() {
    let queue = queue();
    for key in 0..5 {
        queue.add(key, Priority::Change);
    }
    assert_eq!(ready(&queue, 3).await, [0, 1, 2]);
    assert_eq!(ready(&queue, 3).await, [3, 4]);
}

// Holds: S-40
#[tokio::test(start_paused = true)]
async fn failures_back_off_until_they_are_forgotten() {
    let queue = queue();
    assert_eq!(
        queue.retry(1, queue.base(), Priority::Change),
        queue.base(),
        "the delay after the first failure"
    );
    assert_eq!(queue.base(), Duration::from_secs(5));
    assert_eq!(
        queue.retry(1, queue.base(), Priority::Change),
        Duration::from_secs(10)
    );

    queue.forget(&1);
    assert_eq!(
        queue.retry(1, queue.base(), Priority::Change),
        Duration::from_secs(5)
    );
    assert!(ready(&queue, 1).await.is_empty());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(ready(&queue, 1).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_earlier_counts() {
    let queue = queue();
    queue.add_after(1, Duration::from_secs(60), Priority::Change);
    queue.add_after(1, Duration::from_secs(2), Priority::Change);
    queue.add_after(1, Duration::from_secs(30), Priority::Change);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(ready(&queue, 1).await, [1]);
    queue.done(&1);
    sleep(Duration::from_secs(100)).await;
    assert!(ready(&queue, 1).await.is_empty());
}

// Holds: S-41
#[tokio::test(start_paused = true)]
async fn a_change_during_the_wait_is_ready_at_once_and_ends_the_wait() {
    let queue = queue();
    queue.retry(1, queue.base(), Priority::Change);
    queue.add(1, Priority::Change);
    assert_eq!(ready(&queue, 1).await, [1]);
    queue.done(&1);
    sleep(Duration::from_secs(60)).await;
    assert!(ready(&queue, 1).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_is_woken_for_a_delay_that_was_set_later() {
    let queue = Arc::new(queue());
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.take().await })
        })
        .collect();
    sleep(Duration::from_secs(1)).await;
    queue.add_after(1, Duration::from_secs(5), Priority::Change);
    queue.add(2, Priority::Change);
    let mut taken = HashSet::new();

    for worker in workers {
        taken.insert(worker.await.unwrap().unwrap().0);
    }
    assert_eq!(taken, HashSet::from([1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_takes_and_gives_nothing() {
    let queue = Arc::new(queue());
    let worker = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.take().await }
    });
    sleep(Duration::from_millis(1)).await;
    queue.close();
    assert_eq!(worker.await.unwrap(), None);
    queue.add(1, Priority::Change);
    assert_eq!(queue.take().await, None);
}

const PACE: Pace = Pace {
    interval: Duration::from_secs(10),
    burst: 2,
    in_flight: 1,
};

fn paced() -> Queue<u8> {
    let queue = queue();
    queue.pace(PACE);
    queue
}

#[tokio::test(start_paused = true)]
async fn paced_rechecks_are_sequential_and_changes_are_immediate() {
    let queue = paced();
    for key in 1..=4 {
        queue.add(key, Priority::Recheck);
    }
    assert_eq!(ready(&queue, 10).await, [1], "one at a time");

    queue.done(&1);
    assert_eq!(ready(&queue, 10).await, [2], "the burst");
    queue.add(9, Priority::Change);
    queue.add(4, Priority::Change);
    assert_eq!(ready(&queue, 10).await, [9, 4]);

    queue.done(&2);
    assert!(ready(&queue, 10).await.is_empty());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(ready(&queue, 10).await, [3]);

    [3, 4, 9].iter().for_each(|key| queue.done(key));
    sleep(Duration::from_secs(100)).await;
    assert!(
        ready(&queue, 10).await.is_empty(),
        "what was a change meanwhile needs no re-check"
    );
}

#[tokio::test(start_paused = true)]
async fn rechecks_due_together_are_spread_and_deduplicated() {
    let queue = paced();
    for key in 1..=4 {
        queue.add_after(key, Duration::from_secs(60), Priority::Recheck);
    }
    sleep(Duration::from_secs(60)).await;
    let mut taken = Vec::new();

    for _ in 0..50 {
        for key in ready(&queue, 1).await {
            taken.push(key);
            queue.done(&key);
        }
        for key in 3..=4 {
            if !taken.contains(&key) {
                queue.add(key, Priority::Recheck);
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(taken, [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_higher_priority_counts_too() {
    let queue = paced();
    queue.add(1, Priority::Recheck);
    queue.add(2, Priority::Recheck);
    queue.add(3, Priority::Recheck);
    queue.add_after(3, Duration::from_secs(20), Priority::Change);
    assert_eq!(ready(&queue, 10).await, [1]);
    sleep(Duration::from_secs(10)).await;
    // The other re-check waits, because only one may be processed at a time.
    assert_eq!(ready(&queue, 10).await, [3]);
}

// Holds: S-39
#[tokio::test(start_paused = true)]
async fn a_failed_recheck_is_retried_exactly_on_time() {
    let queue = queue();
    queue.pace(Pace {
        interval: Duration::from_secs(1),
        burst: 1,
        in_flight: 1,
    });
    (0..200).for_each(|n| queue.add(n, Priority::Recheck));
    assert_eq!(ready(&queue, 10).await, [0]);

    queue.add_attempt_after(0, Duration::from_millis(4300), Priority::Recheck);
    queue.done(&0);
    // Four others have become due by then; the one that failed goes ahead of them.
    sleep(Duration::from_millis(4299)).await;
    queue.add(250, Priority::Change);
    assert_eq!(ready(&queue, 1).await, [250], "changes go first");

    sleep(Duration::from_millis(1)).await;
    assert_eq!(ready(&queue, 1).await, [0]);
    queue.done(&0);
    assert_eq!(ready(&queue, 1).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn work_in_progress_is_measured() {
    let queue = queue();
    for (key, seconds) in [(1, 2), (2, 3)] {
        queue.add(key, Priority::Change);
        assert_eq!(ready(&queue, 1).await, [key]);
        sleep(Duration::from_secs(seconds)).await;
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(1), queue.observe())
            .await
            .is_err()
    );

    let metrics = &queue.metrics;
    assert_eq!(
        (
            metrics.unfinished_work.get().round(),
            metrics.longest_running.get().round()
        ),
        (8.0, 5.0)
    );
}

#[tokio::test(start_paused = true)]
async fn only_work_in_progress_is_measured_again_and_again() {
    let queue = queue();
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    let mut observing = pin!(queue.observe());
    let mut observe = || {
        assert!(
            observing
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        queue.metrics.unfinished_work.get()
    };

    assert_eq!(observe(), 0.0);
    advance(Duration::from_secs(3600)).await;
    assert_eq!(wakes.take(), 0, "nothing is processed");

    queue.add(1, Priority::Change);
    assert_eq!(ready(&queue, 1).await, [1]);
    assert_eq!(wakes.take(), 1, "an item was handed out");
    observe();
    for half_seconds in 1..4 {
        advance(GAUGE_PERIOD).await;
        assert_eq!(wakes.take(), 1);
        assert_eq!((observe() * 2.0).round(), f64::from(half_seconds));
    }

    queue.done(&1);
    advance(GAUGE_PERIOD).await;
    assert_eq!((wakes.take(), observe()), (1, 0.0));
    advance(Duration::from_secs(3600)).await;
    assert_eq!(wakes.take(), 0, "nothing is processed");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_item_wakes_workers_only_for_others() {
    let queue = queue();
    queue.add_all(1..=3, Priority::Change);
    assert_eq!(ready(&queue, 3).await, [1, 2, 3]);
    queue.add(4, Priority::Recheck);

    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    let mut worker = pin!(queue.take_changes(1));
    let mut take = || worker.as_mut().poll(&mut Context::from_waker(&waker));

    assert!(take().is_pending());
    queue.done(&1);
    assert_eq!(wakes.take(), 0, "no change waits");

    queue.add(2, Priority::Change);
    assert_eq!(wakes.take(), 1);
    assert!(take().is_pending(), "it is still being processed");
    queue.done(&2);
    assert_eq!(wakes.take(), 1, "it waits again");
    assert_eq!(take(), Poll::Ready(Some(vec![(2, Priority::Change)])));
    queue.done(&3);
    assert_eq!(wakes.take(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_recheck_wakes_workers_for_the_next_one() {
    let queue = queue();
    queue.pace(Pace {
        interval: Duration::ZERO,
        burst: 1,
        in_flight: 1,
    });
    queue.add_all(1..=2, Priority::Recheck);
    assert_eq!(ready(&queue, 2).await, [1]);

    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    let mut worker = pin!(queue.take_batch(2));
    let mut take = || worker.as_mut().poll(&mut Context::from_waker(&waker));

    assert!(take().is_pending());
    queue.done(&1);
    assert_eq!(wakes.take(), 1);
    assert_eq!(take(), Poll::Ready(Some(vec![(2, Priority::Recheck)])));
}

#[tokio::test(start_paused = true)]
async fn a_recheck_that_is_added_again_keeps_its_slot() {
    let queue = queue();
    queue.pace(Pace {
        interval: Duration::from_secs(1),
        burst: 1,
        in_flight: 10,
    });

    for key in [0, 1, 1, 1, 2] {
        queue.add(key, Priority::Recheck);
    }
    for key in [0, 1, 2] {
        assert_eq!(ready(&queue, 10).await, [key]);
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_due_retry_waits_while_its_item_is_in_progress() {
    let queue = queue();
    queue.add(1, Priority::Recheck);
    assert_eq!(ready(&queue, 1).await, [1]);
    queue.add_attempt_after(1, Duration::from_secs(1), Priority::Recheck);
    sleep(Duration::from_secs(2)).await;
    assert!(ready(&queue, 1).await.is_empty());
    queue.done(&1);
    assert_eq!(ready(&queue, 2).await, [1]);
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, bool),
    AddAfter(u8, u64),
    Retry(u8),
    Take(usize),
    Done(u8),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..4;
    let step = prop_oneof![
        (key.clone(), any::<bool>()).prop_map(|(key, change)| Step::Add(key, change)),
        (key.clone(), 0_u64..20).prop_map(|(key, seconds)| Step::AddAfter(key, seconds)),
        key.clone().prop_map(Step::Retry),
        (1_usize..4).prop_map(Step::Take),
        key.prop_map(Step::Done),
        (1_u64..30).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In all cases, no item has two workers, and each item that was added is handed out after its
    /// last addition, but not more often than it was added.
    #[test]
    fn no_item_is_lost_and_none_has_two_workers(steps in steps(), pacing in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = if pacing { paced() } else { queue() };
            let mut busy = HashSet::new();
            let mut owed = HashSet::new();
            let mut additions = [0_u32; 4];
            for step in steps {
                match step {
                    Step::Add(key, change) => {
                        queue.add(key, if change { Priority::Change } else { Priority::Recheck });
                        additions[usize::from(key)] += 1;
                        owed.insert(key);
                    }
                    Step::AddAfter(key, seconds) => {
                        queue.add_after(key, Duration::from_secs(seconds), Priority::Change);
                        additions[usize::from(key)] += 1;
                        owed.insert(key);
                    }
                    Step::Retry(key) => {
                        queue.retry(key, queue.base(), Priority::Change);
                        additions[usize::from(key)] += 1;
                        owed.insert(key);
                    }
                    Step::Take(max) => {
                        for key in ready(&queue, max).await {
                            assert!(busy.insert(key), "{key} has two workers");
                            assert!(additions[usize::from(key)] > 0, "{key} was handed out more often than added");
                            additions[usize::from(key)] -= 1;
                            owed.remove(&key);
                        }
                    }
                    Step::Done(key) => {
                        if busy.remove(&key) {
                            queue.done(&key);
                        }
                    }
                    Step::Wait(seconds) => sleep(Duration::from_secs(seconds)).await,
                }
            }
            for key in busy.drain() {
                queue.done(&key);
            }
            sleep(Duration::from_secs(1000)).await;
            // Only one re-check may be processed at a time.
            for _ in 0..4 {
                for key in ready(&queue, 100).await {
                    owed.remove(&key);
                    queue.done(&key);
                }
            }
            assert!(owed.is_empty(), "lost: {owed:?}");
        });
    }
}
