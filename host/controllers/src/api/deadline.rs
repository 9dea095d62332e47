//! Requests that end.

use std::time::Duration;

use kube::{Client, client::Body};
use tokio::time::timeout;
use tower::{BoxError, service_fn};

/// How long an answer is waited for. An API server gives up on a request after 60 s, and begins to answer a watch at once.
const ANSWER: Duration = Duration::from_secs(65);

/// The same client, whose requests fail if no answer begins in time. By itself it waits for ever, and with it would every
/// worker and every watch that has met a connection on which nobody is left at the other end.
pub(crate) fn with_deadline(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let send = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move { Ok::<_, BoxError>(timeout(ANSWER, client.send(request)).await??) }
    });
    Client::new(send, namespace)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        api::{ApiError, Patch, Target, patch},
        testing::FakeApi,
    };

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_fails_and_the_next_one_is_sent() {
        let api = FakeApi::default();
        api.hang("PATCH", "/api/v1/nodes/n1");
        let client = with_deadline(&api.client());
        let target = Target { namespace: None, name: "n1", subresource: None };
        let body = Patch::Merge(json!({}));
        let start = Instant::now();
        let error = patch::<Node>(&client, &target, &body).await.unwrap_err();
        assert!(matches!(error, ApiError::Failed(..)), "{error}");
        assert!(start.elapsed() >= ANSWER && start.elapsed() < ANSWER * 2, "{:?}", start.elapsed());
        patch::<Node>(&client, &target, &body).await.unwrap();
    }
}
