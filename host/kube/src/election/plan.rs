//! The rules of leader election, as pure functions: when to acquire, renew and give up the Lease.
//!
//! As in client-go, clocks of different machines are never compared: the rules depend on how long
//! *this* process has seen the Lease unchanged.

use std::time::{Duration, Instant};

use k8s_openapi::{
    api::coordination::v1::LeaseSpec,
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::{Timestamp, Unit},
};

/// The durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long other replicas wait for a leader that does not renew.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it stops.
    pub renew_deadline: Duration,
    /// Time between attempts.
    pub retry_period: Duration,
}

/// Why the durations are not valid (P-20: upstream panics at startup).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingsError {
    /// A leader could still be active when another one starts.
    #[error(
        "--leader-elect-lease-duration ({lease:?}) must be longer than --leader-elect-renew-deadline ({renew:?}); lease durations are \
         truncated to seconds"
    )]
    Lease {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// A leader would stop before its second attempt.
    #[error(
        "--leader-elect-renew-deadline ({renew:?}) must be longer than 1.2 times --leader-elect-retry-period ({retry:?})"
    )]
    Renew {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// A duration is too short: a Lease has whole seconds.
    #[error(
        "--leader-elect-lease-duration must be at least 1s, and --leader-elect-retry-period more than 0"
    )]
    Short,
}

impl Timings {
    /// Creates timings from the durations.
    ///
    /// # Errors
    /// If the durations are not valid together.
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, TimingsError> {
        if lease < Duration::from_secs(1) || retry.is_zero() {
            return Err(TimingsError::Short);
        }

        // The Lease contains whole seconds, which other replicas use.
        let lease = Duration::from_secs(lease.as_secs());
        if lease <= renew {
            return Err(TimingsError::Lease { lease, renew });
        }
        if renew <= retry.mul_f64(1.2) {
            return Err(TimingsError::Renew { renew, retry });
        }

        Ok(Self {
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
        })
    }

    /// Returns the timeout of one request; the same as in client-go. It leaves time for another
    /// request, so that a dead connection does not cause the loss of the Lease.
    #[must_use]
    pub(super) fn request_limit(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Returns the safety margin: this replica must stop this long before others may lead, since
    /// exiting takes time.
    fn margin(&self) -> Duration {
        (self.lease_duration.saturating_sub(self.renew_deadline) / 2).min(Duration::from_secs(1))
    }
}

/// A replica that wants to hold the Lease.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) identity: String,
    pub(super) timings: Timings,
}

/// A Lease, and since when this process has seen it unchanged.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    spec: LeaseSpec,
    since: Instant,
}

impl Observed {
    pub(super) fn new(spec: LeaseSpec, now: Instant) -> Self {
        Self { spec, since: now }
    }

    /// Returns true if another replica holds the Lease, or held it and has not released it.
    pub(super) fn is_of_another(&self, candidate: &Candidate) -> bool {
        let holder = self.spec.holder_identity.as_deref().unwrap_or_default();
        !holder.is_empty() && holder != candidate.identity
    }

    /// Returns how long nobody has renewed the Lease; `None` if this candidate holds it. The only
    /// comparison with the clock of another machine, and no rule of the election depends on it.
    pub(super) fn unattended(&self, candidate: &Candidate, now: Timestamp) -> Option<Duration> {
        if self.spec.holder_identity.as_deref() == Some(&candidate.identity) {
            return None;
        }

        let Some(MicroTime(renewed)) = self.spec.renew_time else {
            return Some(Duration::MAX);
        };
        // A time in the future was written with another clock.
        Some(Duration::try_from(now.duration_since(renewed)).unwrap_or_default())
    }

    /// Returns the observation after a read of the Lease; its time restarts if anything in the
    /// Lease has changed.
    pub(super) fn update(before: Option<Self>, spec: LeaseSpec, now: Instant) -> Self {
        before
            .filter(|before| before.spec == spec)
            .unwrap_or(Self { spec, since: now })
    }
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Acquire the Lease.
    Take,
    /// Wait: the Lease of the current holder expires after this time.
    Wait(Duration),
}

pub(super) fn step(observed: &Observed, candidate: &Candidate, now: Instant) -> Step {
    if !observed.is_of_another(candidate) {
        return Step::Take;
    }

    // The holder's own duration applies: its flags may differ.
    let duration = observed
        .spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(candidate.timings.lease_duration, Duration::from_secs);

    match (observed.since + duration).saturating_duration_since(now) {
        Duration::ZERO => Step::Take,
        left => Step::Wait(left),
    }
}

