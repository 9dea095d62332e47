//! Tracks changes that failed, and when to retry them. If this is lost, it only costs one more
//! attempt for each.

use std::{collections::HashMap, time::Duration};

use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::CloudError;
use skydock_controller_base::calls::{
    progress::ProgressTracker,
    retry::{self, RetryWhen},
};
use skydock_kube::queue::Limiter;
use tokio::time::Instant;

use super::{changes::Change, network::RouteState};

/// Delay after a failure: 1 s, doubling up to a minute.
pub(super) const LIMITER: Limiter = Limiter {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
    bucket: None,
};

/// When to retry something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Next {
    /// The earliest time; `None` if not by itself.
    pub(super) at: Option<Instant>,
    /// The earliest time that the cloud has asked for.
    pub(super) asked: Option<Instant>,
}

impl Next {
    /// Returns when to retry after this error and this many earlier failures.
    pub(super) fn after(error: &CloudError, failures: u32, now: Instant) -> Self {
        let again = RetryWhen::after(error);
        let at = again.delay(&LIMITER, failures).map(|wait| now + wait);
        Self {
            at,
            asked: at.filter(|_| matches!(again, RetryWhen::After(_))),
        }
    }

    /// Returns the earlier times of the two.
    pub(super) fn or(self, other: Self) -> Self {
        let earlier = |one: Option<Instant>, other| one.into_iter().chain(other).min();
        Self {
            at: earlier(self.at, other.at),
            asked: earlier(self.asked, other.asked),
        }
    }
}

/// Changes of one kind that failed, by key.
pub(super) struct Tries<T>(HashMap<String, Tried<T>>);

struct Tried<T> {
    change: T,
    failures: u32,
    /// When to retry; if not by itself, then when the change is different because the node has
    /// changed.
    next: Next,
    state: RouteState,
    /// Maximum size of the next batch with this change.
    batch: usize,
    /// How long the cloud has answered that an operation is in progress.
    progress: ProgressTracker,
}

impl<T> Default for Tries<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Change> Tries<T> {
    /// Returns what is known about exactly this change. A different change of the same route was
    /// not tried.
    fn get(&self, change: &T) -> Option<&Tried<T>> {
        self.0
            .get(&change.key())
            .filter(|tried| tried.change == *change)
    }

    /// Returns true if the change was not tried, or its delay is over.
    pub(super) fn due(&self, change: &T, now: Instant) -> bool {
        self.get(change)
            .is_none_or(|tried| tried.next.at.is_some_and(|next| next <= now))
    }

    /// Returns the maximum size of a batch with this change.
    pub(super) fn batch(&self, change: &T) -> usize {
        self.get(change).map_or(usize::MAX, |tried| tried.batch)
    }

    /// Returns the state of the route after failures; `None` if there were none.
    pub(super) fn state(&self, change: &T) -> Option<RouteState> {
        self.get(change).map(|tried| tried.state)
    }

    /// Records a failure. `spoiled` is the size of the batch if it failed as a whole.
    ///
    /// A single element may make a whole batch fail. Such batches are therefore halved until the
    /// good elements succeed.
    ///
    /// Returns how long the operation has been in progress if it is to be reported.
    pub(super) fn failed(
        &mut self,
        change: T,
        error: &CloudError,
        spoiled: Option<usize>,
        now: Instant,
        long: &Gauge,
    ) -> Option<Duration> {
        let (failures, batch, mut progress) = self.get(&change).map_or_else(
            || (0, usize::MAX, ProgressTracker::default()),
            |it| (it.failures, it.batch, it.progress.clone()),
        );

        let lasted = progress.track(error, long, now);
        let tried = Tried {
            failures: failures.saturating_add(1),
            next: Next::after(error, failures, now),
            state: match error {
                CloudError::ImplementedElsewhere => RouteState::Unknown,
                error if failures == 0 && retry::is_temporary(error) => RouteState::FirstTryFailed,
                _ => RouteState::Missing,
            },
            batch: spoiled.map_or(batch, |size| (size / 2).max(1)),
            progress,
            change,
        };

        self.0.insert(tried.change.key(), tried);
        lasted
    }

