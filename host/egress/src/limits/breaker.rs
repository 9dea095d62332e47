//! A circuit breaker for each host: requests to a host that does not answer fail fast and do not
//! use up the time of calls. It is never counted as a failure of the plugin.

use std::time::Duration;

use tokio::time::Instant;

/// Consecutive failures that open the breaker.
const FAILURES: u32 = 5;
/// How long the breaker stays open at first. The time doubles with each failed probe.
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum time that the breaker stays open.
const LONGEST: Duration = Duration::from_secs(60);

/// A breaker without a probe for this long after its pause is not reported as open: nobody uses the
/// host.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// A circuit breaker, which counts consecutive failures and decides which requests may be sent.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    pause: Duration,
    /// Set while the breaker is open: the time from which a probe may be sent.
    closed_until: Option<Instant>,
    /// When the last probe was sent.
    probe: Option<Instant>,
    /// When the host last answered a request.
    answered: Option<Instant>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: 0,
            pause: PAUSE,
            closed_until: None,
            probe: None,
            answered: None,
        }
    }
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may be sent.
    Free,
    /// It may be sent as a probe: what it shows closes the breaker or keeps it open.
    Probe,
    /// It must wait for this long.
    Wait(Duration),
}

/// What a request that was sent shows about the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reachability {
    /// The host answered, with any status.
    Answered,
    /// The connection failed.
    Unreachable,
    /// The connection succeeded, but there was no answer in time: the host may be down, or the
    /// request slow.
    Late,
    /// The request failed for a reason that says nothing about the host.
    Unrelated,
    /// Unknown: the request was canceled, or the plugin was less patient than the rule.
    Unknown,
}

