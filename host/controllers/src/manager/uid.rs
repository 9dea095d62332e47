//! Determines the UID of the namespace `kube-system`, which identifies a cluster whatever its name.

use std::{sync::OnceLock, time::Duration};

use http::Request;
use kube::Client;
use serde::Deserialize;
use skydock_kube::api::{Action, ApiError};
use tokio::time::sleep;

/// First and longest delay before a retry.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

/// Retries until the UID is known.
pub(crate) async fn find(client: &Client, uid: &OnceLock<String>) {
    let mut pause = FIRST;
    loop {
        match read(client).await {
            Ok(found) => return drop(uid.set(found)),
            Err(error) => tracing::info!("cluster UID is not available yet: {error}"),
        }
        sleep(pause).await;
        pause = (2 * pause).min(LONGEST);
    }
}

async fn read(client: &Client) -> Result<String, ApiError> {
    let action = Action {
        verb: "get",
        resource: "namespaces".to_owned(),
    };

    let request = Request::get("/api/v1/namespaces/kube-system").body(Vec::new());
    let request = request.map_err(|error| ApiError::Failed(action.clone(), error.to_string()))?;
    let namespace = client.request::<Namespace>(request).await;
    namespace
        .map(|namespace| namespace.metadata.uid)
        .map_err(|error| ApiError::new(action, error))
}
