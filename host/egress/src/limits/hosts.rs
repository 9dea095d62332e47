//! The state of each host that a plugin sends requests to: its limiters and pauses, and whether it
//! answers.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use skydock_cloud::{CallKind, PerKind};
use tokio::time::Instant;

use crate::{
    limits::{
        breaker::{Breaker, Reachability, Verdict},
        host_limiter::HostLimiter,
        pauses::Pauses,
        shares::Kinds,
    },
    request_error::{Cause, Code, RequestError},
    rules::compiled::Limits,
    target::Target,
};

/// Maximum number of hosts that are remembered, since wildcards let a plugin use any number of
/// names.
const MAX_HOSTS: usize = 1024;

/// All hosts of a plugin.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    all: Mutex<HashMap<Target, Arc<HostState>>>,
    failing: Arc<FailingHosts>,
}

/// Hosts whose breaker was opened, and may have been closed since.
type FailingHosts = Mutex<Vec<Weak<HostState>>>;

/// How a host answers, and the limits of requests to it.
#[derive(Debug, Default)]
pub(crate) struct HostState {
    /// By kind of calls: if one API of a host hangs, calls that use another one are sent.
    breakers: PerKind<Mutex<Breaker>>,
    pauses: Pauses,
    limiters: Mutex<Vec<Arc<HostLimiter>>>,
    /// Those of the plugin.
    failing: Arc<FailingHosts>,
}

impl Hosts {
    /// Returns the state of a host.
    ///
    /// # Errors
    /// If more hosts are in use than can be remembered.
    pub(crate) fn get(&self, target: &Target) -> Result<Arc<HostState>, RequestError> {
        let mut all = self.all.lock();
        if let Some(host) = all.get(target) {
            return Ok(host.clone());
        }

        if all.len() >= MAX_HOSTS {
            let now = Instant::now();
            // A host that a request uses is kept, so that no host has two states.
            all.retain(|_, host| Arc::strong_count(host) > 1 || !host.is_idle(now));
        }
        if all.len() >= MAX_HOSTS {
            let sentence = format!("the plugin uses more than {MAX_HOSTS} hosts");
            return Err(RequestError::new(
                Code::ConnectionLimitReached,
                Cause::Limit,
                sentence,
            ));
        }

        let host = Arc::new(HostState {
            failing: Arc::clone(&self.failing),
            ..HostState::default()
        });
        all.insert(target.clone(), host.clone());
        Ok(host)
    }

    /// Returns the number of hosts with an open breaker.
    pub(crate) fn open(&self) -> usize {
        let now = Instant::now();
        let mut failing = self.failing.lock();
        failing.retain(|host| host.upgrade().is_some_and(|host| host.is_open(now)));
        failing.len()
    }
}

impl HostState {
    /// Returns true if a breaker is open.
    fn is_open(&self, now: Instant) -> bool {
        self.breakers
            .all()
            .into_iter()
            .any(|breaker| breaker.lock().is_open(now))
    }

    /// Counts the host among those with an open breaker, see [`Hosts::open`].
    fn opened(self: &Arc<Self>) {
        let host = Arc::downgrade(self);
        let mut failing = self.failing.lock();
        if !failing.iter().any(|known| known.ptr_eq(&host)) {
            failing.push(host);
        }
    }

    /// Returns the limiter for these limits. Equal limits share a limiter, even if they come from
    /// different rules or configurations.
    pub(crate) fn limiter(&self, limits: &Limits, kinds: Kinds) -> Arc<HostLimiter> {
        let now = Instant::now();
        let mut limiters = self.limiters.lock();
        if let Some(limiter) = limiters.iter().find(|it| it.is_for(limits, kinds)) {
            return limiter.clone();
        }

        // Without a limiter whose bucket is full, no rate can be exceeded.
        limiters.retain(|limiter| Arc::strong_count(limiter) > 1 || !limiter.is_full(now));

        let limiter = Arc::new(HostLimiter::new(limits, kinds, now));
        limiters.push(limiter.clone());
        limiter
    }

    /// Returns true if the host has no state worth keeping.
    fn is_idle(&self, now: Instant) -> bool {
        let full =
            |limiter: &Arc<HostLimiter>| Arc::strong_count(limiter) == 1 && limiter.is_full(now);

        !self.is_open(now) && !self.pauses.is_paused(now) && self.limiters.lock().iter().all(full)
    }

    /// Returns the pauses that the cloud has asked for.
    pub(crate) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Checks that the breaker is not open for this kind of calls.
    ///
    /// # Errors
    /// [`Code::ConnectionRefused`] if it is open.
    pub(crate) fn check(&self, kind: CallKind) -> Result<(), RequestError> {
        match self.breakers.get(kind).lock().look(Instant::now()) {
            Verdict::Wait(wait) => Err(not_contacted(wait)),
            Verdict::Free | Verdict::Probe => Ok(()),
        }
    }

    /// Lets a request through the breaker. The caller must report what it shows; a request that is
    /// canceled after `patience` counts as not answered.
    ///
    /// # Errors
    /// [`Code::ConnectionRefused`] if the breaker is open.
    pub(crate) fn enter(
        self: &Arc<Self>,
        kind: CallKind,
        patience: Duration,
    ) -> Result<BreakerPermit, RequestError> {
        let now = Instant::now();
        match self.breakers.get(kind).lock().enter(now) {
            Verdict::Wait(wait) => Err(not_contacted(wait)),
            verdict => Ok(BreakerPermit {
                host: self.clone(),
                kind,
                verdict,
                reachability: Reachability::Unknown,
                entered: now,
                patience,
            }),
        }
    }
}

