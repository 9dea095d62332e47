//! Fakes for tests: an API server and a provider that record calls and answer as
//! told, and short functions that create nodes and Services.

mod meeting;
mod route_table;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as k8s;
use serde_json::json;
use skydock_cloud::{
    Answers, Capability, CloudError, CloudProvider, CsiDriver, Instance, LoadBalancerStatus,
    NewRoute, Node, NodeFields, NodeSet, Pairs, Presence, ProviderInfo, Retry, Route, Service,
    StorageError, Volume, VolumeId, Zone,
};
use tokio_util::sync::CancellationToken;

use self::meeting::Meeting;
pub use self::route_table::RouteTable;
use skydock_kube::informer::Informer;
pub use skydock_kube::testing::{FakeApi, Request, service, with};

use crate::{
    controller::{
        context::{ControllerContext, metrics::SharedMetrics},
        descriptor::Controller,
        recorder::recorder,
    },
    objects::kinds::NodeKind,
};

/// Makes written addresses appear in this cache from now on, as by a watch.
pub fn echoes(api: &FakeApi, nodes: &Arc<Informer<NodeKind>>) {
    let nodes = Arc::clone(nodes);
    api.on_patch(move |path, body| {
        let name = path
            .strip_prefix("/api/v1/nodes/")
            .and_then(|rest| rest.strip_suffix("/status"));
        let Some(entry) = name.and_then(|name| nodes.get(name)) else {
            return;
        };

        let list = body["status"]["addresses"].as_array().unwrap();
        let addresses: Vec<_> = list
            .iter()
            .filter(|address| address.get("$patch").is_none())
            .collect();
        let change =
            json!({"metadata": {"resourceVersion": "99"}, "status": {"addresses": addresses}});

        nodes.apply(with(&NodeKind::whole(&entry), &change));
    });
}

/// Returns what a controller shares with the others, over these fakes. Writes its events.
pub fn context(
    controller: Controller,
    api: &FakeApi,
    cloud: Arc<FakeCloud>,
    metrics: &SharedMetrics,
) -> ControllerContext {
    let (recorder, writer) = recorder(metrics);
    tokio::spawn(writer.run(api.client(), CancellationToken::new()));

    ControllerContext {
        controller,
        provider: cloud,
        nodes: Arc::default(),
        recorder,
        metrics: metrics.clone(),
    }
}

/// A fake cloud; each call is recorded.
#[derive(Default)]
pub struct FakeCloud {
    pub calls: Mutex<Vec<String>>,
    /// Times of the calls.
    pub times: Mutex<Vec<tokio::time::Instant>>,
    pub instances: Mutex<HashMap<String, Result<Instance, CloudError>>>,
    pub presences: Mutex<HashMap<String, Result<Presence, CloudError>>>,
    pub whole: Mutex<Option<CloudError>>,
    pub get: Mutex<VecDeque<Result<Option<LoadBalancerStatus>, CloudError>>>,
    pub ensure: Mutex<VecDeque<Result<LoadBalancerStatus, CloudError>>>,
    pub update: Mutex<VecDeque<Result<(), CloudError>>>,
    pub delete: Mutex<VecDeque<Result<(), CloudError>>>,
    /// The fields that it reads of the nodes of each load balancer.
    pub node_fields: Mutex<NodeFields>,
    pub maintain: Mutex<VecDeque<Result<Duration, CloudError>>>,
    /// Source ranges of the Services whose nodes were updated.
    pub source_ranges: Mutex<Vec<Vec<String>>>,
    pub gate: Mutex<Option<Arc<tokio::sync::Semaphore>>>,
    /// The only Service whose calls wait at the gate; if `None`, all do.
    pub gated: Mutex<Option<String>>,
    pub pause: Mutex<Duration>,
    pub capabilities: Mutex<Option<BTreeSet<Capability>>>,
    pub routes: RouteTable,
    /// Answers of `locate` about nodes; the default is zone z9.
    pub zones: Mutex<HashMap<String, Result<Zone, CloudError>>>,
    pub locate_whole: Mutex<Option<CloudError>>,
    /// Nodes that make each `locate` call fail.
    pub locate_breaks: Mutex<Vec<String>>,
    /// The CSI driver whose controller part it is.
    pub driver: Mutex<Option<CsiDriver>>,
    pub volumes: Mutex<HashMap<String, Result<Volume, StorageError>>>,
    /// Maximum number of nodes in a call; if 0, three.
    pub max_batch: Mutex<usize>,
    /// Nodes that make each call fail that contains them: after which time, and with which error.
    breaks: Mutex<HashMap<String, (Duration, CloudError)>>,
    /// Time to describe one instance.
    pub look_up: Mutex<Duration>,
    /// Kind of the calls that meet, and their meeting.
    meeting: Mutex<Option<(&'static str, Arc<Meeting>)>>,
}

impl FakeCloud {
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub fn ensure_takes(&self, time: Duration) {
        *self.pause.lock().unwrap() = time;
    }

