//! The API from the view of clients: kube-rs with a running control plane.

mod access;
mod deletes;
mod faults;
mod lifetime;
mod patches;
mod requests;
mod watches;
mod writes;

use std::fmt::Debug;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::ConfigMap};
use kube::{Api, Client, Config, api::PostParams, core::Status};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skydock_devplane::{DevPlane, Options};

/// A plane with a client.
struct Stage {
    plane: DevPlane,
    client: Client,
}

impl Stage {
    async fn new() -> Result<Self> {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Result<Self> {
        let plane = DevPlane::start(options).await?;
        let client = Client::try_from(Config::new(plane.url().parse()?))?;
        Ok(Self { plane, client })
    }

    /// Returns the API of a resource in the namespace `default`.
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Returns the API of a cluster-scoped resource.
    fn cluster<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Sends a body unchanged. Returns the status code and the response.
    async fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: impl Into<Vec<u8>>,
    ) -> Result<(u16, Value)> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", media);
        let request = request.body(kube::client::Body::from(body.into()))?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        Ok((
            code,
            serde_json::from_slice(&body).context("the answer is not JSON")?,
        ))
    }
}

/// Creates an object from JSON.
async fn create<K>(api: &Api<K>, body: Value) -> Result<K>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    Ok(api
        .create(&PostParams::default(), &serde_json::from_value(body)?)
        .await?)
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"value": value}})
}

/// Returns the value of a config map that `config_map` created.
fn value(map: &ConfigMap) -> &str {
    map.data
        .as_ref()
        .and_then(|data| data.get("value"))
        .map_or("", String::as_str)
}

/// Returns the Status of a rejected request.
fn rejected<T: Debug>(result: kube::Result<T>) -> Result<Status> {
    match result {
        Err(kube::Error::Api(status)) => Ok(*status),
        other => bail!("not rejected by the API server: {other:?}"),
    }
}

/// Returns code and reason of a rejected request.
fn reason<T: Debug>(result: kube::Result<T>) -> Result<(u16, String)> {
    rejected(result).map(|status| (status.code, status.reason))
}

fn is<T: Debug>(result: kube::Result<T>, code: u16, expected: &str) -> Result<()> {
    let found = reason(result)?;
    anyhow::ensure!(
        found == (code, expected.to_owned()),
        "rejected with {found:?}, expected {code} {expected}"
    );
    Ok(())
}
