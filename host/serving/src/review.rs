//! Questions for the API server: TokenReview and SubjectAccessReview.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use kube::{Api, Client, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use skydock_kube::api::with_causes;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
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

        let answer = timeout(ANSWER, async {
            // The semaphore is never closed.
            let _slot = self.slots.acquire().await;
            create(&Api::all(client), review).await
        });
        let problem = match answer.await {
            Ok(Ok(review)) => return Ok(review),
            Ok(Err(error)) => with_causes(&error),
            Err(_) => format!("no answer in {ANSWER:?}"),
        };
        self.warn(&K::plural(&()), &problem);
        Err(ReviewError::Unanswered)
    }

    fn warn(&self, resource: &str, problem: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if warned.is_none_or(|at| now >= at + REMINDER) {
            *warned = Some(now);
            tracing::warn!(
                problem,
                "cannot create {resource}: requests for metrics are rejected; the account needs permission to create {resource} \
                 (deploy/components/secure-serving)"
            );
        }
    }
}

/// Creates an object, with further attempts if the API server fails.
async fn create<K>(api: &Api<K>, object: &K) -> Result<K, kube::Error>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    for pause in PAUSES {
        match api.create(&PostParams::default(), object).await {
            Err(error) if is_transient(&error) => sleep(pause).await,
            answer => return answer,
        }
    }
    api.create(&PostParams::default(), object).await
}

/// Returns whether another attempt may succeed.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
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
    async fn an_api_server_that_hangs_is_not_waited_for() {
        let api = FakeApi::default();
        let reviewer = Reviewer::with(api.client());
        api.hang("POST", PATH);
        let start = Instant::now();
        assert!(reviewer.review(&TokenReview::default()).await.is_err());
        assert_eq!(start.elapsed(), ANSWER);
    }
}