    /// Makes each call about this node fail in this way from now on.
    pub fn breaks(&self, node: &str, after: Duration, error: CloudError) {
        self.breaks
            .lock()
            .unwrap()
            .insert(node.to_owned(), (after, error));
    }

    /// Makes a call of this kind, for example `ensure`, block its thread from now on until there is
    /// another one.
    pub fn meets(&self, kind: &'static str) -> Arc<Meeting> {
        let meeting = Arc::<Meeting>::default();
        *self.meeting.lock().unwrap() = Some((kind, Arc::clone(&meeting)));
        meeting
    }

    async fn survives(&self, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        let first = {
            let breaks = self.breaks.lock().unwrap();
            nodes
                .iter()
                .filter_map(|node| breaks.get(&node.name))
                .min_by_key(|(after, _)| *after)
                .cloned()
        };

        let Some((after, error)) = first else {
            return Ok(());
        };
        tokio::time::sleep(after).await;
        Err(error)
    }

    async fn pass_gate(&self) {
        let gate = self.gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            drop(gate.acquire().await);
        }
    }

    fn record(&self, call: String) {
        let meeting = self
            .meeting
            .lock()
            .unwrap()
            .clone()
            .filter(|(kind, _)| call.starts_with(kind));

        self.calls.lock().unwrap().push(call);
        self.times.lock().unwrap().push(tokio::time::Instant::now());
        if let Some((_, meeting)) = meeting {
            meeting.join();
        }
    }
}

/// Returns the info of a provider that owns `fake://`.
pub fn info() -> ProviderInfo {
    ProviderInfo {
        name: "fake".into(),
        version: "1".into(),
        capabilities: [Capability::Instances, Capability::LoadBalancers].into(),
        provider_id_prefixes: vec!["fake://".into()],
        annotation_prefixes: vec!["fake.example/".into()],
        max_batch: 3,
        driver: None,
    }
}

fn names(nodes: &[Arc<Node>]) -> String {
    nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect::<Vec<_>>()
        .join(",")
}

fn next<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    queue.lock().unwrap().pop_front()
}

#[async_trait]
impl CloudProvider for FakeCloud {
    fn info(&self) -> Arc<ProviderInfo> {
        let reported = self.capabilities.lock().unwrap().clone();
        let info = info();
        let max_batch = Some(*self.max_batch.lock().unwrap())
            .filter(|max| *max > 0)
            .unwrap_or(info.max_batch);

        Arc::new(ProviderInfo {
            capabilities: reported.unwrap_or_else(|| info.capabilities.clone()),
            max_batch,
            driver: self.driver.lock().unwrap().clone(),
            ..info
        })
    }

    fn node_fields_read(&self, _: &str) -> NodeFields {
        *self.node_fields.lock().unwrap()
    }

    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        self.record(format!("check {}", names(nodes)));
        self.pass_gate().await;
        self.survives(nodes).await?;
        if let Some(error) = self.whole.lock().unwrap().clone() {
            return Err(error);
        }

