//! The host under test: the controllers as shipped, with a client that has no socket.

use std::{sync::Arc, time::Duration};

use axum::Router;
use http::{HeaderValue, Request, header};
use kube::{
    Client,
    client::{Body, retry::RetryPolicy},
};
use prometheus_client::registry::Registry;
use skydock_controllers::{
    Clients, ClusterCidrs, Context, Controller, Metrics, Options, RunError,
    ipam::{IpamOptions, NodeRange},
    route::RouteOptions,
    run,
};
use skydock_devplane::DevPlane;
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt as _, retry::Retry, service_fn};

use crate::{Cloud, cloud::CLUSTER_CIDRS};

/// Begins the user agent of every client of the host, so that faults can be made to concern the host alone.
pub const USER_AGENT: &str = "skydock/";

/// Longer than a graceful stop may take with the default options.
const STOP: Duration = Duration::from_secs(60);

/// What a node gets of each range: there are as many as there are names of nodes, so that one that is lost is missed.
const NODE_MASKS: [u8; 2] = [24, 64];

/// A process with all controllers.
#[derive(Debug)]
pub struct Host {
    running: JoinHandle<Result<(), RunError>>,
    shutdown: CancellationToken,
    generations: watch::Sender<u64>,
}

impl Host {
    /// Starts one, which knows nothing of those before.
    #[must_use]
    pub fn start(plane: &DevPlane, cloud: &Cloud) -> Self {
        let client = |name: &str| client(plane.router(), &format!("{USER_AGENT}test {name}"));
        let shutdown = CancellationToken::new();
        let (generations, receiver) = watch::channel(1);
        let context = Context {
            clients: Clients {
                informers: client("shared-informers"),
                node: client("node-controller"),
                service: client("service-controller"),
                route: client("route-controller"),
            },
            provider: Arc::new(cloud.clone()),
            generations: receiver,
            options: options(),
            enabled: Controller::ALL.into(),
            metrics: Metrics::register(&mut Registry::default()),
            on_cluster: Box::new(drop),
            shutdown: shutdown.clone(),
            unreleased: false,
            worked: CancellationToken::new(),
        };
        Self { running: tokio::spawn(run(context)), shutdown, generations }
    }

    /// Ends it at whatever it waits for just now. Requests on their way still arrive.
    pub async fn kill(self) {
        self.running.abort();
        drop(self.running.await);
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// If it does not end, or failed before.
    pub async fn stop(self) -> Result<(), String> {
        self.shutdown.cancel();
        match timeout(STOP, self.running).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the host did not stop within {STOP:?}")),
        }
    }

    /// True if it has ended by itself.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Has it look at all objects again, as after a swap of the plugin.
    pub fn swap(&self) {
        self.generations.send_modify(|generation| *generation += 1);
    }
}

/// As shipped, with Pod CIDRs.
fn options() -> Options {
    let cluster_cidrs = ClusterCidrs::parse(&CLUSTER_CIDRS);
    let ranges = cluster_cidrs.iter().flat_map(ClusterCidrs::iter).zip(NODE_MASKS);
    let ranges = ranges.filter_map(|(cluster, mask)| NodeRange::new(cluster, mask).ok()).collect();
    Options {
        ipam: IpamOptions { ranges, ..IpamOptions::default() },
        routes: RouteOptions { cluster_cidrs, ..RouteOptions::default() },
        ..Options::default()
    }
}

/// A client that sends straight to the router, repeats as kube's own does, and like any request once sent, the work goes
/// on if nobody waits for the answer any more.
pub(crate) fn client(router: Router, user_agent: &str) -> Client {
    let user_agent = HeaderValue::from_str(user_agent).unwrap_or_else(|_| HeaderValue::from_static("unnamed"));
    let send = service_fn(move |mut request: Request<Body>| {
        let router = router.clone();
        request.headers_mut().insert(header::USER_AGENT, user_agent.clone());
        async move {
            let answer = tokio::spawn(router.oneshot(request)).await.map_err(BoxError::from)?;
            answer.map_err(BoxError::from)
        }
    });
    Client::new(Retry::new(RetryPolicy::server_retry(), send), "default")
}
