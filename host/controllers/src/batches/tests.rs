use std::sync::Mutex;

use skydock_cloud::Retry;
use tokio::time::sleep;

use super::*;

const DEADLINE: Duration = Duration::from_secs(30);

/// A provider of numbers. Some numbers make each call that contains them fail.
struct Numbers {
    fails: fn(&[u32]) -> Option<(Duration, CloudError)>,
    calls: Mutex<Vec<usize>>,
    handled: Mutex<Vec<(Duration, Answered<u32, u32>)>>,
    start: Instant,
}

impl Numbers {
    fn new(fails: fn(&[u32]) -> Option<(Duration, CloudError)>) -> Self {
        Self {
            fails,
            calls: Mutex::default(),
            handled: Mutex::default(),
            start: Instant::now(),
        }
    }

    async fn ask_all(&self, count: u32, max: usize) {
        ask_all(
            self,
            (0..count).map(|number| (number, BatchLimit::default())),
            max,
            &Lanes::new(4),
        )
        .await;
    }

    /// Returns the numbers without an answer, and the time at which the last of the others was
    /// answered.
    fn unanswered(&self) -> (Vec<u32>, Duration) {
        let handled = self.handled.lock().unwrap();
        let good = |answered: &Answered<u32, u32>| matches!(answered.result, Some(Ok(number)) if number == answered.item);
        let bad = handled
            .iter()
            .filter(|(_, answered)| !good(answered))
            .map(|(_, answered)| answered.item);
        let last = handled
            .iter()
            .filter(|(_, answered)| good(answered))
            .map(|(at, _)| *at)
            .max();
        (bad.collect(), last.unwrap_or_default())
    }

    fn batch_limit(&self, number: u32) -> BatchLimit {
        self.handled
            .lock()
            .unwrap()
            .iter()
            .find(|(_, answered)| answered.item == number)
            .unwrap()
            .1
            .batch_limit
    }
}

#[async_trait]
impl Ask for Numbers {
    type Item = u32;
    type Answer = u32;

    async fn ask(&self, batch: &[u32]) -> Option<Result<Answers<u32>, CloudError>> {
        self.calls.lock().unwrap().push(batch.len());
        let Some((after, error)) = (self.fails)(batch) else {
            return Some(Ok(batch.iter().map(|number| Ok(*number)).collect()));
        };
        sleep(after).await;
        Some(Err(error))
    }

    async fn handle(&self, answered: Vec<Answered<u32, u32>>) {
        let at = self.start.elapsed();
        self.handled
            .lock()
            .unwrap()
            .extend(answered.into_iter().map(|answered| (at, answered)));
    }
}

fn trap() -> CloudError {
    CloudError::Internal("it trapped".into())
}

fn late() -> CloudError {
    CloudError::Unavailable("it did not answer within 30s".into())
}

