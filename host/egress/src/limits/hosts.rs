//! The state of each host that a plugin sends requests to: rate limits, and whether it answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use skydock_cloud::{CallKind, PerKind};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep_until},
};

use crate::{
    limits::{
        breaker::{Breaker, Outcome, Pass},
        pace::Bucket,
        shares::{Kinds, Shares},
    },
    request_error::{Cause, Code, RequestError},
    rules::compiled::Limits,
    target::Target,
};

/// Maximum number of hosts that are remembered, since wildcards let a plugin use any number of
/// names.
const MAX_HOSTS: usize = 1024;

/// Maximum time a request waits for the end of a pause that the cloud has asked for. If the pause
/// is longer, the plugin receives an answer, so that its call can end.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// All hosts of a plugin.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    all: Mutex<HashMap<Target, Arc<Host>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Host {
    /// By kind of calls: if one API of a host hangs, calls that use another one are sent.
    breakers: PerKind<Mutex<Breaker>>,
    /// The end of the pauses that the cloud has asked for, by rule: one API of a host may be
    /// overloaded while another is not.
    paused: Mutex<HashMap<Arc<str>, Instant>>,
    limiters: Mutex<Vec<Arc<HostLimiter>>>,
}

/// Requests to one host under the same limits.
#[derive(Debug)]
pub(crate) struct HostLimiter {
    key: (u16, u64, u16, Kinds),
    /// Concurrent requests, divided among the kinds of calls.
    pub(crate) slots: Shares,
    /// The queues of requests that wait for a token, one for each kind of calls.
    queues: PerKind<Semaphore>,
    /// The queue of the first ones of each kind.
    queue: Semaphore,
    bucket: Mutex<Bucket>,
}

impl Hosts {
    /// Returns the state of a host.
    ///
    /// # Errors
    /// If more hosts are in use than can be remembered.
    pub(crate) fn get(&self, target: &Target) -> Result<Arc<Host>, RequestError> {
        let mut all = lock(&self.all);
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

        let host = Arc::new(Host::default());
        all.insert(target.clone(), host.clone());
        Ok(host)
    }

    /// Returns the number of hosts with an open breaker.
    pub(crate) fn open(&self) -> usize {
        let now = Instant::now();
        lock(&self.all)
            .values()
            .filter(|host| host.is_open(now))
            .count()
    }
}

impl Host {
    /// Returns true if a breaker is open.
    fn is_open(&self, now: Instant) -> bool {
        self.breakers
            .all()
            .into_iter()
            .any(|breaker| lock(breaker).is_open(now))
    }

    /// Returns the limiter for these limits. Equal limits share a limiter, even if they come from
    /// different rules or configurations.
    pub(crate) fn limiter(&self, limits: &Limits, kinds: Kinds) -> Arc<HostLimiter> {
        let now = Instant::now();
        let rate = limits.rate.to_bits();
        let key = (limits.concurrency, rate, limits.burst, kinds);
        let slots = usize::from(limits.concurrency);

        let mut limiters = lock(&self.limiters);
        if let Some(limiter) = limiters.iter().find(|limiter| limiter.key == key) {
            return limiter.clone();
        }

        // Without a limiter whose bucket is full, no rate can be exceeded.
        limiters.retain(|limiter| {
            Arc::strong_count(limiter) > 1 || !lock(&limiter.bucket).is_full(now)
        });
        let limiter = Arc::new(HostLimiter {
            key,
            slots: Shares::new(slots, CallKind::reserved(slots), kinds),
            queues: PerKind::of(|_| Semaphore::new(1)),
            queue: Semaphore::new(1),
            bucket: Mutex::new(Bucket::new(limits.rate, limits.burst, now)),
        });

        limiters.push(limiter.clone());
        limiter
    }

    /// Returns true if the host has no state worth keeping.
    fn is_idle(&self, now: Instant) -> bool {
        let full = |limiter: &Arc<HostLimiter>| {
            Arc::strong_count(limiter) == 1 && lock(&limiter.bucket).is_full(now)
        };

        !self.is_open(now)
            && !lock(&self.paused).values().any(|until| *until > now)
            && lock(&self.limiters).iter().all(full)
    }