impl Breaker {
    /// Returns true while the breaker is open and requests to the host are still made.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.closed_until
            .is_some_and(|until| now < until + FORGOTTEN)
    }

    /// Decides on a request. If the result is [`Verdict::Probe`], the caller must send the probe.
    pub(crate) fn enter(&mut self, now: Instant) -> Verdict {
        let verdict = self.look(now);
        if verdict == Verdict::Probe {
            self.probe = Some(now);
        }
        verdict
    }

    /// Returns what [`Self::enter`] would return, without starting a probe.
    pub(crate) fn look(&self, now: Instant) -> Verdict {
        let Some(until) = self.closed_until else {
            return Verdict::Free;
        };

        // The current probe may be a slow request, so another one may be sent after a while.
        match self.probe.map_or(until, |probe| until.max(probe + PAUSE)) {
            next if now < next => Verdict::Wait(next - now),
            _ => Verdict::Probe,
        }
    }

    /// Records what a request has shown that was sent at `entered`.
    pub(crate) fn leave(
        &mut self,
        verdict: Verdict,
        entered: Instant,
        reachability: Reachability,
        now: Instant,
    ) {
        if verdict == Verdict::Probe {
            self.probe = None;
        }

        match reachability {
            Reachability::Answered => {
                *self = Self {
                    answered: Some(now),
                    ..Self::default()
                }
            }
            // Other requests were answered in the meantime, so only this request is slow.
            Reachability::Late if self.answered.is_some_and(|at| at > entered) => {}
            Reachability::Unreachable | Reachability::Late => {
                self.failures = self.failures.saturating_add(1);
                if verdict == Verdict::Probe && reachability == Reachability::Unreachable {
                    self.pause = (self.pause * 2).min(LONGEST);
                }
                // Requests that were already in flight when the breaker opened do not prolong the
                // pause.
                if verdict == Verdict::Probe
                    || self.closed_until.is_none() && self.failures >= FAILURES
                {
                    self.closed_until = Some(now + self.pause);
                }
            }
            Reachability::Unrelated | Reachability::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn fail(breaker: &mut Breaker, now: Instant) -> Verdict {
        let verdict = breaker.enter(now);
        breaker.leave(verdict, now, Reachability::Unreachable, now);
        verdict
    }

    #[test]
    fn opens_after_consecutive_failures() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for _ in 1..FAILURES {
            assert_eq!(fail(&mut breaker, now), Verdict::Free);
        }

        breaker.leave(Verdict::Free, now, Reachability::Answered, now);
        for _ in 0..FAILURES {
            assert_eq!(fail(&mut breaker, now), Verdict::Free);
        }

        assert_eq!(breaker.enter(now), Verdict::Wait(PAUSE));
        assert!(breaker.is_open(now));
        // For example, the operator has corrected the host name, and the old one is not requested
        // any more.
        let last = now + PAUSE + FORGOTTEN;
        assert!(breaker.is_open(last - SECOND) && !breaker.is_open(last));
        assert_eq!(breaker.enter(last), Verdict::Probe);
    }

    #[test]
    fn one_probe_decides_and_the_pause_grows() {
        let mut breaker = Breaker::default();
        let mut now = Instant::now();
        for _ in 0..FAILURES {
            fail(&mut breaker, now);
        }

        for pause in [5, 10, 20, 40, 60, 60] {
            now += SECOND * pause - SECOND / 10;
            assert!(matches!(breaker.enter(now), Verdict::Wait(_)), "{pause}");
            now += SECOND / 10;
            assert_eq!(breaker.enter(now), Verdict::Probe, "{pause}");
            assert_eq!(breaker.enter(now), Verdict::Wait(PAUSE));
            breaker.leave(Verdict::Probe, now, Reachability::Unreachable, now);
        }

        now += SECOND * 60;
        assert_eq!(breaker.enter(now), Verdict::Probe);
        breaker.leave(Verdict::Probe, now, Reachability::Answered, now);
        assert_eq!(breaker.enter(now), Verdict::Free);
        assert!(!breaker.is_open(now));
    }

    #[test]
    fn an_abandoned_probe_is_replaced_by_another() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for _ in 0..FAILURES {
            fail(&mut breaker, now);
        }
        let now = now + PAUSE;
        assert_eq!(breaker.enter(now), Verdict::Probe);
        breaker.leave(Verdict::Probe, now, Reachability::Unknown, now);
        assert_eq!(breaker.enter(now), Verdict::Probe);
    }

    #[test]
    fn failures_in_flight_do_not_extend_the_pause() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for _ in 0..FAILURES {
            fail(&mut breaker, now);
        }
        breaker.leave(Verdict::Free, now, Reachability::Unreachable, now + SECOND);
        assert_eq!(breaker.look(now + PAUSE), Verdict::Probe);
    }

    #[test]
    fn late_answers_count_only_if_no_other_request_is_answered() {
        let mut breaker = Breaker::default();
        let start = Instant::now();
        let late = |breaker: &mut Breaker, now| {
            breaker.leave(Verdict::Free, start, Reachability::Late, now);
        };
        breaker.leave(Verdict::Free, start, Reachability::Answered, start + SECOND);
        for _ in 0..100 {
            late(&mut breaker, start + SECOND * 60);
        }

        assert!(
            !breaker.is_open(start),
            "one was answered while they were on their way"
        );
        let mut silent = Breaker::default();
        for _ in 0..FAILURES {
            late(&mut silent, start + SECOND * 60);
        }

        assert!(silent.is_open(start));
    }

    #[test]
    fn a_slow_probe_does_not_block_the_next_probe() {
        let mut breaker = Breaker::default();
        let start = Instant::now();
        for _ in 0..FAILURES {
            fail(&mut breaker, start);
        }

        let now = start + PAUSE;
        assert_eq!(breaker.enter(now), Verdict::Probe);
        assert_eq!(breaker.enter(now + SECOND), Verdict::Wait(PAUSE - SECOND));
        let later = now + PAUSE;
        assert_eq!(breaker.enter(later), Verdict::Probe);
        breaker.leave(Verdict::Probe, now, Reachability::Late, later);
        assert_eq!(
            breaker.look(later),
            Verdict::Wait(PAUSE),
            "it may have been slow: the pause does not grow"
        );
        breaker.leave(
            Verdict::Probe,
            later,
            Reachability::Answered,
            later + SECOND,
        );
        assert_eq!(breaker.enter(later + SECOND), Verdict::Free);
    }

    #[test]
    fn slow_requests_count_unless_another_was_answered_since() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        breaker.leave(Verdict::Free, now, Reachability::Answered, now);
        for _ in 0..FAILURES {
            breaker.leave(Verdict::Free, now - SECOND, Reachability::Late, now);
        }
        assert_eq!(breaker.look(now), Verdict::Free);
        for _ in 0..FAILURES {
            breaker.leave(Verdict::Free, now, Reachability::Late, now);
        }
        assert_eq!(breaker.look(now), Verdict::Wait(PAUSE));
    }
}
