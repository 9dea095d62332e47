//! Suspends a capability whose calls fail repeatedly (back-off), so that a broken plugin is not
//! called in a loop. Calls about Services of each namespace have a back-off of their own: whoever
//! can write there could make them fail.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use skydock_cloud::Capability;

/// Consecutive failures that start the back-off: a single one may be an accident, and the
/// controllers' own back-off is slower at first.
const TOLERATED: u32 = 5;
/// First back-off; it doubles with each trial that fails.
const FIRST: Duration = Duration::from_secs(1);
/// Longest back-off: a plugin that has recovered is used again within this time.
const LONGEST: Duration = Duration::from_secs(30);
/// Period after which failures without a success are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// The breaker of one scope: closed while calls succeed, open for a time after failures, then
/// one trial decides.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    /// When the last call failed.
    failed: Option<Instant>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    delay: Duration,
    trial: bool,
}

impl Breaker {
    /// Admits a call, or returns how long the scope is suspended.
    fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match &mut self.open {
            Some(open) if now < open.until => Err(open.until - now),
            // One call at a time: its result decides for the others.
            Some(open) if open.trial => Err(open.delay),
            Some(open) => {
                open.trial = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Records a failed call.
    fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.failed = Some(now);

        match &mut self.open {
            // A call from before the back-off shows nothing new.
            Some(open) if !open.trial => {}
            Some(open) => {
                open.delay = (open.delay * 2).min(LONGEST);
                open.until = now + open.delay;
                open.trial = false;
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

    /// Records a call that shows nothing about the plugin: if it was the trial, the next one is.
    fn pass(&mut self) {
        if let Some(open) = &mut self.open {
            open.trial = false;
        }
    }

    fn is_recent(&self, now: Instant) -> bool {
        self.failed
            .is_some_and(|failed| now.saturating_duration_since(failed) < FORGOTTEN)
    }
}

/// Calls that fail or succeed together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) capability: Capability,
    /// The namespace of the Service that the call is about.
    pub(crate) namespace: Option<String>,
}

/// What a call shows about the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    Works,
    Fails,
    Unknown,
}

/// The breakers of one generation, for the scopes with recent failures.
#[derive(Debug, Default)]
pub(crate) struct Supervisor(Mutex<BTreeMap<Scope, Breaker>>);

impl Supervisor {
    fn breakers(&self) -> MutexGuard<'_, BTreeMap<Scope, Breaker>> {
        self.0.lock()
    }

    /// Admits a call, or returns how long its scope is suspended.
    pub(crate) fn admit(&self, scope: Scope, now: Instant) -> Result<AdmittedCall<'_>, Duration> {
        if let Some(breaker) = self.breakers().get_mut(&scope) {
            breaker.admit(now)?;
        }
        Ok(AdmittedCall {
            supervisor: self,
            scope,
            evidence: Evidence::Unknown,
        })
    }

    /// Records what a call shows.
    fn record(&self, scope: &Scope, now: Instant, evidence: Evidence) {
        let mut breakers = self.breakers();

        match evidence {
            // One success is enough: only failures in a row count.
            Evidence::Works => drop(breakers.remove(scope)),
            Evidence::Fails => {
                // Namespaces come and go; without this, the map would have an entry for each one
                // forever.
                breakers.retain(|_, breaker| breaker.is_recent(now));
                breakers.entry(scope.clone()).or_default().fail(now);
            }
            Evidence::Unknown => {
                if let Some(breaker) = breakers.get_mut(scope) {
                    breaker.pass();
                }
            }
        }
    }
}

/// A running call. If it is dropped without a result because its caller was canceled, it shows
/// nothing about the plugin.
#[derive(Debug)]
pub(crate) struct AdmittedCall<'a> {
    supervisor: &'a Supervisor,
    scope: Scope,
    evidence: Evidence,
}

impl AdmittedCall<'_> {
    /// Records what the call shows.
    pub(crate) fn ended(mut self, evidence: Evidence) {
        self.evidence = evidence;
    }
}

impl Drop for AdmittedCall<'_> {
    fn drop(&mut self) {
        self.supervisor
            .record(&self.scope, Instant::now(), self.evidence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..TOLERATED {
            assert_eq!(breaker.admit(now), Ok(()));
            breaker.fail(now);
        }
        breaker
    }

    fn scope(capability: Capability, namespace: Option<&str>) -> Scope {
        Scope {
            capability,
            namespace: namespace.map(str::to_owned),
        }
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
            breaker.fail(now);
        }
    }

    #[test]
    fn an_inconclusive_trial_is_followed_by_another() {
        let now = Instant::now();
        let mut breaker = broken(now);
        let later = now + FIRST;
        assert_eq!(breaker.admit(later), Ok(()));
        breaker.pass();
        assert_eq!(breaker.admit(later), Ok(()));
    }

    #[test]
    fn late_failures_of_earlier_calls_do_not_extend_the_back_off() {
        let now = Instant::now();
        let mut breaker = broken(now);
        for _ in 0..10 {
            breaker.fail(now);
        }
        assert_eq!(breaker.admit(now + FIRST), Ok(()));
    }

    #[test]
    fn a_success_resets_the_back_off() {
        let (supervisor, now) = (Supervisor::default(), Instant::now());
        let routes = scope(Capability::Routes, None);
        for _ in 0..TOLERATED {
            supervisor.record(&routes, now, Evidence::Fails);
        }
        assert!(supervisor.admit(routes.clone(), now).is_err());

        supervisor.record(&routes, now, Evidence::Works);
        for _ in 0..TOLERATED - 1 {
            supervisor.record(&routes, now, Evidence::Fails);
        }
        let admitted = supervisor.admit(routes, now);
        assert!(admitted.is_ok(), "failures must be in a row");
    }

    #[test]
    fn each_capability_and_namespace_has_its_own_back_off() {
        let (supervisor, now) = (Supervisor::default(), Instant::now());
        let balancers = |namespace| scope(Capability::LoadBalancers, Some(namespace));
        let failing = [scope(Capability::Routes, None), balancers("a")];
        for failing in failing.iter().cycle().take(2 * TOLERATED as usize) {
            let call = supervisor.admit(failing.clone(), now).unwrap();
            call.ended(Evidence::Fails);
        }
        for scope in failing.clone() {
            assert!(supervisor.admit(scope.clone(), now).is_err(), "{scope:?}");
        }
        for other in [scope(Capability::Zones, None), balancers("b")] {
            assert!(supervisor.admit(other.clone(), now).is_ok(), "{other:?}");
        }
        let later = Instant::now() + FIRST;
        for scope in failing {
            drop(supervisor.admit(scope.clone(), later).unwrap());
            assert!(
                supervisor.admit(scope, later).is_ok(),
                "the first was canceled"
            );
        }
    }

    #[test]
    fn only_recent_failures_are_kept() {
        let (supervisor, now) = (Supervisor::default(), Instant::now());
        let of = |number: u32| scope(Capability::LoadBalancers, Some(&format!("n{number}")));
        for number in 0..100 {
            supervisor.record(&of(number), now, Evidence::Fails);
        }
        supervisor.record(&of(0), now, Evidence::Unknown);
        assert_eq!(supervisor.breakers().len(), 100);

        supervisor.record(&of(1), now, Evidence::Works);
        supervisor.record(&of(0), now + FORGOTTEN, Evidence::Fails);
        assert_eq!(supervisor.breakers().len(), 1);
        supervisor.record(&of(200), now, Evidence::Unknown);
        assert_eq!(supervisor.breakers().len(), 1);
    }
}