    /// Records that the cloud has asked for a pause in its answer to a request of this rule.
    pub(crate) fn pause(&self, rule: &Arc<str>, pause: Duration) {
        let now = Instant::now();
        let mut paused = lock(&self.paused);
        // Rules can be removed, so expired entries are deleted.
        paused.retain(|_, until| *until > now);
        let until = paused.entry(rule.clone()).or_insert(now);
        *until = (*until).max(now + pause);
    }

    fn paused(&self, rule: &str, now: Instant) -> Option<Instant> {
        lock(&self.paused)
            .get(rule)
            .copied()
            .filter(|until| *until > now)
    }

    /// Waits for the end of a rule's pause. Returns true if there was one.
    ///
    /// # Errors
    /// The remaining time, if a request with this deadline should not wait for so long.
    async fn wait_for_pause(&self, rule: &str, deadline: Instant) -> Result<bool, Duration> {
        let mut waited = false;
        loop {
            let now = Instant::now();
            let Some(until) = self.paused(rule, now) else {
                return Ok(waited);
            };

            let left = deadline.saturating_duration_since(now);
            let pause = until - now;
            if pause > LONGEST_WAIT.min(left / 2) {
                return Err(pause);
            }

            waited = true;
            sleep_until(until).await;
        }
    }

    /// Checks that the breaker is not open for this kind of calls.
    ///
    /// # Errors
    /// [`Code::ConnectionRefused`] if it is open.
    pub(crate) fn check(&self, kind: CallKind) -> Result<(), RequestError> {
        match lock(self.breakers.get(kind)).look(Instant::now()) {
            Pass::Wait(wait) => Err(not_contacted(wait)),
            Pass::Free | Pass::Probe => Ok(()),
        }
    }

    /// Lets a request through the breaker. The caller must report its outcome; a request that is
    /// canceled after `patience` counts as not answered.
    ///
    /// # Errors
    /// [`Code::ConnectionRefused`] if the breaker is open.
    pub(crate) fn enter(
        self: &Arc<Self>,
        kind: CallKind,
        patience: Duration,
    ) -> Result<Passed, RequestError> {
        let now = Instant::now();
        match lock(self.breakers.get(kind)).enter(now) {
            Pass::Wait(wait) => Err(not_contacted(wait)),
            pass => Ok(Passed {
                host: self.clone(),
                kind,
                pass,
                outcome: Outcome::Unknown,
                entered: now,
                patience,
            }),
        }
    }
}

/// A request that waits for a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRequest<'a> {
    pub(crate) host: &'a Host,
    pub(crate) rule: &'a str,
    pub(crate) kind: CallKind,
    pub(crate) deadline: Instant,
}

impl HostLimiter {
    /// Waits for a token and for the end of a pause that the cloud has asked this rule for, in the
    /// order of arrival within the kind. Kinds take turns. Returns true if it had to wait.
    ///
    /// # Errors
    /// The remaining time of the pause, if this request should not wait for so long.
    pub(crate) async fn wait(&self, request: TokenRequest<'_>) -> Result<bool, Duration> {
        let TokenRequest {
            host,
            rule,
            kind,
            deadline,
        } = request;
        let mut waited = false;
        loop {
            // Outside of the queue, in which requests of other rules wait too.
            waited |= host.wait_for_pause(rule, deadline).await?;
            let _first = turn(self.queues.get(kind), &mut waited).await;
            let _turn = turn(&self.queue, &mut waited).await;

            loop {
                let now = Instant::now();
                // A pause that has begun in the meantime is waited for outside of the queue.
                if host.paused(rule, now).is_some() {
                    break;
                }
                let taken = lock(&self.bucket).take(now);
                let Err(wait) = taken else { return Ok(waited) };
                waited = true;
                sleep_until(now + wait).await;
            }
        }
    }
}

