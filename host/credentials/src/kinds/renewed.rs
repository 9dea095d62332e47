//! A value that is renewed before it expires, by one task for all users of the value.
//!
//! The task starts at the first use. It renews a value that is in use some time before it expires,
//! and stops renewing when the value is not used any more. Requests without a valid value wait for
//! the attempt in progress. If an attempt fails while the old value is still valid, a warning is
//! logged. Further attempts back off, so that an issuer that is down does not receive too many
//! requests and accounts are not locked. After a change of a file, the next attempt follows
//! immediately. This includes a file that is gone, of which the warning tells: the old value serves
//! until it expires, because the file may be about to be replaced.

mod rejections;
mod rule;
mod state;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use self::state::{Ask, Rejection, State};
use crate::{
    RequestKind,
    sources::{failure::Failure, metrics::CredentialMetrics},
};

/// Timeout of an answer of the issuer. One that takes longer counts as unavailable.
const ANSWER: Duration = Duration::from_secs(30);

/// After a file has changed, requests that still have a valid value wait at most this long for the
/// one that is created from the changed file.
const MOMENT: Duration = Duration::from_secs(2);

/// A value that was obtained from an issuer.
pub(crate) struct Issued<T> {
    pub(crate) value: T,
    /// How long it is valid from now; `None` if the issuer did not specify it.
    pub(crate) lifetime: Option<Duration>,
}

/// The source of a value.
#[async_trait]
pub(crate) trait Source: Send + Sync + 'static {
    type Value: Send + Sync + 'static;

    /// Returns the name of the credential.
    fn name(&self) -> &str;

    /// Obtains a new value.
    async fn renew(&self) -> Result<Issued<Self::Value>, Failure>;

    /// Returns true if `renew` has failed because of the clock, which is corrected now.
    fn was_corrected(&self) -> bool {
        false
    }

    /// Returns a number that changes whenever a file that `renew` reads has changed or is gone.
    async fn inputs(&self) -> u64;
}

/// A value and the task that renews it.
pub(crate) struct Renewed<S: Source> {
    renewal: Arc<Renewal<S>>,
    task: Mutex<Option<AbortHandle>>,
}

struct Renewal<S: Source> {
    source: S,
    state: Mutex<State<S::Value>>,
    /// Number of attempts that have ended, which notifies waiting requests.
    attempts: watch::Sender<u64>,
    wake: Notify,
    metrics: CredentialMetrics,
}

impl<S: Source> Renewed<S> {
    pub(crate) fn new(source: S, metrics: CredentialMetrics) -> Self {
        let state = Mutex::default();
        let attempts = watch::Sender::new(0);
        let wake = Notify::new();

        Self {
            renewal: Arc::new(Renewal {
                source,
                state,
                attempts,
                wake,
                metrics,
            }),
            task: Mutex::default(),
        }
    }

    pub(crate) fn source(&self) -> &S {
        &self.renewal.source
    }

    /// Returns the version of the current value, and the value. Waits if there is no valid one.
    pub(crate) async fn get(&self) -> Result<(u64, Arc<S::Value>), Failure> {
        self.start();
        let inputs = self.renewal.source.inputs().await;
        let ask = self.renewal.state().ask(Instant::now(), inputs);

        match ask {
            Ask::Have {
                version,
                value,
                first_use,
            } => {
                if first_use {
                    self.renewal.wake.notify_one();
                }
                Ok((version, value))
            }
            Ask::Fail(failure) => Err(failure),
            Ask::Wait { attempts, valid } => {
                let attempt = self.attempt_after(attempts);
                if valid {
                    // Requests with a valid value do not wait long for an issuer that does not
                    // answer.
                    let _ = timeout(MOMENT, attempt).await;
                } else {
                    attempt.await;
                }

                let outcome = self.renewal.state().outcome(Instant::now());
                // The value is in use from this time, so the task must plan its renewal.
                self.renewal.wake.notify_one();
                outcome
            }
        }
    }

    /// Reports that the cloud accepted this version of the value for this kind of request.
    pub(crate) fn accepted(&self, version: u64, kind: RequestKind) {
        self.renewal.state().accept(version, kind);
    }

    /// Reports that the cloud rejected this version of the value for this kind of request. Returns
    /// true if there is a newer value.
    pub(crate) async fn rejected(&self, version: u64, kind: RequestKind) -> bool {
        self.start();
        loop {
            let rejection = self.renewal.state().reject(Instant::now(), version, kind);
            match rejection {
                Rejection::Newer => return true,
                Rejection::TooSoon => return false,
                Rejection::Later(at) => sleep_until(at).await,
                Rejection::Wait { attempts } => {
                    self.attempt_after(attempts).await;
                    return self.renewal.state().is_newer_than(version);
                }
            }
        }
    }