/// Returns the time until which renewals may be attempted. Other replicas count from the arrival
/// of the write at the API server, which may be any time between sending and the answer. When they
/// may lead, this replica must have stopped.
pub(super) fn deadline(sent: Instant, answered: Instant, timings: &Timings) -> Instant {
    (answered + timings.renew_deadline)
        .min(sent + timings.lease_duration.saturating_sub(timings.margin()))
}

/// Returns the Lease as held by this candidate. A change of the holder counts as a transition.
pub(super) fn held(before: LeaseSpec, candidate: &Candidate, now: Timestamp) -> LeaseSpec {
    let now = micro_time(now);
    let same = before.holder_identity.as_deref() == Some(&candidate.identity);
    let transitions = before.lease_transitions.unwrap_or(0);

    // As in client-go: a new Lease starts with 0, and the next holder after a release counts as a
    // transition, also if somebody has removed the holder.
    let new = before.holder_identity.is_none() && before.lease_transitions.is_none();

    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: Some(
            i32::try_from(candidate.timings.lease_duration.as_secs()).unwrap_or(i32::MAX),
        ),
        acquire_time: if same {
            before.acquire_time
        } else {
            Some(now.clone())
        },
        renew_time: Some(now),
        lease_transitions: Some(if same || new {
            transitions
        } else {
            transitions.saturating_add(1)
        }),
        preferred_holder: before.preferred_holder,
        strategy: before.strategy,
    }
}

/// Returns the released Lease: without a holder and with a short duration, as in client-go.
pub(super) fn released(before: LeaseSpec, now: Timestamp) -> LeaseSpec {
    let now = micro_time(now);
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        ..before
    }
}