    /// Forgets all changes except these.
    pub(super) fn keep<'a>(&mut self, changes: impl Iterator<Item = &'a T>)
    where
        T: 'a,
    {
        let mut kept = HashMap::new();
        for change in changes {
            if self.get(change).is_some()
                && let Some(tried) = self.0.remove_entry(&change.key())
            {
                kept.insert(tried.0, tried.1);
            }
        }

        self.0 = kept;
    }

    pub(super) fn succeeded(&mut self, change: &T) {
        self.0.remove(&change.key());
    }

    /// Returns when the first of the changes that can be tried is due.
    pub(super) fn next(&self, can_be_tried: impl Fn(&T) -> bool) -> Next {
        let tried = self.0.values().filter(|tried| can_be_tried(&tried.change));
        tried
            .map(|tried| tried.next)
            .fold(Next::default(), Next::or)
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{Retry, Route};

    use super::*;

    fn route(name: &str) -> Route {
        Route {
            name: name.into(),
            target_node: None,
            target_addresses: None,
            destination_cidr: "10.0.0.0/24".into(),
            blackhole: false,
        }
    }

    fn unavailable() -> CloudError {
        CloudError::Unavailable("away".into())
    }

    // Holds: R-05
    #[test]
    fn each_error_decides_when_a_change_is_due_again() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let retry = || Retry {
            after: Duration::from_secs(7),
            message: String::new(),
        };
        for (error, wait) in [
            (CloudError::NotFound("x".into()), Some(second)),
            (unavailable(), Some(second)),
            (CloudError::Denied("x".into()), Some(second)),
            (CloudError::Internal("x".into()), Some(second)),
            (CloudError::Throttled(retry()), Some(7 * second)),
            (CloudError::InProgress(retry()), Some(7 * second)),
            (CloudError::Conflict("x".into()), Some(second / 10)),
            (CloudError::Invalid("x".into()), None),
            (CloudError::ImplementedElsewhere, None),
        ] {
            let mut tries = Tries::default();
            assert!(tries.due(&route("a"), now));
            tries.failed(route("a"), &error, None, now, &Gauge::default());
            let next = tries.next(|_| true);
            assert_eq!(next.at, wait.map(|wait| now + wait), "{error}");
            let asked = matches!(error, CloudError::Throttled(_) | CloudError::InProgress(_));
            assert_eq!(next.asked, next.at.filter(|_| asked), "{error}");
            assert!(!tries.due(&route("a"), now), "{error}");
            assert_eq!(
                tries.due(&route("a"), now + 3600 * second),
                wait.is_some(),
                "{error}"
            );
            assert!(tries.due(&route("b"), now));
            assert!(
                tries.due(
                    &Route {
                        blackhole: true,
                        ..route("a")
                    },
                    now
                ),
                "another change is new: {error}"
            );
        }
    }

    #[test]
    fn the_earliest_times_are_those_of_any_change() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut tries = Tries::default();

        let asked = |after| {
            CloudError::InProgress(Retry {
                after,
                message: String::new(),
            })
        };
        for (name, error, at, reported) in [
            ("a", asked(50 * second), Some(50), Some(50)),
            ("b", asked(70 * second), Some(50), Some(50)),
            ("c", unavailable(), Some(1), Some(50)),
            ("d", CloudError::Invalid("x".into()), Some(1), Some(50)),
        ] {
            tries.failed(route(name), &error, None, now, &Gauge::default());
            let later = |seconds: Option<u32>| seconds.map(|seconds| now + seconds * second);
            assert_eq!(
                tries.next(|_| true),
                Next {
                    at: later(at),
                    asked: later(reported)
                },
                "{name}"
            );
        }
        assert_eq!(tries.next(|route| route.name == "d"), Next::default());
    }

    // Holds: R-05
    #[test]
    fn the_wait_doubles_up_to_a_minute_and_resets_on_success() {
        let mut now = Instant::now();
        let mut tries = Tries::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            tries.failed(route("a"), &unavailable(), None, now, &Gauge::default());
            let next = tries.next(|_| true).at.unwrap();
            waits.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        tries.succeeded(&route("a"));
        assert_eq!(tries.next(|_| true), Next::default());
        tries.failed(route("a"), &unavailable(), None, now, &Gauge::default());
        assert_eq!(tries.next(|_| true).at, Some(now + Duration::from_secs(1)));
    }

    // Holds: R-11
    #[test]
    fn a_failed_batch_is_halved_until_each_route_is_alone() {
        let (now, mut tries) = (Instant::now(), Tries::default());
        assert_eq!(tries.batch(&route("a")), usize::MAX);
        for (size, next) in [(5, 2), (2, 1), (1, 1)] {
            tries.failed(
                route("a"),
                &unavailable(),
                Some(size),
                now,
                &Gauge::default(),
            );
            assert_eq!(tries.batch(&route("a")), next);
        }
        tries.failed(route("a"), &unavailable(), None, now, &Gauge::default());
        assert_eq!(tries.batch(&route("a")), 1);
        assert_eq!(tries.batch(&route("b")), usize::MAX);
    }

    // Holds: R-23
    #[test]
    fn a_first_transient_failure_is_shaky_and_a_second_missing() {
        let (now, mut tries) = (Instant::now(), Tries::default());
        let retry = || Retry {
            after: Duration::from_secs(7),
            message: String::new(),
        };
        for (name, error, first, second) in [
            (
                "a",
                CloudError::Throttled(retry()),
                RouteState::FirstTryFailed,
                RouteState::Missing,
            ),
            (
                "b",
                CloudError::InProgress(retry()),
                RouteState::FirstTryFailed,
                RouteState::Missing,
            ),
            (
                "c",
                CloudError::Conflict("x".into()),
                RouteState::FirstTryFailed,
                RouteState::Missing,
            ),
            (
                "d",
                unavailable(),
                RouteState::FirstTryFailed,
                RouteState::Missing,
            ),
            (
                "e",
                CloudError::NotFound("x".into()),
                RouteState::Missing,
                RouteState::Missing,
            ),
            (
                "f",
                CloudError::Denied("x".into()),
                RouteState::Missing,
                RouteState::Missing,
            ),
            (
                "g",
                CloudError::Invalid("x".into()),
                RouteState::Missing,
                RouteState::Missing,
            ),
            (
                "h",
                CloudError::Internal("x".into()),
                RouteState::Missing,
                RouteState::Missing,
            ),
            (
                "i",
                CloudError::ImplementedElsewhere,
                RouteState::Unknown,
                RouteState::Unknown,
            ),
        ] {
            assert_eq!(tries.state(&route(name)), None);
            for expected in [first, second] {
                tries.failed(route(name), &error, None, now, &Gauge::default());
                assert_eq!(tries.state(&route(name)), Some(expected), "{error}");
            }
        }
    }

    // Holds: R-22
    #[test]
    fn failures_of_unwanted_changes_are_forgotten() {
        let (now, mut tries) = (Instant::now(), Tries::default());
        for name in ["a", "b"] {
            tries.failed(
                route(name),
                &CloudError::Invalid("x".into()),
                None,
                now,
                &Gauge::default(),
            );
        }
        tries.keep([route("b"), route("c")].iter());
        assert!(tries.due(&route("a"), now) && !tries.due(&route("b"), now));

        tries.keep(
            [Route {
                blackhole: true,
                ..route("b")
            }]
            .iter(),
        );
        assert!(tries.due(&route("b"), now));
    }
}
