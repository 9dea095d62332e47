//! Leaves a host alone that does not answer, so that calls do not spend their time on it. One per host; never the plugin's fault.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that open it.
const FAILURES: u32 = 5;
/// How long it stays open at first. It doubles with each probe that fails.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);

/// Counts failures in a row, and says who may try.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    pause: Duration,
    /// Set while it is open: from then on one may try.
    closed_until: Option<Instant>,
    probing: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 0, pause: PAUSE, closed_until: None, probing: false }
    }
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Go.
    Free,
    /// Go, as the one whose end decides.
    Probe,
    /// Do not go before this long.
    Wait(Duration),
}

/// What became of a request that had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The host answered, whatever it said.
    Answered,
    /// It did not.
    Unreachable,
    /// Nobody knows: the request was given up.
    Unknown,
}

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.closed_until.is_some()
    }

    /// Asks to go, and takes the probe if it is there to be taken.
    pub(crate) fn enter(&mut self, now: Instant) -> Pass {
        let pass = self.look(now);
        self.probing |= pass == Pass::Probe;
        pass
    }

    /// What [`Self::enter`] would say.
    pub(crate) fn look(&self, now: Instant) -> Pass {
        match self.closed_until {
            None => Pass::Free,
            Some(until) if now < until => Pass::Wait(until - now),
            Some(_) if self.probing => Pass::Wait(PAUSE),
            Some(_) => Pass::Probe,
        }
    }

    /// Notes how a request ended that had passed.
    pub(crate) fn leave(&mut self, pass: Pass, outcome: Outcome, now: Instant) {
        if pass == Pass::Probe {
            self.probing = false;
        }
        match outcome {
            Outcome::Answered => *self = Self { probing: self.probing, ..Self::default() },
            Outcome::Unreachable => {
                self.failures = self.failures.saturating_add(1);
                if pass == Pass::Probe {
                    self.pause = (self.pause * 2).min(LONGEST);
                }
                // Those that were on their way when it opened do not prolong it.
                if pass == Pass::Probe || self.closed_until.is_none() && self.failures >= FAILURES {
                    self.closed_until = Some(now + self.pause);
                }
            }
            Outcome::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn fail(breaker: &mut Breaker, now: Instant) -> Pass {
        let pass = breaker.enter(now);
        breaker.leave(pass, Outcome::Unreachable, now);
        pass
    }

    #[test]
    fn it_opens_after_failures_in_a_row() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 1..FAILURES {
            assert_eq!(fail(&mut breaker, now), Pass::Free);
        }
        breaker.leave(Pass::Free, Outcome::Answered, now);
        for _ in 0..FAILURES {
            assert_eq!(fail(&mut breaker, now), Pass::Free);
        }
        assert_eq!(breaker.enter(now), Pass::Wait(PAUSE));
        assert!(breaker.is_open());
    }

    #[test]
    fn one_probe_decides_and_pauses_grow() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES {
            fail(&mut breaker, now);
        }
        for pause in [5, 10, 20, 40, 60, 60] {
            now += SECOND * pause - SECOND / 10;
            assert!(matches!(breaker.enter(now), Pass::Wait(_)), "{pause}");
            now += SECOND / 10;
            assert_eq!(breaker.enter(now), Pass::Probe, "{pause}");
            assert_eq!(breaker.enter(now), Pass::Wait(PAUSE));
            breaker.leave(Pass::Probe, Outcome::Unreachable, now);
        }
        now += SECOND * 60;
        assert_eq!(breaker.enter(now), Pass::Probe);
        breaker.leave(Pass::Probe, Outcome::Answered, now);
        assert_eq!(breaker.enter(now), Pass::Free);
        assert!(!breaker.is_open());
    }

    #[test]
    fn a_probe_that_is_given_up_leaves_room_for_another() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES {
            fail(&mut breaker, now);
        }
        let now = now + PAUSE;
        assert_eq!(breaker.enter(now), Pass::Probe);
        breaker.leave(Pass::Probe, Outcome::Unknown, now);
        assert_eq!(breaker.enter(now), Pass::Probe);
    }

    #[test]
    fn failures_on_their_way_do_not_prolong_the_pause() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES {
            fail(&mut breaker, now);
        }
        breaker.leave(Pass::Free, Outcome::Unreachable, now + SECOND);
        assert_eq!(breaker.look(now + PAUSE), Pass::Probe);
    }
}
