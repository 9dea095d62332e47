//! What all controllers have: the cloud, the nodes, and where to tell what happened.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use skydock_cloud::{CloudError, CloudProvider, Severity};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    Controller,
    api::ApiError,
    events::Recorder,
    informer::{Entry, Informer, Kind},
    metrics::Metrics,
    retry,
};

/// A controller that can be run.
#[async_trait]
pub(crate) trait Runner: Send + Sync {
    /// Looks at all objects again, because the cloud's plugin was replaced.
    fn recheck(&self);

    /// Works until the token is cancelled; ends when the work in hand is done.
    async fn run(self: Arc<Self>, shutdown: CancellationToken);
}

/// What one controller shares with the others, under its own name.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) controller: Controller,
    pub(crate) provider: Arc<dyn CloudProvider>,
    pub(crate) nodes: Arc<Informer<Node>>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
}

impl Shared {
    pub(crate) fn normal<K: Kind>(&self, entry: &Entry<K>, reason: &str, message: impl Into<String>) {
        self.recorder.on(self.controller.event_source(), entry, Severity::Normal, reason, message);
    }

    pub(crate) fn warning<K: Kind>(&self, entry: &Entry<K>, reason: &str, message: impl Into<String>) {
        self.recorder.on(self.controller.event_source(), entry, Severity::Warning, reason, message);
    }

    /// Counts and logs an error of the cloud about an object (or several).
    pub(crate) fn cloud_error(&self, object: &str, error: &CloudError) {
        if retry::counts(error) {
            self.metrics.error(self.controller, error.kind());
            tracing::warn!(controller = self.controller.name(), object, "{error}");
        } else {
            tracing::debug!(controller = self.controller.name(), object, "{error}");
        }
    }

    /// Counts and logs an error of the API server about an object. A race that was lost is none.
    pub(crate) fn api_error(&self, object: &str, error: &ApiError) {
        if matches!(error, ApiError::Changed(_) | ApiError::Gone(_)) {
            tracing::debug!(controller = self.controller.name(), object, "{error}");
        } else {
            self.metrics.error(self.controller, "kubernetes");
            tracing::warn!(controller = self.controller.name(), object, "{error}");
        }
    }
}

/// Does a piece of work on a task of its own, so that what computes for long holds up no other. It ends with who waits for it,
/// and its panic is theirs.
pub(crate) async fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match AbortOnDropHandle::new(tokio::spawn(work)).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down, and with it who waits.
            Err(_) => std::future::pending().await,
        },
    }
}

/// One answer per question, also if a provider breaks its promise.
pub(crate) fn complete<T>(
    answers: Vec<Result<T, CloudError>>,
    questions: usize,
) -> impl Iterator<Item = Result<T, CloudError>> {
    let missing =
        || Err(CloudError::Internal("the provider gave fewer answers than it was asked questions".to_owned()));
    answers.into_iter().chain(std::iter::repeat_with(missing)).take(questions)
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
    async fn work_that_computes_holds_up_no_other() {
        let (done, waits) = mpsc::channel();
        let one = apart(async move { waits.recv_timeout(Duration::from_secs(20)) });
        let other = apart(async move { done.send(()).map_err(|_| mpsc::RecvTimeoutError::Disconnected) });
        let begin = Instant::now();
        // On one task the first would keep the second from ever being polled.
        let ended = join_all([Box::pin(one) as std::pin::Pin<Box<dyn Future<Output = _>>>, Box::pin(other)]).await;
        assert_eq!(ended, [Ok(()), Ok(())], "after {:?}", begin.elapsed());
    }

    #[test]
    fn n09_n38_a_missing_answer_is_an_error_and_one_too_many_is_not_looked_at() {
        let few: Vec<_> = complete(vec![Ok(1)], 2).collect();
        assert_eq!(few[0], Ok(1));
        assert!(matches!(few[1], Err(CloudError::Internal(_))), "{few:?}");
        assert_eq!(complete(vec![Ok(1), Ok(2)], 1).collect::<Vec<_>>(), [Ok(1)]);
    }
}