#[tokio::test(start_paused = true)]
async fn an_item_that_traps_or_times_out_delays_no_other() {
    let numbers = Numbers::new(|batch| match batch {
        batch if batch.contains(&17) => Some((Duration::ZERO, trap())),
        batch if batch.contains(&71) => Some((DEADLINE, late())),
        _ => None,
    });
    numbers.ask_all(100, 100).await;
    let (bad, last) = numbers.unanswered();
    assert_eq!(bad, [17, 71]);
    assert_eq!(
        last, DEADLINE,
        "all others have their answer when the first call is over"
    );
    assert_eq!(
        numbers.batch_limit(17),
        BatchLimit {
            size: 1,
            slow: false
        }
    );
    assert_eq!(
        numbers.batch_limit(71),
        BatchLimit {
            size: 1,
            slow: true
        }
    );
    assert_eq!(numbers.handled.lock().unwrap().len(), 100, "each once");
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_cloud_gets_few_calls_and_batches_stay_large() {
    for after in [Duration::ZERO, DEADLINE] {
        let numbers = Numbers::new(match after {
            Duration::ZERO => |_| Some((Duration::ZERO, late())),
            _ => |_| Some((DEADLINE, late())),
        });
        numbers.ask_all(100, 100).await;
        assert_eq!(numbers.unanswered().0.len(), 100);
        let calls = numbers.calls.lock().unwrap().clone();
        assert!(calls.len() <= 6, "{calls:?}");
        let smaller = (0..100)
            .filter(|number| numbers.batch_limit(*number) != BatchLimit::default())
            .count();
        assert!(smaller <= 4, "{smaller} would go in smaller batches");
    }
}

#[tokio::test(start_paused = true)]
async fn many_trapping_items_do_not_block_the_others() {
    let numbers = Numbers::new(|batch| {
        batch
            .iter()
            .any(|number| number % 10 == 3)
            .then(|| (Duration::from_millis(1), trap()))
    });
    let lanes = Lanes::new(4);
    // Before the cloud is considered unavailable, a single number is queried, which may be one that
    // traps.
    for _ in 0..6 {
        let known: Vec<_> = {
            let handled = numbers.handled.lock().unwrap();
            let batch_limit = |number| {
                handled
                    .iter()
                    .rev()
                    .find(|(_, answered)| answered.item == number)
            };
            (0..100)
                .map(|number| {
                    (
                        number,
                        batch_limit(number)
                            .map_or(BatchLimit::default(), |(_, answered)| answered.batch_limit),
                    )
                })
                .collect()
        };
        ask_all(&numbers, known, 100, &lanes).await;
    }

    let handled = numbers.handled.lock().unwrap();
    let answered: std::collections::HashSet<_> = handled
        .iter()
        .filter(|(_, it)| matches!(it.result, Some(Ok(_))))
        .map(|(_, it)| it.item)
        .collect();
    let left: Vec<_> = (0..100)
        .filter(|number| number % 10 != 3 && !answered.contains(number))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn throttling_progress_and_conflicts_do_not_split_a_batch() {
    let retry = || Retry {
        after: Duration::from_secs(7),
        message: String::new(),
    };
    for error in [
        CloudError::Throttled(retry()),
        CloudError::InProgress(retry()),
        CloudError::Conflict(String::new()),
    ] {
        let failure = Failure {
            error: &error,
            size: 100,
            took: DEADLINE,
        };
        assert_eq!(failure.retry_size(), None, "{error}");
        assert_eq!(
            BatchLimit::default().failed(&failure),
            BatchLimit::default(),
            "{error}"
        );
        assert_eq!(failure.of_each(), error);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_counts_only_for_a_single_item() {
    for error in [
        CloudError::Invalid("bad".into()),
        CloudError::ImplementedElsewhere,
    ] {
        let of_each = |size| {
            Failure {
                error: &error,
                size,
                took: Duration::ZERO,
            }
            .of_each()
        };
        assert_eq!(of_each(1), error);
        assert!(matches!(of_each(2), CloudError::Internal(_)), "{error}");
    }
    let numbers = Numbers::new(|batch| {
        batch
            .contains(&3)
            .then(|| (Duration::ZERO, CloudError::Invalid("3".into())))
    });
    numbers.ask_all(10, 10).await;
    assert_eq!(numbers.unanswered().0, [3]);
}

#[test]
fn a_failed_batch_is_halved_or_split_into_singles_if_slow() {
    let quick = Duration::from_millis(4999);
    for (size, took, pieces, batch_limit) in [
        (
            100,
            quick,
            Some(50),
            BatchLimit {
                size: 50,
                slow: false,
            },
        ),
        (
            3,
            quick,
            Some(1),
            BatchLimit {
                size: 1,
                slow: false,
            },
        ),
        (
            100,
            SLOW,
            Some(1),
            BatchLimit {
                size: 1,
                slow: false,
            },
        ),
        (
            1,
            quick,
            None,
            BatchLimit {
                size: 1,
                slow: false,
            },
        ),
        (
            1,
            SLOW,
            None,
            BatchLimit {
                size: 1,
                slow: true,
            },
        ),
    ] {
        let error = late();
        let failure = Failure {
            error: &error,
            size,
            took,
        };
        assert_eq!(
            (failure.retry_size(), BatchLimit::default().failed(&failure)),
            (pieces, batch_limit),
            "{size} {took:?}"
        );
    }
}

#[test]
fn the_batch_size_doubles_after_each_answer() {
    let mut batch_limit = BatchLimit {
        size: 1,
        slow: true,
    };
    let mut sizes = Vec::new();
    for _ in 0..5 {
        batch_limit = batch_limit.answered(10);
        sizes.push(batch_limit.size);
    }
    assert_eq!(sizes, [2, 4, 8, usize::MAX, usize::MAX]);
    assert!(!batch_limit.slow);
}

#[test]
fn batches_are_filled_with_items_of_the_same_fit() {
    let batch_limit = |size| BatchLimit { size, slow: false };
    let slow = BatchLimit {
        size: 1,
        slow: true,
    };

    let items = [
        ("a", BatchLimit::default()),
        ("b", slow),
        ("c", batch_limit(2)),
        ("d", BatchLimit::default()),
        ("e", batch_limit(1)),
        ("f", batch_limit(2)),
    ];
    let names = |max| -> Vec<String> {
        let batches = in_batches(items, max);
        batches
            .iter()
            .map(|batch| batch.iter().map(|(name, _)| *name).collect())
            .collect()
    };
    assert_eq!(names(100), ["ad", "cf", "e", "b"]);
    assert_eq!(names(2), ["ac", "df", "e", "b"]);
    assert_eq!(names(1), ["a", "c", "d", "e", "f", "b"]);
}

#[test]
fn each_batch_size_has_its_own_lane() {
    let lanes = Lanes::new(4);
    let is = |batch_limit, lane| std::ptr::eq(lanes.of(batch_limit, 100), lane);
    assert!(
        is(BatchLimit::default(), &lanes.first)
            && is(
                BatchLimit {
                    size: 100,
                    slow: false
                },
                &lanes.first
            )
    );
    assert!(
        is(
            BatchLimit {
                size: 99,
                slow: false
            },
            &lanes.pieces
        ) && is(
            BatchLimit {
                size: 2,
                slow: false
            },
            &lanes.pieces
        )
    );
    assert!(
        is(
            BatchLimit {
                size: 1,
                slow: false
            },
            &lanes.single
        ) && is(
            BatchLimit {
                size: 1,
                slow: true
            },
            &lanes.slow
        )
    );
}

/// Returns lanes in which the last calls have all failed.
fn dead_lanes() -> Lanes {
    let lanes = Lanes::new(4);
    lanes.strikes.store(STRIKES, Ordering::Relaxed);
    lanes
}

#[tokio::test(start_paused = true)]
async fn one_answered_item_shows_that_the_cloud_is_available() {
    let numbers = Numbers::new(|batch| batch.contains(&3).then(|| (Duration::ZERO, trap())));
    for first in [0, 2] {
        numbers.handled.lock().unwrap().clear();
        ask_all(
            &numbers,
            (first..4).map(|number| (number, BatchLimit::default())),
            4,
            &dead_lanes(),
        )
        .await;
        assert_eq!(numbers.unanswered().0, [3]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_is_not_blamed_while_the_cloud_is_unavailable() {
    let numbers = Numbers::new(|_| Some((Duration::ZERO, late())));
    ask_all(
        &numbers,
        [(0, BatchLimit::default())].into_iter(),
        100,
        &dead_lanes(),
    )
    .await;
    assert_eq!(numbers.batch_limit(0), BatchLimit::default());
}

#[tokio::test(start_paused = true)]
async fn slow_single_items_do_not_delay_other_items() {
    let numbers = Numbers::new(|batch| (batch[0] < 20).then(|| (DEADLINE, late())));
    let slow = (0..20).map(|number| {
        (
            number,
            BatchLimit {
                size: 1,
                slow: true,
            },
        )
    });
    let others = (20..24).map(|number| {
        (
            number,
            BatchLimit {
                size: 1,
                slow: false,
            },
        )
    });

    let lanes = Lanes::new(4);
    ask_all(&numbers, slow.chain(others), 100, &lanes).await;
    assert_eq!(
        numbers.unanswered().1,
        Duration::ZERO,
        "nobody waited for those"
    );
}

// Holds: N-09, N-38
#[test]
fn missing_answers_are_errors_and_extra_ones_are_ignored() {
    let few: Vec<_> = complete(vec![Ok(1)], 2).collect();
    assert_eq!(few[0], Ok(1));
    assert!(matches!(few[1], Err(CloudError::Internal(_))), "{few:?}");
    assert_eq!(complete(vec![Ok(1), Ok(2)], 1).collect::<Vec<_>>(), [Ok(1)]);
}
