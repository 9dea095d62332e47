//! A proxy between hosts and the API server that injects faults.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{self, Body},
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use http::{StatusCode, header};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use skydock_devplane::{FaultSwitch, behind_faults};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Maximum size of a request in bytes, much larger than any request of a host.
const LARGEST_REQUEST: usize = 4 << 20;

/// A proxy on loopback. It forwards all requests, including their credentials, unless a fault
/// applies. A request whose sender has disconnected is not forwarded.
pub(super) struct Proxy {
    address: SocketAddr,
    faults: FaultSwitch,
    upstream: Upstream,
    /// Ends when it is dropped.
    _serving: JoinSet<()>,
}

#[derive(Clone)]
struct Upstream {
    /// A client without credentials.
    client: Client,
    /// Canceled to end the current watches. Later watches use a new token.
    watches: Arc<Mutex<CancellationToken>>,
}

impl Proxy {
    /// Starts a proxy for the API server in this kubeconfig.
    pub(super) async fn start(kubeconfig: &Path) -> Result<Self> {
        let mut kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        for named in &mut kubeconfig.auth_infos {
            named.auth_info = Some(AuthInfo::default());
        }
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let upstream = Upstream {
            client: Client::try_from(config)?,
            watches: Arc::default(),
        };
        let faults = FaultSwitch::default();
        let router = behind_faults(
            Router::new().fallback(forward).with_state(upstream.clone()),
            faults.clone(),
        );
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("cannot listen on loopback")?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            // It never returns an error, and ends with its task at the latest.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            faults,
            upstream,
            _serving: serving,
        })
    }

    /// Returns the switch for faults.
    pub(super) fn faults(&self) -> &FaultSwitch {
        &self.faults
    }

    /// Ends all watches.
    pub(super) fn cut_watches(&self) {
        std::mem::take(&mut *self.upstream.watches()).cancel();
    }

    /// Returns a kubeconfig for an account. It is JSON, which is valid YAML.
    pub(super) fn kubeconfig(&self, token: &str) -> String {
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{ "name": "proxy", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "account", "user": { "token": token } }],
            "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "account" } }],
        });
        kubeconfig.to_string()
    }
}

impl Upstream {
    fn watches(&self) -> MutexGuard<'_, CancellationToken> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forward(State(upstream): State<Upstream>, request: Request) -> Response {
    match try_forward(&upstream, request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

async fn try_forward(upstream: &Upstream, request: Request) -> Result<Response> {
    let watch = request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    let (mut parts, body) = request.into_parts();
    for hop in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ] {
        parts.headers.remove(hop);
    }
    let body = body::to_bytes(body, LARGEST_REQUEST).await?;
    let request = Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    let ended = upstream.watches().clone();
    let mut response = upstream.client.send(request).await?.map(Body::new);
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    if watch {
        return Ok(response.map(|body| {
            Body::from_stream(body.into_data_stream().take_until(ended.cancelled_owned()))
        }));
    }
    Ok(response)
}