    /// Returns true if there is a newer version, which is obtained first if a file has
    /// changed.
    pub(crate) async fn changed(&self, version: u64) -> bool {
        self.get().await.is_ok_and(|(latest, _)| latest > version)
    }

    async fn attempt_after(&self, attempts: u64) {
        let mut receiver = self.renewal.attempts.subscribe();
        self.renewal.wake.notify_one();
        // The sender is part of `renewal`, so the channel cannot be closed.
        let _ = receiver.wait_for(|ended| *ended > attempts).await;
    }

    fn start(&self) {
        let mut task = self.task.lock();
        // The task has ended if a renewal panicked, or if its runtime was shut down.
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = Some(tokio::spawn(run(Arc::clone(&self.renewal))).abort_handle());
        }
    }
}

impl<S: Source> Drop for Renewed<S> {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take() {
            task.abort();
        }
    }
}

impl<S: Source> fmt::Debug for Renewed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed")
            .field("name", &self.renewal.source.name())
            .finish_non_exhaustive()
    }
}

impl<S: Source> Renewal<S> {
    fn state(&self) -> MutexGuard<'_, State<S::Value>> {
        self.state.lock()
    }

    async fn renew(&self) -> Result<Issued<S::Value>, Failure> {
        let late = || {
            Failure::unavailable(format!(
                "its issuer did not answer within {} s",
                ANSWER.as_secs()
            ))
        };
        let renewed = timeout(ANSWER, self.source.renew()).await;
        renewed.unwrap_or_else(|_| Err(late()))
    }

    async fn attempt(&self) {
        let mut unfinished = Unfinished {
            renewal: self,
            inputs: 0,
        };
        // Read before the attempt: a file that changes meanwhile causes another one.
        let inputs = self.source.inputs().await;
        unfinished.inputs = inputs;
        let mut result = self.renew().await;

        // A failure because of the clock needs no delay: the next attempt uses the corrected time.
        if result.is_err() && self.source.was_corrected() {
            result = self.renew().await;
        }

        let result = result.and_then(|issued| match issued.lifetime {
            // If this counted as success, every request would cause a renewal.
            Some(Duration::ZERO) => Err(Failure::unavailable(
                "its issuer returned an expired value: check the clock of this machine",
            )),
            _ => Ok(issued),
        });

        self.report(&result);
        unfinished.finish(result);
    }

    /// Counts and logs an attempt.
    fn report(&self, result: &Result<Issued<S::Value>, Failure>) {
        let name = self.source.name();
        let outcome = result
            .as_ref()
            .map_or_else(|failure| failure.kind.as_str(), |_| "renewed");
        self.metrics.renewed(name, outcome);

        match result {
            Ok(issued) => {
                let lifetime = issued.lifetime.map(|it| it.as_secs());
                tracing::debug!(
                    credential = name,
                    lifetime_seconds = lifetime,
                    "credential renewed"
                );
            }
            Err(failure) => match self.state().valid_for(Instant::now()) {
                Some(left) => {
                    let left = left.map(|it| it.as_secs());
                    tracing::warn!(credential = name, error = %failure, valid_for_seconds = left,
                        "cannot renew credential; using the current one");
                }
                None => {
                    tracing::error!(credential = name, error = %failure,
                        "cannot get credential; requests that need it are not sent");
                }
            },
        }
    }

    fn finish(&self, result: Result<Issued<S::Value>, Failure>, inputs: u64) {
        let spread = rand::random::<f64>();
        let attempts = self.state().finish(Instant::now(), result, inputs, spread);
        self.attempts.send_replace(attempts);
    }
}

/// An attempt whose result is not recorded yet. If the attempt ends without a result, because it
/// panics or its task is aborted, it has failed: requests that wait for it get an answer, and a
/// later one starts the task again.
struct Unfinished<'a, S: Source> {
    renewal: &'a Renewal<S>,
    /// The state of the files that the attempt uses.
    inputs: u64,
}

impl<S: Source> Unfinished<'_, S> {
    fn finish(self, result: Result<Issued<S::Value>, Failure>) {
        self.renewal.finish(result, self.inputs);
        std::mem::forget(self);
    }
}

impl<S: Source> Drop for Unfinished<'_, S> {
    fn drop(&mut self) {
        let failure = Failure::unavailable("its renewal ended unexpectedly");
        self.renewal.finish(Err(failure), self.inputs);
    }
}

async fn run<S: Source>(renewal: Arc<Renewal<S>>) {
    loop {
        let next = renewal.state().next(Instant::now());
        let due = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };

        tokio::select! {
            () = due => {
                let begun = renewal.state().begin(Instant::now());
                if begun {
                    renewal.attempt().await;
                }
            }
            // The state has changed, and with it the time of the next attempt.
            () = renewal.wake.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests;
