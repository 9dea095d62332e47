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
    /// When the last one went that tries.
    probe: Option<Instant>,
    /// When the host last answered anybody.
    answered: Option<Instant>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 0, pause: PAUSE, closed_until: None, probe: None, answered: None }
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
    /// There was no connection.
    Unreachable,
    /// There was a connection, and no answer in time: the host may be away, or the request a slow one.
    Late,
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
        if pass == Pass::Probe {
            self.probe = Some(now);
        }
        pass
    }

    /// What [`Self::enter`] would say.
    pub(crate) fn look(&self, now: Instant) -> Pass {
        let Some(until) = self.closed_until else { return Pass::Free };
        // One that tries may be a slow request: after a while another one may tell more.
        match self.probe.map_or(until, |probe| until.max(probe + PAUSE)) {
            next if now < next => Pass::Wait(next - now),
            _ => Pass::Probe,
        }
    }

    /// Notes how a request ended that had passed at `entered`.
    pub(crate) fn leave(&mut self, pass: Pass, entered: Instant, outcome: Outcome, now: Instant) {
        if pass == Pass::Probe {
            self.probe = None;
        }
        match outcome {
            Outcome::Answered => *self = Self { answered: Some(now), probe: self.probe, ..Self::default() },
            // Others were answered in the meantime: it is the request that is slow.
            Outcome::Late if self.answered.is_some_and(|at| at > entered) => {}
            Outcome::Unreachable | Outcome::Late => {
                self.failures = self.failures.saturating_add(1);
                if pass == Pass::Probe && outcome == Outcome::Unreachable {
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
        breaker.leave(pass, now, Outcome::Unreachable, now);
        pass
    }

    #[test]
    fn it_opens_after_failures_in_a_row() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 1..FAILURES {
            assert_eq!(fail(&mut breaker, now), Pass::Free);
        }
        breaker.leave(Pass::Free, now, Outcome::Answered, now);
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
            breaker.leave(Pass::Probe, now, Outcome::Unreachable, now);
        }
        now += SECOND * 60;
        assert_eq!(breaker.enter(now), Pass::Probe);
        breaker.leave(Pass::Probe, now, Outcome::Answered, now);
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
        breaker.leave(Pass::Probe, now, Outcome::Unknown, now);
        assert_eq!(breaker.enter(now), Pass::Probe);
    }

    #[test]
    fn failures_on_their_way_do_not_prolong_the_pause() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES {
            fail(&mut breaker, now);
        }
        breaker.leave(Pass::Free, now, Outcome::Unreachable, now + SECOND);
        assert_eq!(breaker.look(now + PAUSE), Pass::Probe);
    }

    #[test]
    fn late_answers_count_only_while_nobody_is_answered() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        let late = |breaker: &mut Breaker, now| breaker.leave(Pass::Free, start, Outcome::Late, now);
        breaker.leave(Pass::Free, start, Outcome::Answered, start + SECOND);
        for _ in 0..100 {
            late(&mut breaker, start + SECOND * 60);
        }
        assert!(!breaker.is_open(), "one was answered while they were on their way");
        let mut silent = Breaker::default();
        for _ in 0..FAILURES {
            late(&mut silent, start + SECOND * 60);
        }
        assert!(silent.is_open());
    }

    #[test]
    fn a_probe_that_is_slow_keeps_nobody_else_away() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES {
            fail(&mut breaker, start);
        }
        let now = start + PAUSE;
        assert_eq!(breaker.enter(now), Pass::Probe);
        assert_eq!(breaker.enter(now + SECOND), Pass::Wait(PAUSE - SECOND));
        let later = now + PAUSE;
        assert_eq!(breaker.enter(later), Pass::Probe);
        breaker.leave(Pass::Probe, now, Outcome::Late, later);
        assert_eq!(breaker.look(later), Pass::Wait(PAUSE), "it may have been slow: the pause does not grow");
        breaker.leave(Pass::Probe, later, Outcome::Answered, later + SECOND);
        assert_eq!(breaker.enter(later + SECOND), Pass::Free);
    }
}
