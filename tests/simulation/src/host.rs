//! The host under test: the real controllers with a client that does not use sockets.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::Router;
use http::{HeaderValue, Request, header};
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::{
    Client,
    client::{Body, retry::RetryPolicy},
};
use prometheus_client::registry::Registry;
use skydock_controllers::{
    Clients, ClusterCidrs, Context, CsiController, Metrics, Options, RunError,
    ipam::{IpamOptions, NodeRange},
    recorder,
    route::RouteOptions,
    run,
    service::{ANNOTATION, RecordStore, ServiceOptions},
};
use skydock_devplane::DevPlane;
use skydock_kube::election::{LeaseAnnotationWriter, lease_annotation};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt as _, retry::Retry, service_fn};

use crate::{Cloud, cloud::CLUSTER_CIDRS};

/// The prefix of the user agent of all clients of the host, so that faults can be limited to the
/// host.
pub const USER_AGENT: &str = "skydock/";

/// Longer than a graceful stop can take with the default options.
const STOP: Duration = Duration::from_secs(60);

/// The prefix length of a node's Pod CIDR in each range. There are as many Pod CIDRs as names of
/// nodes, so that a lost one is noticed.
const NODE_MASKS: [u8; 2] = [24, 64];

/// How long a renewal of the Lease takes until it is applied, and how long its answer takes.
const RENEWAL: Duration = Duration::from_millis(15);
const RENEWED: Duration = Duration::from_millis(10);

/// The Lease of all hosts, which start one after the other. An election is tested elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Lease(Arc<Mutex<Object>>);

impl Lease {
    fn lock(&self) -> MutexGuard<'_, Object> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the Lease for the next host.
    fn acquire(&self, writer: &LeaseAnnotationWriter) {
        let mut lease = self.lock();
        let transitions = &mut lease.spec.get_or_insert_default().lease_transitions;
        *transitions = Some(transitions.unwrap_or(0) + 1);
        writer.confirm(&lease, 0);
    }

    /// Renews the Lease whenever its annotation changes.
    async fn hold(self, mut writer: LeaseAnnotationWriter) {
        loop {
            writer.changed().await;
            sleep(RENEWAL).await;
            let (written, number) = {
                let mut lease = self.lock();
                let number = writer.apply(&mut lease.metadata.annotations);
                (lease.clone(), number)
            };
            sleep(RENEWED).await;
            writer.confirm(&written, number);
        }
    }
}

/// A process with all controllers.
#[derive(Debug)]
pub struct Host {
    running: JoinHandle<Result<(), RunError>>,
    holding: JoinHandle<()>,
    shutdown: CancellationToken,
    generations: watch::Sender<u64>,
}

impl Host {
    /// Starts a host, which finds nothing of previous ones but what is in the cluster.
    #[must_use]
    pub fn start(plane: &DevPlane, cloud: &Cloud, lease: &Lease) -> Self {
        let (annotation, writer) = lease_annotation(ANNOTATION);
        lease.acquire(&writer);
        let client = |name: &str| client(plane.router(), &format!("{USER_AGENT}test {name}"));
        let shutdown = CancellationToken::new();
        let (generations, receiver) = watch::channel(1);
        let metrics = Metrics::register(&mut Registry::default());
        let (recorder, events) = recorder(&metrics.shared);
        let context = Context {
            clients: Clients {
                informers: client("shared-informers"),
                node: client("node-controller"),
                service: client("service-controller"),
                route: client("route-controller"),
            },
            provider: Arc::new(cloud.clone()),
            volumes: Arc::new(CsiController::new(
                Arc::new(cloud.clone()),
                watch::channel(true).1,
            )),
            generations: receiver,
            options: options(),
            // There are no volumes.
            enabled: skydock_controllers::controllers()
                .filter(|it| !it.alias.starts_with("volume-"))
                .collect(),
            metrics,
            recorder,
            on_cluster: Box::new(drop),
            records: Some(RecordStore::new(
                &client("records"),
                "kube-system",
                "sim",
                "",
                annotation,
            )),
            shutdown: shutdown.clone(),
            unreleased: false,
            worked: CancellationToken::new(),
        };
        Self {
            running: tokio::spawn(run(context, events)),
            holding: tokio::spawn(lease.clone().hold(writer)),
            shutdown,
            generations,
        }
    }

    /// Aborts the host at its current await point. Requests that were sent still arrive.
    pub async fn kill(self) {
        self.running.abort();
        self.holding.abort();
        drop((self.running.await, self.holding.await));
    }

    /// Stops the host gracefully.
    ///
    /// # Errors
    /// Fails if the host does not stop, or failed before.
    pub async fn stop(self) -> Result<(), String> {
        self.shutdown.cancel();
        let stopped = match timeout(STOP, self.running).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the host did not stop within {STOP:?}")),
        };
        self.holding.abort();
        stopped
    }

    /// Returns true if the host has ended by itself.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Makes the host process all objects again, as after a swap of the plugin.
    pub fn swap(&self) {
        self.generations.send_modify(|generation| *generation += 1);
    }
}

/// Longer than a world may take to reach its expected state. The checks of load balancers would hide
/// that a host believes something that is not true.
const CHECK_PERIOD: Duration = Duration::from_secs(3 * 3600);

/// Returns the default options with Pod CIDRs.
fn options() -> Options {
    let cluster_cidrs = ClusterCidrs::parse(&CLUSTER_CIDRS);
    let ranges = cluster_cidrs
        .iter()
        .flat_map(ClusterCidrs::iter)
        .zip(NODE_MASKS);
    let ranges = ranges
        .filter_map(|(cluster, mask)| NodeRange::new(cluster, mask).ok())
        .collect();
    Options {
        ipam: IpamOptions {
            ranges,
            ..IpamOptions::default()
        },
        routes: RouteOptions {
            cluster_cidrs,
            ..RouteOptions::default()
        },
        services: ServiceOptions {
            check_period: Some(CHECK_PERIOD),
            ..ServiceOptions::default()
        },
        ..Options::default()
    }
}

/// Returns a client that sends requests directly to the router and retries like kube's own client.
/// The router processes a request to the end even if nobody waits for the answer.
pub(crate) fn client(router: Router, user_agent: &str) -> Client {
    let user_agent =
        HeaderValue::from_str(user_agent).unwrap_or_else(|_| HeaderValue::from_static("unnamed"));
    let send = service_fn(move |mut request: Request<Body>| {
        let router = router.clone();
        request
            .headers_mut()
            .insert(header::USER_AGENT, user_agent.clone());
        async move {
            let answer = tokio::spawn(router.oneshot(request))
                .await
                .map_err(BoxError::from)?;
            answer.map_err(BoxError::from)
        }
    });
    Client::new(Retry::new(RetryPolicy::server_retry(), send), "default")
}