/// Rounds to microseconds, the precision of Leases, so that the written value equals the value that
/// is read back.
fn micro_time(now: Timestamp) -> MicroTime {
    MicroTime(now.round(Unit::Microsecond).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn candidate(identity: &str) -> Candidate {
        let timings = Timings::new(15 * SECOND, 10 * SECOND, 2 * SECOND).unwrap();
        Candidate {
            identity: identity.to_owned(),
            timings,
        }
    }

    fn lease(holder: &str, seconds: i32, renewed: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(MicroTime(renewed.parse().unwrap())),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    const T0: &str = "2026-01-01T00:00:00Z";
    const T1: &str = "2026-01-01T00:00:02Z";

    #[test]
    fn a_lease_without_holder_is_taken_at_once() {
        let now = Instant::now();
        for spec in [LeaseSpec::default(), lease("", 1, T0)] {
            assert_eq!(
                step(&Observed::new(spec, now), &candidate("a"), now),
                Step::Take
            );
        }
    }

    #[test]
    fn a_held_lease_is_taken_only_after_its_own_duration() {
        let now = Instant::now();
        let observed = Observed::new(lease("b", 30, T0), now);
        assert_eq!(
            step(&observed, &candidate("a"), now),
            Step::Wait(30 * SECOND)
        );
        assert_eq!(
            step(&observed, &candidate("a"), now + 29 * SECOND),
            Step::Wait(SECOND)
        );
        assert_eq!(
            step(&observed, &candidate("a"), now + 30 * SECOND),
            Step::Take
        );
    }

    #[test]
    fn each_renewal_restarts_the_wait_regardless_of_the_clock() {
        let start = Instant::now();
        let first = Observed::update(None, lease("b", 15, T0), start);
        let unchanged =
            Observed::update(Some(first.clone()), lease("b", 15, T0), start + 10 * SECOND);
        assert_eq!(
            step(&unchanged, &candidate("a"), start + 15 * SECOND),
            Step::Take
        );
        let renewed = Observed::update(Some(first), lease("b", 15, T1), start + 10 * SECOND);

        assert_eq!(
            step(&renewed, &candidate("a"), start + 15 * SECOND),
            Step::Wait(10 * SECOND)
        );
    }

    #[test]
    fn a_candidate_takes_its_own_lease_again() {
        let now = Instant::now();
        assert_eq!(
            step(
                &Observed::new(lease("a", 15, T0), now),
                &candidate("a"),
                now
            ),
            Step::Take
        );
    }

    #[test]
    fn a_late_renewal_expires_with_the_lease_seen_by_others() {
        let sent = Instant::now();
        let timings = candidate("a").timings;
        for (took, left) in [(0, 10), (2, 12), (4, 14), (5, 14), (9, 14)] {
            assert_eq!(
                deadline(sent, sent + took * SECOND, &timings),
                sent + left * SECOND,
                "answered after {took} s"
            );
        }
    }

    #[test]
    fn transitions_count_changes_of_holder() {
        let now: Timestamp = T1.parse().unwrap();
        assert_eq!(
            held(LeaseSpec::default(), &candidate("a"), now).lease_transitions,
            Some(0)
        );
        assert_eq!(
            held(lease("b", 15, T0), &candidate("a"), now).lease_transitions,
            Some(4)
        );
        assert_eq!(
            held(lease("", 1, T0), &candidate("a"), now).lease_transitions,
            Some(4)
        );
        assert_eq!(
            held(lease("a", 15, T0), &candidate("a"), now).lease_transitions,
            Some(3)
        );

        let without_holder = LeaseSpec {
            holder_identity: None,
            ..lease("b", 15, T0)
        };
        assert_eq!(
            held(without_holder, &candidate("a"), now).lease_transitions,
            Some(4)
        );
    }

    #[test]
    fn a_lease_is_unattended_since_its_last_renewal() {
        let unattended = |spec: LeaseSpec, now: &str| {
            let observed = Observed::new(spec, Instant::now());
            observed.unattended(&candidate("a"), now.parse().unwrap())
        };
        for holder in ["b", ""] {
            assert_eq!(unattended(lease(holder, 15, T0), T1), Some(2 * SECOND));
            let other_clock = unattended(lease(holder, 15, T1), T0);
            assert_eq!(other_clock, Some(Duration::ZERO));
        }
        assert_eq!(unattended(lease("a", 15, T0), T1), None);
        assert_eq!(unattended(LeaseSpec::default(), T1), Some(Duration::MAX));
    }

    #[test]
    fn a_renewal_keeps_the_acquire_time() {
        let first = held(LeaseSpec::default(), &candidate("a"), T0.parse().unwrap());
        let second = held(first.clone(), &candidate("a"), T1.parse().unwrap());
        assert_eq!(second.acquire_time, first.acquire_time);
        assert_ne!(second.renew_time, first.renew_time);
    }

    #[test]
    fn a_released_lease_has_no_holder_and_is_short() {
        let spec = released(lease("a", 15, T0), T1.parse().unwrap());
        let now = Some(MicroTime(T1.parse().unwrap()));
        assert_eq!((&spec.acquire_time, &spec.renew_time), (&now, &now));
        assert_eq!(
            (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
            (Some(""), Some(1))
        );
        assert_eq!(spec.lease_transitions, Some(3));
    }

    // Holds: P-20
    #[test]
    fn the_lease_duration_is_cut_to_whole_seconds() {
        let millis = Duration::from_millis;
        let rejected = Timings::new(millis(15_900), millis(15_500), 2 * SECOND);
        assert_eq!(
            rejected,
            Err(TimingsError::Lease {
                lease: 15 * SECOND,
                renew: millis(15_500)
            })
        );

        let taken = Timings::new(millis(15_900), millis(14_900), 2 * SECOND).unwrap();
        assert_eq!(taken.lease_duration, 15 * SECOND);
        // The process has ended when another one may lead, even if the difference between the
        // durations is small.
        let sent = Instant::now();
        assert_eq!(deadline(sent, sent + SECOND, &taken), sent + millis(14_950));
    }

    #[test]
    fn the_request_limit_leaves_time_for_a_retry() {
        let limit = |renew| {
            Timings::new(60 * SECOND, renew * SECOND, SECOND)
                .unwrap()
                .request_limit()
        };
        assert_eq!([10, 40, 2].map(limit), [5 * SECOND, 20 * SECOND, SECOND]);
    }

    // Holds: P-20
    #[test]
    fn durations_must_leave_room_for_each_other() {
        assert!(matches!(
            Timings::new(10 * SECOND, 10 * SECOND, 2 * SECOND),
            Err(TimingsError::Lease { .. })
        ));
        assert!(matches!(
            Timings::new(15 * SECOND, 10 * SECOND, 9 * SECOND),
            Err(TimingsError::Renew { .. })
        ));
        assert_eq!(
            Timings::new(15 * SECOND, 10 * SECOND, Duration::ZERO),
            Err(TimingsError::Short)
        );
    }
}
