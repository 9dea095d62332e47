//! The rate and the concurrency of requests to one host: a token for each attempt, a slot for each
//! request.

use std::{future::pending, time::Duration};

use parking_lot::Mutex;
use skydock_cloud::{CallKind, PerKind};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep_until},
};

use crate::{
    limits::{
        pace::Bucket,
        pauses::Pauses,
        shares::{Kinds, Shares},
    },
    rules::compiled::Limits,
};

/// What distinguishes the limiters of a host.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    concurrency: u16,
    rate_bits: u64,
    burst: u16,
    /// The kinds of calls that share the limits.
    kinds: Kinds,
}

impl Key {
    fn new(limits: &Limits, kinds: Kinds) -> Self {
        Self {
            concurrency: limits.concurrency,
            rate_bits: limits.rate.to_bits(),
            burst: limits.burst,
            kinds,
        }
    }
}

/// Limits requests to one host: a request takes a slot once (`gateway/send.rs`), and a token for
/// each attempt (`gateway/attempt.rs`).
#[derive(Debug)]
pub(crate) struct HostLimiter {
    key: Key,
    /// Concurrent requests, divided among the kinds of calls.
    pub(crate) slots: Shares,
    /// The queues of requests that wait for a token, one for each kind of calls.
    within_kind: PerKind<Semaphore>,
    /// The queue of the first ones of each kind.
    among_kinds: Semaphore,
    bucket: Mutex<Bucket>,
}

/// A request that waits for a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateRequest<'a> {
    /// Pauses of the host.
    pub(crate) pauses: &'a Pauses,
    pub(crate) rule: &'a str,
    pub(crate) kind: CallKind,
    pub(crate) deadline: Instant,
}

/// How a request has waited for its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenWait {
    /// It has its token, without waiting.
    AtOnce,
    /// It has its token, and was delayed.
    Waited,
    /// It has none: the pause lasts for this long, and it should not wait for so long.
    Paused(Duration),
}

impl HostLimiter {
    pub(crate) fn new(limits: &Limits, kinds: Kinds, now: Instant) -> Self {
        let slots = usize::from(limits.concurrency);
        Self {
            key: Key::new(limits, kinds),
            slots: Shares::new(slots, CallKind::reserved(slots), kinds),
            within_kind: PerKind::of(|_| Semaphore::new(1)),
            among_kinds: Semaphore::new(1),
            bucket: Mutex::new(Bucket::new(limits.rate, limits.burst, now)),
        }
    }

    pub(crate) fn is_for(&self, limits: &Limits, kinds: Kinds) -> bool {
        self.key == Key::new(limits, kinds)
    }

    /// Returns true if no token is missing.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.bucket.lock().is_full(now)
    }

    /// Waits for a token and for the end of a pause that the cloud has asked this rule for, in the
    /// order of arrival within the kind. Kinds take turns.
    pub(crate) async fn wait(&self, request: RateRequest<'_>) -> TokenWait {
        let RateRequest {
            pauses,
            rule,
            kind,
            deadline,
        } = request;
        let mut waited = false;
        loop {
            // Outside of the queue, in which requests of other rules wait too.
            match pauses.wait(rule, deadline).await {
                Ok(paused) => waited |= paused,
                Err(remaining) => return TokenWait::Paused(remaining),
            }
            let _first = turn(self.within_kind.get(kind), &mut waited).await;
            let _turn = turn(&self.among_kinds, &mut waited).await;

            loop {
                let now = Instant::now();
                // A pause that has begun in the meantime is waited for outside of the queue.
                if pauses.until(rule, now).is_some() {
                    break;
                }
                let taken = self.bucket.lock().take(now);
                let Err(wait) = taken else {
                    return if waited {
                        TokenWait::Waited
                    } else {
                        TokenWait::AtOnce
                    };
                };

                waited = true;
                sleep_until(now + wait).await;
            }
        }
    }
}