        let presences = self.presences.lock().unwrap();
        Ok(nodes
            .iter()
            .map(|node| {
                presences
                    .get(&node.name)
                    .cloned()
                    .unwrap_or(Ok(Presence::Running))
            })
            .collect())
    }

    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError> {
        self.record(format!("describe {}", names(nodes)));
        self.survives(nodes).await?;
        let look_up = *self.look_up.lock().unwrap();
        if !look_up.is_zero() {
            tokio::time::sleep(look_up * u32::try_from(nodes.len()).unwrap()).await;
        }

        if let Some(error) = self.whole.lock().unwrap().clone() {
            return Err(error);
        }

        let instances = self.instances.lock().unwrap();
        let unknown = || Err(CloudError::NotFound("no such machine".into()));
        Ok(nodes
            .iter()
            .map(|node| instances.get(&node.name).cloned().unwrap_or_else(unknown))
            .collect())
    }

    async fn get_load_balancer(
        &self,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, CloudError> {
        self.record(format!("get {}", service.name));
        next(&self.get).unwrap_or(Ok(Some(LoadBalancerStatus::default())))
    }

    async fn ensure_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<LoadBalancerStatus, CloudError> {
        self.record(format!("ensure {} {}", service.name, names(nodes)));
        let pause = *self.pause.lock().unwrap();
        tokio::time::sleep(pause).await;
        next(&self.ensure).unwrap_or(Ok(LoadBalancerStatus {
            ingress: vec![skydock_cloud::Ingress {
                ip: Some("192.0.2.1".into()),
                ..Default::default()
            }],
        }))
    }

    async fn update_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<(), CloudError> {
        self.record(format!("update {} {}", service.name, names(nodes)));
        self.source_ranges
            .lock()
            .unwrap()
            .push(service.source_ranges.clone());

        let gated = self.gated.lock().unwrap().clone();
        if gated.is_none_or(|gated| gated == service.name) {
            self.pass_gate().await;
        }

        next(&self.update).unwrap_or(Ok(()))
    }

    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError> {
        self.record(format!("delete {} {}", service.name, service.uid));
        next(&self.delete).unwrap_or(Ok(()))
    }

    fn max_routes(&self) -> Option<usize> {
        *self.routes.limit.lock().unwrap()
    }

    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        self.record("list".to_owned());
        let (listed, pause) = (self.routes.list(), *self.routes.list_takes.lock().unwrap());
        tokio::time::sleep(pause).await;
        listed
    }

    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        let cidrs: Vec<_> = routes
            .iter()
            .map(|route| route.destination_cidr.as_str())
            .collect();
        self.record(format!("create {}", cidrs.join(",")));
        self.routes.create(routes).await
    }

    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError> {
        let names: Vec<_> = routes.iter().map(|route| route.name.as_str()).collect();
        self.record(format!("unroute {}", names.join(",")));
        self.routes.delete(routes).await
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        self.record("maintain".to_owned());
        next(&self.maintain).unwrap_or(Ok(Duration::from_secs(3600)))
    }

    async fn get_volumes(
        &self,
        ids: &[VolumeId],
    ) -> Result<Answers<Volume, StorageError>, CloudError> {
        let listed: Vec<_> = ids.iter().map(|id| id.0.as_str()).collect();
        self.record(format!("volumes {}", listed.join(",")));
        if let Some(error) = self.whole.lock().unwrap().clone() {
            return Err(error);
        }

        let volumes = self.volumes.lock().unwrap();
        let unknown = || {
            Err(StorageError::Cloud(CloudError::NotFound(
                "no such volume".into(),
            )))
        };
        Ok(ids
            .iter()
            .map(|id| volumes.get(&id.0).cloned().unwrap_or_else(unknown))
            .collect())
    }

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        self.record(format!("locate {}", names(nodes)));
        if self
            .locate_breaks
            .lock()
            .unwrap()
            .iter()
            .any(|name| nodes.iter().any(|node| node.name == *name))
        {
            return Err(CloudError::Invalid("it trapped".into()));
        }

        if let Some(error) = self.locate_whole.lock().unwrap().clone() {
            return Err(error);
        }

        let zone = Zone {
            zone: Some("z9".into()),
            region: None,
        };

        let zones = self.zones.lock().unwrap();
        Ok(nodes
            .iter()
            .map(|node| {
                zones
                    .get(&node.name)
                    .cloned()
                    .unwrap_or_else(|| Ok(zone.clone()))
            })
            .collect())
    }
}

/// Returns one error of each case; those with a delay ask for 7 s.
pub fn every_error() -> [CloudError; 9] {
    let why = || "because".to_owned();
    let retry = || Retry {
        after: Duration::from_secs(7),
        message: why(),
    };
    [
        CloudError::NotFound(why()),
        CloudError::ImplementedElsewhere,
        CloudError::Conflict(why()),
        CloudError::Throttled(retry()),
        CloudError::InProgress(retry()),
        CloudError::Denied(why()),
        CloudError::Invalid(why()),
        CloudError::Unavailable(why()),
        CloudError::Internal(why()),
    ]
}

pub fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Returns a node as a kubelet registers it with `--cloud-provider=external`.
pub fn node(name: &str) -> k8s::Node {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name},
        },
        "spec": {"taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        ]},
        "status": {"addresses": [{"type": "Hostname", "address": name}]},
    }))
    .unwrap()
}

/// Returns nodes that have only these names.
pub fn node_set(names: &[&str]) -> NodeSet {
    let node = |name: &&str| {
        Arc::new(Node {
            name: (*name).to_owned(),
            ..Node::default()
        })
    };
    names.iter().map(node).collect()
}