/// The permit of a request that the breaker let through.
#[derive(Debug)]
pub(crate) struct BreakerPermit {
    host: Arc<HostState>,
    kind: CallKind,
    verdict: Verdict,
    reachability: Reachability,
    entered: Instant,
    patience: Duration,
}

impl BreakerPermit {
    /// Reports what the request has shown. One that is dropped without this was canceled.
    pub(crate) fn ended(mut self, reachability: Reachability) {
        self.reachability = reachability;
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        let now = Instant::now();
        let reachability = match self.reachability {
            // Whoever gave up was patient enough.
            Reachability::Unknown if now >= self.entered + self.patience => Reachability::Late,
            reachability => reachability,
        };

        let is_open = {
            let mut breaker = self.host.breakers.get(self.kind).lock();
            breaker.leave(self.verdict, self.entered, reachability, now);
            breaker.is_open(now)
        };
        if is_open {
            self.host.opened();
        }
    }
}

fn not_contacted(wait: Duration) -> RequestError {
    let sentence = format!(
        "the host repeatedly did not answer and is not contacted for another {} s",
        wait.as_secs() + 1
    );
    RequestError::new(Code::ConnectionRefused, Cause::Breaker, sentence)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::target::{Host, Scheme};

    impl Hosts {
        /// Returns the state of the host with this name, at the port of HTTPS.
        pub(crate) fn named(&self, name: &str) -> Arc<HostState> {
            self.get(&target(name)).unwrap()
        }
    }

    pub(crate) fn target(host: &str) -> Target {
        Target {
            scheme: Scheme::Https,
            host: Host::parse(host).unwrap(),
            port: 443,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::target, *};

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn only_requests_without_an_outcome_count_as_late_after_a_while() {
        let hosts = Hosts::default();
        let ended_as = async |name, reachability: Option<Reachability>| {
            let host = hosts.named(name);
            for _ in 0..10 {
                let Ok(passed) = host.enter(CallKind::Nodes, PATIENCE) else {
                    return false;
                };
                tokio::time::advance(PATIENCE).await;
                match reachability {
                    Some(reachability) => passed.ended(reachability),
                    None => drop(passed),
                }
            }
            true
        };

        assert!(!ended_as("canceled.example", None).await);
        assert!(!ended_as("hurried.example", Some(Reachability::Unknown)).await);
        assert!(ended_as("plugin-failed.example", Some(Reachability::Unrelated)).await);
        assert!(ended_as("answered.example", Some(Reachability::Answered)).await);
    }

    #[test]
    fn equal_limits_share_a_limiter() {
        let hosts = Hosts::default();
        let host = hosts.named("a.example");
        let one = Limits::default();
        let two = Limits {
            rate: 3.0,
            ..Limits::default()
        };

        assert!(Arc::ptr_eq(
            &host.limiter(&one, Kinds::ALL),
            &hosts.named("a.example").limiter(&one, Kinds::ALL)
        ));
        assert!(!Arc::ptr_eq(
            &host.limiter(&one, Kinds::ALL),
            &host.limiter(&two, Kinds::ALL)
        ));
    }

    #[test]
    fn unused_hosts_are_dropped_when_there_are_too_many() {
        let hosts = Hosts::default();
        let held: Vec<_> = (0..MAX_HOSTS)
            .map(|it| hosts.named(&format!("h{it}.example")))
            .collect();
        assert_eq!(
            hosts.get(&target("more.example")).unwrap_err().code(),
            Code::ConnectionLimitReached
        );
        held[0].pauses().begin(&"r".into(), Duration::from_secs(60));
        drop(held);
        hosts.named("more.example");
        assert_eq!(
            hosts.all.lock().len(),
            2,
            "the one that asked for a pause is kept"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_requests_go_to_a_host_that_does_not_answer() {
        let hosts = Hosts::default();
        let host = hosts.named("a.example");
        for _ in 0..5 {
            host.enter(CallKind::Nodes, PATIENCE)
                .unwrap()
                .ended(Reachability::Unreachable);
        }

        assert_eq!(hosts.open(), 1);
        let error = host.enter(CallKind::Nodes, PATIENCE).unwrap_err();
        assert_eq!(
            (error.code(), error.cause()),
            (Code::ConnectionRefused, Cause::Breaker)
        );
        assert!(host.check(CallKind::Nodes).is_err());
        tokio::time::advance(Duration::from_secs(5)).await;
        drop(host.enter(CallKind::Nodes, PATIENCE).unwrap());
        host.enter(CallKind::Nodes, PATIENCE)
            .unwrap()
            .ended(Reachability::Answered);
        assert_eq!(hosts.open(), 0);
        host.enter(CallKind::Nodes, PATIENCE).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn giving_up_after_a_long_wait_counts_as_no_answer() {
        let hosts = Hosts::default();
        let host = hosts.named("a.example");
        for given_up in [0, 5, 9] {
            let passed: Vec<_> = (0..5)
                .map(|_| host.enter(CallKind::Nodes, PATIENCE).unwrap())
                .collect();
            tokio::time::advance(Duration::from_secs(given_up)).await;
            drop(passed);
            assert_eq!(hosts.open(), 0, "{given_up}");
        }

        let passed: Vec<_> = (0..5)
            .map(|_| host.enter(CallKind::Nodes, PATIENCE).unwrap())
            .collect();
        tokio::time::advance(PATIENCE).await;
        drop(passed);
        assert_eq!(hosts.open(), 1);
    }
}
