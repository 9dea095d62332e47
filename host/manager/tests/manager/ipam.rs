//! Pod CIDRs of nodes on the embedded control plane.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers are not test functions for clippy

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use prometheus_client::registry::Registry;
use serde_json::json;
use skydock_cloud as cloud;
use skydock_cloud::{Answers, CloudError, CloudProvider};
use skydock_controllers::{
    Clients, Context, Controller, CsiController, Metrics, Options, RunError,
    ipam::{self, IpamOptions, NodeRange},
    recorder, run,
};
use skydock_devplane::DevPlane;
use tokio::{sync::watch, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

/// A cloud without capabilities, since Pod CIDRs do not need a cloud.
struct Nothing;

fn never<T>() -> Result<T, CloudError> {
    Err(CloudError::Internal("it can do nothing".to_owned()))
}

#[async_trait]
impl CloudProvider for Nothing {
    fn info(&self) -> Arc<cloud::ProviderInfo> {
        Arc::new(cloud::ProviderInfo {
            name: "nothing".to_owned(),
            version: "1".to_owned(),
            capabilities: BTreeSet::new(),
            provider_id_prefixes: Vec::new(),
            annotation_prefixes: Vec::new(),
            max_batch: 1,
            driver: None,
        })
    }

    async fn check(&self, _: &[Arc<cloud::Node>]) -> Result<Answers<cloud::Presence>, CloudError> {
        never()
    }

    async fn describe(
        &self,
        _: &[Arc<cloud::Node>],
    ) -> Result<Answers<cloud::Instance>, CloudError> {
        never()
    }

    async fn get_load_balancer(
        &self,
        _: &cloud::Service,
    ) -> Result<Option<cloud::LoadBalancerStatus>, CloudError> {
        never()
    }

    async fn ensure_load_balancer(
        &self,
        _: &cloud::Service,
        _: &cloud::NodeSet,
    ) -> Result<cloud::LoadBalancerStatus, CloudError> {
        never()
    }

    async fn update_load_balancer(
        &self,
        _: &cloud::Service,
        _: &cloud::NodeSet,
    ) -> Result<(), CloudError> {
        never()
    }

    async fn ensure_load_balancer_deleted(&self, _: &cloud::Service) -> Result<(), CloudError> {
        never()
    }

    async fn list_routes(&self) -> Result<Vec<cloud::Route>, CloudError> {
        never()
    }

    async fn create_routes(&self, _: &[cloud::NewRoute]) -> Result<Answers<()>, CloudError> {
        never()
    }

    async fn delete_routes(&self, _: &[cloud::Route]) -> Result<Answers<()>, CloudError> {
        never()
    }

    async fn locate(&self, _: &[Arc<cloud::Node>]) -> Result<Answers<cloud::Zone>, CloudError> {
        never()
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        never()
    }
}

/// The controller, which can be stopped and restarted.
struct Host {
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), RunError>>,
}

impl Host {
    /// Starts the controller with sixteen Pod CIDRs of each family.
    fn start(client: &Client) -> Self {
        let range = |cluster: &str, mask| NodeRange::new(cluster.parse().unwrap(), mask).unwrap();
        let ipam_options = IpamOptions {
            ranges: vec![range("10.244.0.0/20", 24), range("fd00:10:244::/60", 64)],
            service_cidrs: Vec::new(),
        };
        let shutdown = CancellationToken::new();
        let all = || client.clone();
        let metrics = Metrics::register(&mut Registry::default());
        let (recorder, events) = recorder(&metrics.shared);
        let context = Context {
            clients: Clients {
                informers: all(),
                node: all(),
                service: all(),
                route: all(),
            },
            provider: Arc::new(Nothing),
            volumes: Arc::new(CsiController::new(
                Arc::new(Nothing),
                watch::channel(true).1,
            )),
            generations: watch::channel(1).1,
            options: Options {
                ipam: ipam_options,
                ..Options::default()
            },
            enabled: [&ipam::CONTROLLER as Controller].into(),
            metrics,
            recorder,
            on_cluster: Box::new(|_| {}),
            shutdown: shutdown.clone(),
            records: None,
            unreleased: false,
            worked: CancellationToken::new(),
        };
        Self {
            shutdown,
            running: tokio::spawn(run(context, events)),
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

async fn register(nodes: &Api<Node>, name: &str) {
    let node = json!({"metadata": {"name": name}});
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
}

fn cidrs(node: &Node) -> Vec<String> {
    node.spec
        .as_ref()
        .and_then(|spec| spec.pod_cidrs.clone())
        .unwrap_or_default()
}

/// Returns the nodes with Pod CIDRs when there are this many. Checks that no CIDR is allocated
/// twice.
async fn assigned(nodes: &Api<Node>, count: usize) -> BTreeMap<String, Vec<String>> {
    for _ in 0..200 {
        let list = nodes.list(&ListParams::default()).await.unwrap();
        let with: BTreeMap<_, _> = list
            .iter()
            .map(|node| (node.name_any(), cidrs(node)))
            .collect();
        let with: BTreeMap<_, _> = with
            .into_iter()
            .filter(|(_, cidrs)| !cidrs.is_empty())
            .collect();
        let all: Vec<&String> = with.values().flatten().collect();
        assert_eq!(
            all.iter().collect::<BTreeSet<_>>().len(),
            all.len(),
            "{with:?}"
        );
        if with.len() == count {
            return with;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("not {count} nodes have Pod CIDRs after 10 s");
}

// Holds: I-05, I-06, I-09
#[tokio::test(flavor = "multi_thread")]
async fn nodes_get_unused_pod_cidrs_until_none_is_left() {
    let plane = DevPlane::start(skydock_devplane::Options::default())
        .await
        .unwrap();
    let client = Client::try_from(Config::new(plane.url().parse().unwrap())).unwrap();
    let nodes = Api::<Node>::all(client.clone());
    for number in 0..8 {
        register(&nodes, &format!("n{number:02}")).await;
    }
    let elsewhere = json!({"spec": {"podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24", "fd00:10:244:3::/64"]}});
    nodes
        .patch("n07", &PatchParams::default(), &Patch::Merge(&elsewhere))
        .await
        .unwrap();

    let host = Host::start(&client);
    let before = assigned(&nodes, 8).await;
    assert_eq!(before["n07"], ["10.244.3.0/24", "fd00:10:244:3::/64"]);
    assert_eq!(before["n00"].len(), 2);
    host.stop().await;

    nodes.delete("n02", &DeleteParams::default()).await.unwrap();
    for number in 8..18 {
        register(&nodes, &format!("n{number:02}")).await;
    }
    let host = Host::start(&client);
    let after = assigned(&nodes, 16).await;
    assert!(
        before
            .iter()
            .filter(|(name, _)| *name != "n02")
            .all(|(name, cidrs)| after[name] == *cidrs),
        "{after:?}"
    );

    // 17 nodes for 16 CIDRs: one node waits, gets an event, and receives the next CIDR that is
    // released.
    let events = Api::<Event>::all(client);
    let mut told = Vec::new();
    for _ in 0..100 {
        told = events.list(&ListParams::default()).await.unwrap().items;
        if !told.is_empty() {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].reason.as_deref(), Some("CIDRNotAvailable"));
    assert_eq!(told[0].type_.as_deref(), Some("Warning"));
    nodes.delete("n07", &DeleteParams::default()).await.unwrap();
    let last = assigned(&nodes, 16).await;
    let waited = told[0].involved_object.name.clone().unwrap();
    assert_eq!(last[&waited], ["10.244.3.0/24", "fd00:10:244:3::/64"]);
    host.stop().await;
    plane.shutdown().await;
}