/// Waits for a turn, and notes whether it had to.
async fn turn<'a>(queue: &'a Semaphore, waited: &mut bool) -> Option<SemaphorePermit<'a>> {
    if let Ok(turn) = queue.try_acquire() {
        return Some(turn);
    }
    *waited = true;
    // The semaphore is never closed.
    queue.acquire().await.ok()
}

/// A request that the breaker let through.
#[derive(Debug)]
pub(crate) struct Passed {
    host: Arc<Host>,
    kind: CallKind,
    pass: Pass,
    outcome: Outcome,
    entered: Instant,
    patience: Duration,
}

impl Passed {
    /// Reports the outcome of the request. A request that is dropped without this was canceled.
    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        let now = Instant::now();
        let outcome = match self.outcome {
            // Whoever gave up was patient enough.
            Outcome::Unknown if now >= self.entered + self.patience => Outcome::Late,
            outcome => outcome,
        };

        lock(self.host.breakers.get(self.kind)).leave(self.pass, self.entered, outcome, now);
    }
}

fn not_contacted(wait: Duration) -> RequestError {
    let sentence = format!(
        "the host repeatedly did not answer and is not contacted for another {} s",
        wait.as_secs() + 1
    );
    RequestError::new(Code::ConnectionRefused, Cause::Breaker, sentence)
}

