//! A value that ages, renewed ahead of time by one task for all who use it.
//!
//! The task starts with the first use. It renews what is in use some time before it expires, and stops renewing what
//! nobody asked for since. Whoever finds nothing valid waits for the one attempt that is under way. An attempt that fails
//! while the old value is still valid is a warning; the next ones keep a growing distance, so that an issuer that is
//! down, or an account that locks, is not hammered on. A change of a file tries again at once.

mod refusals;
mod rule;
mod state;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use self::state::{Ask, Rejection, State};
use super::{failure::Failure, metrics::CredentialMetrics};

/// An attempt ends after this. An issuer that takes longer is down to all who wait.
const ATTEMPT: Duration = Duration::from_secs(30);

/// What was got from an issuer.
pub(crate) struct Fresh<T> {
    pub(crate) value: T,
    /// How long it is valid from now on; `None` if it does not say.
    pub(crate) lifetime: Option<Duration>,
}

/// Where the value comes from.
#[async_trait]
pub(crate) trait Source: Send + Sync + 'static {
    type Value: Send + Sync + 'static;

    /// The credential's name.
    fn name(&self) -> &str;

    /// Gets a new one.
    async fn renew(&self) -> Result<Fresh<Self::Value>, Failure>;

    /// A number that changes if a file changed which `renew` reads.
    async fn inputs(&self) -> u64;
}

/// A value and the task that keeps it young.
pub(crate) struct Renewed<S: Source> {
    shared: Arc<Shared<S>>,
    task: Mutex<Option<AbortHandle>>,
}

struct Shared<S: Source> {
    source: S,
    state: Mutex<State<S::Value>>,
    /// How many attempts ended: news to those who wait.
    attempts: watch::Sender<u64>,
    wake: Notify,
    metrics: CredentialMetrics,
}

impl<S: Source> Renewed<S> {
    pub(crate) fn new(source: S, metrics: CredentialMetrics) -> Self {
        let (state, attempts, wake) = (Mutex::default(), watch::Sender::new(0), Notify::new());
        Self { shared: Arc::new(Shared { source, state, attempts, wake, metrics }), task: Mutex::default() }
    }

    pub(crate) fn source(&self) -> &S {
        &self.shared.source
    }

    /// The value as it is now and its number. Waits if there is none that is valid.
    pub(crate) async fn get(&self) -> Result<(u64, Arc<S::Value>), Failure> {
        self.start();
        let inputs = self.shared.source.inputs().await;
        let ask = self.shared.state().ask(Instant::now(), inputs);
        match ask {
            Ask::Have { number, value, first_use } => {
                if first_use {
                    self.shared.wake.notify_one();
                }
                Ok((number, value))
            }
            Ask::Fail(failure) => Err(failure),
            Ask::Wait { attempts } => {
                self.attempt_after(attempts).await;
                let outcome = self.shared.state().outcome(Instant::now());
                self.shared.wake.notify_one();
                outcome
            }
        }
    }

    /// The cloud took the value of this number from this kind of request.
    pub(crate) fn accepted(&self, used: u64, kind: u64) {
        self.shared.state().accept(used, kind);
    }

    /// The cloud refused the value of this number to this kind of request. True if there is another one now.
    pub(crate) async fn rejected(&self, used: u64, kind: u64) -> bool {
        self.start();
        loop {
            let rejection = self.shared.state().reject(Instant::now(), used, kind);
            match rejection {
                Rejection::Newer => return true,
                Rejection::TooSoon => return false,
                Rejection::Later(at) => sleep_until(at).await,
                Rejection::Wait { attempts } => {
                    self.attempt_after(attempts).await;
                    return self.shared.state().is_newer_than(used);
                }
            }
        }
    }

    /// True if there is a value after this number, which there is if a file has changed.
    pub(crate) async fn changed(&self, used: u64) -> bool {
        self.get().await.is_ok_and(|(number, _)| number > used)
    }

    async fn attempt_after(&self, attempts: u64) {
        let mut receiver = self.shared.attempts.subscribe();
        self.shared.wake.notify_one();
        // The sender lives in `shared`: it cannot be gone.
        let _ = receiver.wait_for(|ended| *ended > attempts).await;
    }

    fn start(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // A task that ended went with the runtime it was of.
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = Some(tokio::spawn(run(Arc::clone(&self.shared))).abort_handle());
        }
    }
}

impl<S: Source> Drop for Renewed<S> {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl<S: Source> fmt::Debug for Renewed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").field("name", &self.shared.source.name()).finish_non_exhaustive()
    }
}

impl<S: Source> Shared<S> {
    fn state(&self) -> MutexGuard<'_, State<S::Value>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn attempt(&self) {
        let name = self.source.name();
        let inputs = self.source.inputs().await;
        let result = timeout(ATTEMPT, self.source.renew()).await.unwrap_or_else(|_| {
            Err(Failure::unavailable(format!("its issuer gave no answer in {} s", ATTEMPT.as_secs())))
        });
        let result = result.and_then(|fresh| match fresh.lifetime {
            // Taken for a success, it would be got anew for each request.
            Some(Duration::ZERO) => {
                Err(Failure::unavailable("what it issued has expired already: is this machine's clock right?"))
            }
            _ => Ok(fresh),
        });
        let outcome = result.as_ref().map_or_else(|failure| failure.kind.as_str(), |_| "renewed");
        self.metrics.renewed(name, outcome);
        let now = Instant::now();
        match &result {
            Ok(fresh) => {
                let lifetime = fresh.lifetime.map(|it| it.as_secs());
                tracing::debug!(credential = name, lifetime_seconds = lifetime, "credential renewed");
            }
            Err(failure) => match self.state().valid_for(now) {
                Some(left) => {
                    let left = left.map(|it| it.as_secs());
                    tracing::warn!(credential = name, error = %failure, valid_for_seconds = left,
                        "credential could not be renewed; the old one is still used");
                }
                None => tracing::error!(credential = name, error = %failure, "no credential could be got"),
            },
        }
        let spread = rand::random::<f64>();
        let attempts = self.state().finish(now, result, inputs, spread);
        self.attempts.send_replace(attempts);
    }
}

async fn run<S: Source>(shared: Arc<Shared<S>>) {
    loop {
        let next = shared.state().next(Instant::now());
        let due = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {
                let begun = shared.state().begin(Instant::now());
                if begun {
                    shared.attempt().await;
                }
            }
            () = shared.wake.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests;
