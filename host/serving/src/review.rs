//! Questions for the API server: TokenReview and SubjectAccessReview.

use std::{fmt::Debug, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use kube::{Api, Client, Resource, api::PostParams};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use skydock_kube::api::with_causes;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

/// Maximum time for an answer, including attempts, as upstream (`TokenRequestTimeout`,
/// `ClientTimeout`).
const ANSWER: Duration = Duration::from_secs(10);
/// Pauses between attempts, as upstream (`DefaultAuthWebhookRetryBackoff`), which are five.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(750),
    Duration::from_millis(1125),
    Duration::from_millis(1688),
];
/// Maximum number of questions at a time. Anybody can ask with random tokens.
const IN_FLIGHT: usize = 10;
/// How often the log says that the API server does not answer.
const REMINDER: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// There is no API server to ask.
    #[error("there is no access to the API server")]
    Off,
    /// The API server did not answer. The log has the reason.
    #[error("the API server did not answer")]
    Unanswered,
}

/// Whom to ask.
#[derive(Clone)]
pub(crate) enum Access {
    /// Nobody: neither a kubeconfig nor a Pod's account is configured.
    Off,
    /// The client does not exist yet.
    Pending,
    /// This API server.
    Ready(Client),
}

/// Asks the API server.
pub(crate) struct Reviewer {
    access: ArcSwap<Access>,
    slots: Semaphore,
    warned: Mutex<Option<Instant>>,
}

impl Reviewer {
    #[cfg(test)]
    pub(crate) fn pending() -> Self {
        Self::new(Access::Pending)
    }

    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self::new(Access::Off)
    }

    #[cfg(test)]
    pub(crate) fn with(client: Client) -> Self {
        Self::new(Access::Ready(client))
    }

    pub(crate) fn new(access: Access) -> Self {
        Self {
            access: ArcSwap::from_pointee(access),
            slots: Semaphore::new(IN_FLIGHT),
            warned: Mutex::default(),
        }
    }

    pub(crate) fn set(&self, access: Access) {
        self.access.store(Arc::new(access));
    }

    pub(crate) fn access(&self) -> Access {
        Access::clone(&self.access.load())
    }

    /// Creates a review and returns it with its status.
    pub(crate) async fn review<K>(&self, review: &K) -> Result<K, ReviewError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let client = match self.access() {
            Access::Off => return Err(ReviewError::Off),
            Access::Pending => return Err(ReviewError::Unanswered),
            Access::Ready(client) => client,
        };

        let deadline = Instant::now() + ANSWER;
        let api = Api::all(client);
        let answer = timeout_at(deadline, self.create(&api, review, deadline));
        let (problem, is_forbidden) = match answer.await {
            Ok(Ok(review)) => return Ok(review),
            Ok(Err(error)) => (with_causes(&error), is_forbidden(&error)),
            Err(_) => (format!("no answer in {ANSWER:?}"), false),
        };
        self.warn(&K::plural(&()), &problem, is_forbidden);
        Err(ReviewError::Unanswered)
    }

    /// Creates an object, with further attempts if the API server fails. A slot is only used for an
    /// attempt, not for a pause.
    async fn create<K>(&self, api: &Api<K>, object: &K, deadline: Instant) -> Result<K, kube::Error>
    where
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let mut pauses = PAUSES.into_iter();
        loop {
            // The semaphore is never closed.
            let slot = self.slots.acquire().await;
            let created = api.create(&PostParams::default(), object).await;
            drop(slot);

            let error = match created {
                Err(error) if is_transient(&error) => error,
                answer => return answer,
            };
            let Some(pause) = pauses.next() else {
                return Err(error);
            };
            let pause = pause.max(requested_pause(&error));
            if Instant::now() + pause >= deadline {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    fn warn(&self, resource: &str, problem: &str, is_forbidden: bool) {
        let mut warned = self.warned.lock();
        let now = Instant::now();
        if warned.is_none_or(|at| now >= at + REMINDER) {
            *warned = Some(now);
            let advice = match is_forbidden {
                true => format!(
                    "; the account needs permission to create {resource} (deploy/components/secure-serving)"
                ),
                false => String::new(),
            };
            tracing::warn!(
                problem,
                "cannot create {resource}: requests for metrics are rejected{advice}"
            );
        }
    }
}

/// Returns whether another attempt may succeed.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Returns the pause that the API server asks for.
fn requested_pause(error: &kube::Error) -> Duration {
    let seconds = match error {
        kube::Error::Api(status) => status.details.as_ref().map(|it| it.retry_after_seconds),
        _ => None,
    };
    Duration::from_secs(seconds.unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::TokenReview;
    use serde_json::json;
    use skydock_kube::testing::FakeApi;

    use super::*;

    const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_and_rejections_are_not() {
        let api = FakeApi::default();
        let reviewer = Reviewer::with(api.client());
        api.fail("POST", PATH, 503, "ServiceUnavailable");
        let answer = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {}});
        api.answer("POST", PATH, 201, answer);
        assert!(reviewer.review(&TokenReview::default()).await.is_ok());
        assert_eq!(api.requests().len(), 2);

        api.forget();
        api.clear("POST", PATH);
        api.fail("POST", PATH, 403, "Forbidden");
        assert!(reviewer.review(&TokenReview::default()).await.is_err());
        assert_eq!(api.requests().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_one_question_does_not_delay_another() {
        let api = FakeApi::default();
        let reviewer = Arc::new(Reviewer::with(api.client()));
        for _ in 0..IN_FLIGHT {
            api.fail("POST", PATH, 429, "TooManyRequests");
            let reviewer = Arc::clone(&reviewer);
            tokio::spawn(async move { reviewer.review(&TokenReview::default()).await });
        }
        while api.requests().len() < IN_FLIGHT {
            tokio::task::yield_now().await;
        }

        let start = Instant::now();
        assert!(reviewer.review(&TokenReview::default()).await.is_ok());
        assert!(start.elapsed() < PAUSES[0]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_is_not_asked_again_earlier_than_it_says() {
        for (seconds, attempts, waits) in [(3, 2, 3), (60, 1, 0)] {
            let api = FakeApi::default();
            let reviewer = Reviewer::with(api.client());
            let busy = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests",
                "message": "busy", "details": {"retryAfterSeconds": seconds},
            });
            api.answer("POST", PATH, 429, busy);
            let start = Instant::now();
            let answer = reviewer.review(&TokenReview::default()).await;
            assert_eq!(
                (answer.is_ok(), api.requests().len()),
                (attempts == 2, attempts)
            );
            assert_eq!(start.elapsed().as_secs(), waits, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_hangs_is_not_waited_for() {
        let api = FakeApi::default();
        let reviewer = Reviewer::with(api.client());
        api.hang("POST", PATH);
        let start = Instant::now();
        assert!(reviewer.review(&TokenReview::default()).await.is_err());
        assert_eq!(start.elapsed(), ANSWER);
    }
}