/// Locks a mutex. No code panics while it holds one of these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Host as Name, Scheme};

    fn target(host: &str) -> Target {
        Target {
            scheme: Scheme::Https,
            host: Name::parse(host).unwrap(),
            port: 443,
        }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A request of the kind `Nodes` that has a minute.
    fn soon<'a>(host: &'a Host, rule: &'a str) -> TokenRequest<'a> {
        let deadline = Instant::now() + Duration::from_secs(60);
        TokenRequest {
            host,
            rule,
            kind: CallKind::Nodes,
            deadline,
        }
    }

    // Holds: SEC-30
    #[tokio::test(start_paused = true)]
    async fn kinds_of_calls_take_turns_at_the_rate() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
        let limits = Limits {
            rate: 1.0,
            burst: 1,
            ..Limits::default()
        };
        let limiter = host.limiter(&limits, Kinds::ALL);
        let end = Instant::now() + Duration::from_secs(1000);
        let request = |kind| TokenRequest {
            kind,
            deadline: end,
            ..soon(&host, "r")
        };
        let flood = (0..100).map(|_| limiter.wait(request(CallKind::LoadBalancers)));
        let start = Instant::now();
        let nodes = async {
            for _ in 0..3 {
                let waited = limiter.wait(request(CallKind::Nodes)).await;
                assert_eq!(waited, Ok(true));
            }
            start.elapsed().as_secs()
        };
        let (_, took) = tokio::join!(futures::future::join_all(flood), nodes);
        assert_eq!(took, 6, "each waits for one of the others");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_go_in_order_at_the_rate() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
        let limits = Limits {
            rate: 10.0,
            burst: 2,
            ..Limits::default()
        };
        let limiter = host.limiter(&limits, Kinds::ALL);
        let start = Instant::now();
        let order = Mutex::new(Vec::new());
        let requests = (0..5).map(|number| {
            let limiter = &limiter;
            let host = &host;
            let order = &order;
            async move {
                let waited = limiter.wait(soon(host, "r")).await.unwrap();
                lock(order).push((number, waited, start.elapsed().as_millis()));
            }
        });
        futures::future::join_all(requests).await;
        let order = lock(&order).clone();
        assert_eq!(
            order,
            [
                (0, false, 0),
                (1, false, 0),
                (2, true, 100),
                (3, true, 200),
                (4, true, 300)
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_requests_without_an_outcome_count_as_late_after_a_while() {
        let hosts = Hosts::default();
        let ended_as = async |name, outcome: Option<Outcome>| {
            let host = hosts.get(&target(name)).unwrap();
            for _ in 0..10 {
                let Ok(passed) = host.enter(CallKind::Nodes, PATIENCE) else {
                    return false;
                };
                tokio::time::advance(PATIENCE).await;
                match outcome {
                    Some(outcome) => passed.ended(outcome),
                    None => drop(passed),
                }
            }
            true
        };

        assert!(!ended_as("canceled.example", None).await);
        assert!(!ended_as("hurried.example", Some(Outcome::Unknown)).await);
        assert!(ended_as("plugin-failed.example", Some(Outcome::Unrelated)).await);
        assert!(ended_as("answered.example", Some(Outcome::Answered)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_a_short_pause_and_reports_a_long_one() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
        let limiter = host.limiter(&Limits::default(), Kinds::ALL);
        host.pause(&"r".into(), Duration::from_secs(3));
        host.pause(&"r".into(), Duration::from_secs(1));
        let start = Instant::now();
        assert_eq!(limiter.wait(soon(&host, "r")).await, Ok(true));
        assert_eq!(start.elapsed().as_secs(), 3);
        host.pause(&"r".into(), Duration::from_secs(3));
        assert_eq!(
            limiter
                .wait(TokenRequest {
                    deadline: Instant::now() + Duration::from_secs(4),
                    ..soon(&host, "r")
                })
                .await,
            Err(Duration::from_secs(3))
        );
        host.pause(&"r".into(), Duration::from_secs(30));
        assert_eq!(
            limiter.wait(soon(&host, "r")).await,
            Err(Duration::from_secs(30))
        );
        assert_eq!(limiter.wait(soon(&host, "another rule")).await, Ok(false));
        let other = hosts.get(&target("b.example")).unwrap();
        assert_eq!(
            other
                .limiter(&Limits::default(), Kinds::ALL)
                .wait(soon(&other, "r"))
                .await,
            Ok(false)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_of_a_rule_does_not_delay_another_rule() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
        let limiter = host.limiter(&Limits::default(), Kinds::ALL);
        host.pause(&"r".into(), Duration::from_secs(3));
        let start = Instant::now();
        let (tired, other) = tokio::join!(limiter.wait(soon(&host, "r")), async {
            let waited = limiter.wait(soon(&host, "another rule")).await;
            (waited, start.elapsed())
        });
        assert_eq!((tired, other), (Ok(true), (Ok(false), Duration::ZERO)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gives_up_waiting_takes_no_token() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
        let limits = Limits {
            rate: 1.0,
            burst: 1,
            ..Limits::default()
        };
        let limiter = host.limiter(&limits, Kinds::ALL);
        limiter.wait(soon(&host, "r")).await.unwrap();
        let start = Instant::now();
        let gave_up =
            tokio::time::timeout(Duration::from_millis(500), limiter.wait(soon(&host, "r"))).await;
        assert!(gave_up.is_err());
        limiter.wait(soon(&host, "r")).await.unwrap();
        assert_eq!(start.elapsed().as_millis(), 1000);
    }

    #[test]
    fn equal_limits_share_a_limiter() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
        let one = Limits::default();
        let two = Limits {
            rate: 3.0,
            ..Limits::default()
        };

        assert!(Arc::ptr_eq(
            &host.limiter(&one, Kinds::ALL),
            &hosts
                .get(&target("a.example"))
                .unwrap()
                .limiter(&one, Kinds::ALL)
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
            .map(|it| hosts.get(&target(&format!("h{it}.example"))).unwrap())
            .collect();
        assert_eq!(
            hosts.get(&target("more.example")).unwrap_err().code(),
            Code::ConnectionLimitReached
        );
        held[0].pause(&"r".into(), Duration::from_secs(60));
        drop(held);
        hosts.get(&target("more.example")).unwrap();
        assert_eq!(
            lock(&hosts.all).len(),
            2,
            "the one that asked for a pause is kept"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_requests_go_to_a_host_that_does_not_answer() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
        for _ in 0..5 {
            host.enter(CallKind::Nodes, PATIENCE)
                .unwrap()
                .ended(Outcome::Unreachable);
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
            .ended(Outcome::Answered);
        assert_eq!(hosts.open(), 0);
        host.enter(CallKind::Nodes, PATIENCE).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn giving_up_after_a_long_wait_counts_as_no_answer() {
        let hosts = Hosts::default();
        let host = hosts.get(&target("a.example")).unwrap();
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
