//! Back-off of a capability whose calls fail repeatedly, so that a broken plugin is not called in a
//! loop.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use skydock_cloud::Capability;

/// Consecutive failures that start the back-off: a single one may be an accident, and the
/// controllers' own back-off is slower at first.
const TOLERATED: u32 = 5;
/// First back-off; it doubles with each trial that fails.
const FIRST: Duration = Duration::from_secs(1);
/// Longest back-off: a plugin that has recovered is used again within this time.
const LONGEST: Duration = Duration::from_secs(30);

/// The breaker of one capability: closed while calls succeed, open for a time after failures, then
/// one trial decides.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    delay: Duration,
    trial: bool,
}

impl Breaker {
    /// Admits a call, or returns how long the capability is suspended.
    fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match &mut self.open {
            Some(open) if now < open.until => Err(open.until - now),
            Some(open) if open.trial => Err(open.delay),
            Some(open) => {
                open.trial = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Records the result of a call; `None` if it shows nothing about the plugin.
    fn record(&mut self, now: Instant, failed: Option<bool>) {
        match failed {
            None => {
                if let Some(open) = &mut self.open {
                    open.trial = false;
                }
            }
            Some(false) => *self = Self::default(),
            Some(true) => {
                self.failures = self.failures.saturating_add(1);
                match &mut self.open {
                    // A call from before the back-off shows nothing new.
                    Some(open) if !open.trial => {}
                    Some(open) => {
                        open.delay = (open.delay * 2).min(LONGEST);
                        (open.until, open.trial) = (now + open.delay, false);
                    }
                    None if self.failures >= TOLERATED => {
                        self.open = Some(Open {
                            until: now + FIRST,
                            delay: FIRST,
                            trial: false,
                        });
                    }
                    None => {}
                }
            }
        }
    }
}

/// The breakers of one generation, one for each capability.
#[derive(Debug, Default)]
pub(crate) struct Supervisor(Mutex<BTreeMap<Capability, Breaker>>);

impl Supervisor {
    fn breakers(&self) -> MutexGuard<'_, BTreeMap<Capability, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a call, or returns how long the capability is suspended.
    pub(crate) fn admit(
        &self,
        capability: Capability,
        now: Instant,
    ) -> Result<Attempt<'_>, Duration> {
        self.breakers().entry(capability).or_default().admit(now)?;
        Ok(Attempt {
            supervisor: self,
            capability,
            failed: None,
        })
    }
}

/// A running call. If it is dropped without a result because its caller was canceled, it shows
/// nothing about the plugin.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    supervisor: &'a Supervisor,
    capability: Capability,
    failed: Option<bool>,
}

impl Attempt<'_> {
    /// Records the result of the call.
    pub(crate) fn ended(mut self, failed: Option<bool>) {
        self.failed = failed;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.supervisor
            .breakers()
            .entry(self.capability)
            .or_default()
            .record(Instant::now(), self.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..TOLERATED {
            assert_eq!(breaker.admit(now), Ok(()));
            breaker.record(now, Some(true));
        }
        breaker
    }

    // Holds: C-08
    #[test]
    fn consecutive_failures_start_a_back_off_that_doubles() {
        let mut now = Instant::now();
        let mut breaker = broken(now);
        for expected in [1, 2, 4, 8, 16, 30, 30].map(Duration::from_secs) {
            assert_eq!(breaker.admit(now), Err(expected));
            now += expected;
            assert_eq!(breaker.admit(now), Ok(()), "one trial");
            assert_eq!(breaker.admit(now), Err(expected), "and no second");
            breaker.record(now, Some(true));
        }
    }

    #[test]
    fn a_success_resets_the_back_off() {
        let mut now = Instant::now();
        let mut breaker = broken(now);
        now += FIRST;
        assert_eq!(breaker.admit(now), Ok(()));
        breaker.record(now, Some(false));
        for _ in 0..TOLERATED - 1 {
            assert_eq!(breaker.admit(now), Ok(()));
            breaker.record(now, Some(true));
        }
        assert_eq!(breaker.admit(now), Ok(()), "failures must be in a row");
    }

    #[test]
    fn an_inconclusive_trial_is_followed_by_another() {
        let now = Instant::now();
        let mut breaker = broken(now);
        let later = now + FIRST;
        assert_eq!(breaker.admit(later), Ok(()));
        breaker.record(later, None);
        assert_eq!(breaker.admit(later), Ok(()));
    }

    #[test]
    fn late_failures_of_earlier_calls_do_not_extend_the_back_off() {
        let now = Instant::now();
        let mut breaker = broken(now);
        for _ in 0..10 {
            breaker.record(now, Some(true));
        }
        assert_eq!(breaker.admit(now + FIRST), Ok(()));
    }

    #[test]
    fn each_capability_has_its_own_back_off() {
        let supervisor = Supervisor::default();
        for _ in 0..TOLERATED {
            supervisor
                .admit(Capability::Routes, Instant::now())
                .unwrap()
                .ended(Some(true));
        }
        assert!(
            supervisor
                .admit(Capability::Routes, Instant::now())
                .is_err()
        );
        assert!(supervisor.admit(Capability::Zones, Instant::now()).is_ok());
        let later = Instant::now() + FIRST;
        drop(supervisor.admit(Capability::Routes, later).unwrap());
        assert!(supervisor.admit(Capability::Routes, later).is_ok());
    }
}
