//! The trait of controllers, [`Runner`], and what all of them share: the cloud, the nodes, events,
//! metrics, and tasks of their own ([`spawn_joined`]).

pub mod counted;
pub mod metrics;

use std::sync::Arc;

use async_trait::async_trait;
use skydock_cloud::{CloudError, CloudProvider};
use skydock_kube::{
    api::ApiError,
    events::{EventType, Recorder},
    informer::{Entry, Informer, Kind},
};
use tokio::task::JoinError;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::metrics::SharedMetrics;
use crate::{
    calls::retry::{self, RetryWhen},
    controller::descriptor::Controller,
    objects::kinds::NodeKind,
};

/// A controller that can be run.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Checks all objects again, because the plugin was replaced.
    fn recheck(&self);

    /// Runs until the token is cancelled and the current work is finished.
    async fn run(self: Arc<Self>, shutdown: CancellationToken);
}

/// Resources that controllers share, together with the name of this controller.
#[derive(Clone)]
pub struct ControllerContext {
    /// The controller that has this copy.
    pub controller: Controller,
    /// The cloud.
    pub provider: Arc<dyn CloudProvider>,
    /// The nodes of the cluster.
    pub nodes: Arc<Informer<NodeKind>>,
    /// Publishes events.
    pub recorder: Recorder,
    /// Metrics that all controllers have.
    pub metrics: SharedMetrics,
}

impl ControllerContext {
    /// Publishes a normal event about an object.
    pub fn normal<K: Kind>(&self, entry: &Entry<K>, reason: &str, message: impl Into<String>) {
        self.recorder.on(
            self.controller.event_source,
            entry,
            EventType::Normal,
            reason,
            message,
        );
    }

    /// Publishes a warning event about an object.
    pub fn warning<K: Kind>(&self, entry: &Entry<K>, reason: &str, message: impl Into<String>) {
        self.recorder.on(
            self.controller.event_source,
            entry,
            EventType::Warning,
            reason,
            message,
        );
    }

    /// Counts and logs a cloud's error about one or several objects.
    pub fn cloud_error(&self, object: &str, error: &CloudError) {
        if retry::counts(error) {
            self.metrics.error(self.controller, error.kind());
            tracing::warn!(controller = self.controller.name, object, "{error}");
        } else {
            tracing::debug!(controller = self.controller.name, object, "{error}");
        }
    }

    /// Counts and logs an error of the API server about an object. A conflict, or an object that
    /// does not exist, is only logged.
    pub fn api_error(&self, object: &str, error: &ApiError) {
        if RetryWhen::after_write(error) == RetryWhen::BackOff {
            self.metrics.error(self.controller, "kubernetes");
            tracing::warn!(controller = self.controller.name, object, "{error}");
        } else {
            tracing::debug!(controller = self.controller.name, object, "{error}");
        }
    }
}

/// Runs a future on a separate task, so that long computations do not delay others. The task ends
/// when the caller is dropped, and its panic is passed on to the caller.
pub async fn spawn_joined<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    joined(AbortOnDropHandle::new(tokio::spawn(work)).await).await
}

/// Returns the result of a task that has ended, or passes on its panic.
pub async fn joined<T>(ended: Result<T, JoinError>) -> T {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is shutting down, and the caller with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        time::{Duration, Instant},
    };

    use futures::future::join_all;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_blocking_future_does_not_delay_others() {
        let (done, waits) = mpsc::channel();
        let one = spawn_joined(async move { waits.recv_timeout(Duration::from_secs(20)) });
        let other = spawn_joined(async move {
            done.send(())
                .map_err(|_| mpsc::RecvTimeoutError::Disconnected)
        });
        let begin = Instant::now();
        // On a single task, the first future would keep the second one from being polled.
        let ended = join_all([
            Box::pin(one) as std::pin::Pin<Box<dyn Future<Output = _>>>,
            Box::pin(other),
        ])
        .await;
        assert_eq!(ended, [Ok(()), Ok(())], "after {:?}", begin.elapsed());
    }
}