/// Waits for a turn, and notes whether it had to.
async fn turn<'a>(queue: &'a Semaphore, waited: &mut bool) -> SemaphorePermit<'a> {
    if let Ok(turn) = queue.try_acquire() {
        return turn;
    }
    *waited = true;
    match queue.acquire().await {
        Ok(turn) => turn,
        // Nobody passes a closed queue; none is ever closed.
        Err(_) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::limits::hosts::{HostState, Hosts};

    /// Returns a host and its limiter with this rate and burst.
    fn limited(rate: f64, burst: u16) -> (Arc<HostState>, Arc<HostLimiter>) {
        let host = Hosts::default().named("a.example");
        let limits = Limits {
            rate,
            burst,
            ..Limits::default()
        };
        let limiter = host.limiter(&limits, Kinds::ALL);
        (host, limiter)
    }

    /// A request of the kind `Nodes` that has a minute.
    fn soon<'a>(host: &'a HostState, rule: &'a str) -> RateRequest<'a> {
        let deadline = Instant::now() + Duration::from_secs(60);
        RateRequest {
            pauses: host.pauses(),
            rule,
            kind: CallKind::Nodes,
            deadline,
        }
    }

    // Holds: SEC-30
    #[tokio::test(start_paused = true)]
    async fn kinds_of_calls_take_turns_at_the_rate() {
        let (host, limiter) = limited(1.0, 1);
        let end = Instant::now() + Duration::from_secs(1000);
        let request = |kind| RateRequest {
            kind,
            deadline: end,
            ..soon(&host, "r")
        };
        let flood = (0..100).map(|_| limiter.wait(request(CallKind::LoadBalancers)));
        let start = Instant::now();
        let nodes = async {
            for _ in 0..3 {
                let waited = limiter.wait(request(CallKind::Nodes)).await;
                assert_eq!(waited, TokenWait::Waited);
            }
            start.elapsed().as_secs()
        };
        let (_, took) = tokio::join!(futures::future::join_all(flood), nodes);
        assert_eq!(took, 6, "each waits for one of the others");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_go_in_order_at_the_rate() {
        let (host, limiter) = limited(10.0, 2);
        let start = Instant::now();
        let order = Mutex::new(Vec::new());
        let requests = (0..5).map(|number| {
            let limiter = &limiter;
            let host = &host;
            let order = &order;
            async move {
                let waited = limiter.wait(soon(host, "r")).await == TokenWait::Waited;
                order
                    .lock()
                    .push((number, waited, start.elapsed().as_millis()));
            }
        });
        futures::future::join_all(requests).await;
        let order = order.lock().clone();
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
    async fn waits_for_a_short_pause_and_reports_a_long_one() {
        let hosts = Hosts::default();
        let host = hosts.named("a.example");
        let limiter = host.limiter(&Limits::default(), Kinds::ALL);
        host.pauses().begin(&"r".into(), Duration::from_secs(3));
        host.pauses().begin(&"r".into(), Duration::from_secs(1));
        let start = Instant::now();
        assert_eq!(limiter.wait(soon(&host, "r")).await, TokenWait::Waited);
        assert_eq!(start.elapsed().as_secs(), 3);
        host.pauses().begin(&"r".into(), Duration::from_secs(3));
        assert_eq!(
            limiter
                .wait(RateRequest {
                    deadline: Instant::now() + Duration::from_secs(4),
                    ..soon(&host, "r")
                })
                .await,
            TokenWait::Paused(Duration::from_secs(3))
        );
        host.pauses().begin(&"r".into(), Duration::from_secs(30));
        assert_eq!(
            limiter.wait(soon(&host, "r")).await,
            TokenWait::Paused(Duration::from_secs(30))
        );
        assert_eq!(
            limiter.wait(soon(&host, "another rule")).await,
            TokenWait::AtOnce
        );
        let other = hosts.named("b.example");
        assert_eq!(
            other
                .limiter(&Limits::default(), Kinds::ALL)
                .wait(soon(&other, "r"))
                .await,
            TokenWait::AtOnce
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_of_a_rule_does_not_delay_another_rule() {
        let hosts = Hosts::default();
        let host = hosts.named("a.example");
        let limiter = host.limiter(&Limits::default(), Kinds::ALL);
        host.pauses().begin(&"r".into(), Duration::from_secs(3));
        let start = Instant::now();
        let (tired, other) = tokio::join!(limiter.wait(soon(&host, "r")), async {
            let waited = limiter.wait(soon(&host, "another rule")).await;
            (waited, start.elapsed())
        });
        assert_eq!(
            (tired, other),
            (TokenWait::Waited, (TokenWait::AtOnce, Duration::ZERO))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gives_up_waiting_takes_no_token() {
        let (host, limiter) = limited(1.0, 1);
        assert_eq!(limiter.wait(soon(&host, "r")).await, TokenWait::AtOnce);
        let start = Instant::now();
        let gave_up =
            tokio::time::timeout(Duration::from_millis(500), limiter.wait(soon(&host, "r"))).await;
        assert!(gave_up.is_err());
        assert_eq!(limiter.wait(soon(&host, "r")).await, TokenWait::Waited);
        assert_eq!(start.elapsed().as_millis(), 1000);
    }
}
