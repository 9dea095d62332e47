//! Creates the objects of a cluster concurrently, like kubelets and users, and waits until they
//! have the expected state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;
use skydock_e2e::Cluster;
use skydock_support::kubernetes::UNINITIALIZED;

/// Number of concurrent requests to the API server.
const AT_A_TIME: usize = 16;

/// The objects of a cluster.
pub(crate) struct Fleet {
    client: Client,
    cluster: Cluster,
}

impl Fleet {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            cluster: Cluster::new(client.clone()),
            client,
        }
    }

    /// Returns the cluster for changes of single objects.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Registers nodes like kubelets that are ready and wait for their cloud.
    pub(crate) async fn register(&self, names: &[String]) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let made = stream::iter(names).map(Ok).try_for_each_concurrent(AT_A_TIME, async |name| {
            let taint = json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"});
            let node = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {"taints": [taint]},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
            });
            nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
            Ok(())
        });
        made.await
    }

    /// Sets these nodes to not ready, as for kubelets that do not report.
    pub(crate) async fn silence(&self, names: &[String]) -> Result<()> {
        for name in names {
            self.cluster.set_ready(name, false).await?;
        }
        Ok(())
    }

    /// Creates or updates Services with these ports concurrently.
    pub(crate) async fn serve(
        &self,
        names: &[String],
        ports: &[&str],
        annotations: &BTreeMap<String, String>,
    ) -> Result<()> {
        let made = stream::iter(names)
            .map(Ok)
            .try_for_each_concurrent(AT_A_TIME, async |name| {
                self.cluster.serve(name, ports, annotations).await
            });
        made.await
    }

    /// Deletes Services concurrently.
    pub(crate) async fn withdraw(&self, names: &[String]) -> Result<()> {
        let gone = stream::iter(names)
            .map(Ok)
            .try_for_each_concurrent(AT_A_TIME, async |name| self.cluster.withdraw(name).await);
        gone.await
    }

    /// Returns the holder of the leader lease.
    pub(crate) async fn leader(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get_opt("cloud-controller-manager").await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.filter(|holder| !holder.is_empty()))
    }

    /// Waits until all of these nodes are initialized and there are no others.
    pub(crate) async fn nodes_are(&self, names: &[String], limit: Duration) -> Result<Instant> {
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        reached(Api::<Node>::all(self.client.clone()), limit, |nodes| {
            let mut left: Vec<&str> = wanted
                .iter()
                .copied()
                .filter(|name| !nodes.contains_key(*name))
                .collect();
            left.extend(
                nodes
                    .iter()
                    .filter(|(name, node)| !wanted.contains(name.as_str()) || waits(node))
                    .map(|(name, _)| name.as_str()),
            );
            left.iter().map(|name| (*name).to_owned()).collect()
        })
        .await
        .context("nodes")
    }

    /// Waits until all of these Services have an address and there are no others.
    pub(crate) async fn services_are(&self, names: &[String], limit: Duration) -> Result<Instant> {
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        reached(
            Api::<Service>::namespaced(self.client.clone(), "default"),
            limit,
            |services| {
                let balanced = services
                    .iter()
                    .filter(|(name, _)| name.as_str() != "kubernetes");
                let mut left: Vec<String> = wanted
                    .iter()
                    .filter(|name| !services.get(**name).is_some_and(has_address))
                    .map(|name| (*name).to_owned())
                    .collect();
                left.extend(
                    balanced
                        .filter(|(name, _)| !wanted.contains(name.as_str()))
                        .map(|(name, _)| name.clone()),
                );
                left
            },
        )
        .await
        .context("services")
    }
}

fn waits(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    let taints = spec
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    taints.iter().any(|taint| taint.key == UNINITIALIZED)
        || spec.is_none_or(|spec| spec.provider_id.is_none())
}

fn has_address(service: &Service) -> bool {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    status
        .and_then(|status| status.ingress.as_ref())
        .is_some_and(|ingress| !ingress.is_empty())
}

/// Watches objects until `left` returns an empty list.
async fn reached<K>(
    api: Api<K>,
    limit: Duration,
    left: impl Fn(&BTreeMap<String, K>) -> Vec<String>,
) -> Result<Instant>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut all = BTreeMap::new();
    let mut listed = false;
    let mut events = Box::pin(watcher(api, watcher::Config::default()));
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        let Ok(event) = tokio::time::timeout_at(deadline, events.next()).await else {
            bail!(
                "not within {} s: {}",
                limit.as_secs(),
                left(&all).join(", ")
            );
        };
        match event.context("the watch has ended")?? {
            Event::Init => all.clear(),
            Event::InitApply(object) | Event::Apply(object) => {
                all.insert(object.name_any(), object);
            }
            Event::InitDone => listed = true,
            Event::Delete(object) => {
                all.remove(&object.name_any());
            }
        }
        if listed && left(&all).is_empty() {
            return Ok(Instant::now());
        }
    }
}
