//! What tests of this crate share: an API server that records and answers as told, a provider that does the same, and
//! short ways to write nodes and services.

mod meeting;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1 as k8s;
use serde_json::{Value, json};
use skydock_cloud::{
    Answers, Capability, CloudError, CloudProvider, Instance, LoadBalancerStatus, NewRoute, Node, NodeSet, Pairs,
    Presence, ProviderInfo, Retry, Route, Service, Zone,
};

use self::meeting::Meeting;
use crate::informer::{Informer, Kind};

/// A request the fake API server got.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

type Script = HashMap<(String, String), VecDeque<(u16, Value)>>;

/// Answers PATCH, POST and DELETE with success and hangs on GET, unless told otherwise.
#[derive(Clone, Default)]
pub(crate) struct FakeApi {
    requests: Arc<Mutex<Vec<Request>>>,
    script: Arc<Mutex<Script>>,
    nodes: Arc<Mutex<Option<Arc<Informer<k8s::Node>>>>>,
}

impl FakeApi {
    pub(crate) fn answer(&self, method: &str, path: &str, code: u16, body: Value) {
        let key = (method.to_owned(), path.to_owned());
        self.script.lock().unwrap().entry(key).or_default().push_back((code, body));
    }

    pub(crate) fn fail(&self, method: &str, path: &str, code: u16, reason: &str) {
        let verb = if method == "POST" { "create".to_owned() } else { method.to_lowercase() };
        let message =
            if code == 403 { format!("{path}: User \"ccm\" cannot {verb} resource") } else { reason.to_owned() };
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
        });
        self.answer(method, path, code, status);
    }

    /// Forgets the answers it was told; what is left is the default.
    pub(crate) fn clear(&self, method: &str, path: &str) {
        self.script.lock().unwrap().remove(&(method.to_owned(), path.to_owned()));
    }

    /// From now on this cache sees which addresses are written, as by a watch.
    pub(crate) fn echoes(&self, nodes: &Arc<Informer<k8s::Node>>) {
        *self.nodes.lock().unwrap() = Some(Arc::clone(nodes));
    }

    fn echo(&self, path: &str, body: &Value) {
        let name = path.strip_prefix("/api/v1/nodes/").and_then(|rest| rest.strip_suffix("/status"));
        let nodes = self.nodes.lock().unwrap().clone();
        let Some((name, nodes)) = name.zip(nodes) else { return };
        let Some(entry) = nodes.get(name) else { return };
        let list = body["status"]["addresses"].as_array().unwrap();
        let addresses: Vec<_> = list.iter().filter(|address| address.get("$patch").is_none()).collect();
        let change = json!({"metadata": {"resourceVersion": "99"}, "status": {"addresses": addresses}});
        nodes.apply(with(&k8s::Node::whole(&entry), &change));
    }

    /// A request that is never answered.
    pub(crate) fn hang(&self, method: &str, path: &str) {
        self.answer(method, path, 0, Value::Null);
    }

    /// Forgets the requests so far.
    pub(crate) fn forget(&self) {
        self.requests.lock().unwrap().clear();
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Every time that an event was told: one that is told again is written as a new count of the first.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut by_name = HashMap::new();
        let mut told = Vec::new();
        for request in self.requests().into_iter().filter(|request| request.path.contains("/events")) {
            let name = request.path.rsplit('/').next().unwrap_or_default().to_owned();
            let event = match by_name.get(&name) {
                Some(first) => with(first, &request.body),
                None => request.body,
            };
            by_name.insert(event["metadata"]["name"].as_str().unwrap_or_default().to_owned(), event.clone());
            told.push(event);
        }
        told
    }

    /// `METHOD /path` of all requests but those for events.
    pub(crate) fn calls(&self) -> Vec<String> {
        let requests = self.requests();
        let others = requests.iter().filter(|request| !request.path.contains("/events"));
        others.map(|request| format!("{} {}", request.method, request.path)).collect()
    }

    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn serve(&self, request: http::Request<kube::client::Body>) -> http::Response<kube::client::Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let key = (parts.method.to_string(), parts.uri.path().to_owned());
        self.requests.lock().unwrap().push(Request {
            method: key.0.clone(),
            path: key.1.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            content_type: parts.headers.get("content-type").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        });
        let told = self.script.lock().unwrap().get_mut(&key).and_then(VecDeque::pop_front);
        if told.is_none() && key.0 == "PATCH" {
            self.echo(&key.1, &serde_json::from_slice(&body).unwrap());
        }
        let (code, body) = match told {
            Some((0, _)) => std::future::pending().await,
            Some(told) => told,
            None if key.0 == "GET" => std::future::pending().await,
            None if key.0 == "POST" => (201, serde_json::from_slice(&body).unwrap()),
            None if key.0 == "DELETE" => (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
            None => (
                200,
                json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"name": "x", "resourceVersion": "99", "labels": {"kubernetes.io/hostname": "x"}},
                }),
            ),
        };
        let body = kube::client::Body::from(body.to_string().into_bytes());
        http::Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
    }
}

/// What the fake cloud answers; each call is recorded.
#[derive(Default)]
pub(crate) struct FakeCloud {
    pub(crate) calls: Mutex<Vec<String>>,
    /// When each of the calls came.
    pub(crate) times: Mutex<Vec<tokio::time::Instant>>,
    pub(crate) instances: Mutex<HashMap<String, Result<Instance, CloudError>>>,
    pub(crate) presences: Mutex<HashMap<String, Result<Presence, CloudError>>>,
    pub(crate) whole: Mutex<Option<CloudError>>,
    pub(crate) get: Mutex<VecDeque<Result<Option<LoadBalancerStatus>, CloudError>>>,
    pub(crate) ensure: Mutex<VecDeque<Result<LoadBalancerStatus, CloudError>>>,
    pub(crate) update: Mutex<VecDeque<Result<(), CloudError>>>,
    pub(crate) delete: Mutex<VecDeque<Result<(), CloudError>>>,
    pub(crate) maintain: Mutex<VecDeque<Result<Duration, CloudError>>>,
    /// Source ranges of the services whose nodes were updated.
    pub(crate) source_ranges: Mutex<Vec<Vec<String>>>,
    pub(crate) gate: Mutex<Option<Arc<tokio::sync::Semaphore>>>,
    /// The one service whose calls the gate stops; `None`: all.
    pub(crate) gated: Mutex<Option<String>>,
    pub(crate) pause: Mutex<Duration>,
    pub(crate) capabilities: Mutex<Option<BTreeSet<Capability>>>,
    pub(crate) routes: crate::route::tests::RouteTable,
    /// What `locate` says of a node instead of zone z9.
    pub(crate) zones: Mutex<HashMap<String, Result<Zone, CloudError>>>,
    pub(crate) locate_whole: Mutex<Option<CloudError>>,
    /// Nodes that end each call for their zone.
    pub(crate) locate_breaks: Mutex<Vec<String>>,
    /// Most nodes of a call, if not three.
    pub(crate) max_batch: Mutex<usize>,
    /// Nodes that end each call that has them: after how long, and how.
    breaks: Mutex<HashMap<String, (Duration, CloudError)>>,
    /// What it takes to describe one machine.
    pub(crate) look_up: Mutex<Duration>,
    /// Where calls of this kind meet.
    meeting: Mutex<Option<(&'static str, Arc<Meeting>)>>,
}

impl FakeCloud {
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn ensure_takes(&self, time: Duration) {
        *self.pause.lock().unwrap() = time;
    }

    /// From now on each call about this node ends so.
    pub(crate) fn breaks(&self, node: &str, after: Duration, error: CloudError) {
        self.breaks.lock().unwrap().insert(node.to_owned(), (after, error));
    }

    /// From now on a call of this kind, such as `ensure`, computes until another one does.
    pub(crate) fn meets(&self, kind: &'static str) -> Arc<Meeting> {
        let meeting = Arc::<Meeting>::default();
        *self.meeting.lock().unwrap() = Some((kind, Arc::clone(&meeting)));
        meeting
    }

    async fn survives(&self, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        let first = {
            let breaks = self.breaks.lock().unwrap();
            nodes.iter().filter_map(|node| breaks.get(&node.name)).min_by_key(|(after, _)| *after).cloned()
        };
        let Some((after, error)) = first else { return Ok(()) };
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
        let meeting = self.meeting.lock().unwrap().clone().filter(|(kind, _)| call.starts_with(kind));
        self.calls.lock().unwrap().push(call);
        self.times.lock().unwrap().push(tokio::time::Instant::now());
        if let Some((_, meeting)) = meeting {
            meeting.join();
        }
    }
}

/// A provider that owns `fake://`.
pub(crate) fn info() -> ProviderInfo {
    ProviderInfo {
        name: "fake".into(),
        version: "1".into(),
        capabilities: [Capability::Instances, Capability::LoadBalancers].into(),
        provider_id_prefixes: vec!["fake://".into()],
        annotation_prefixes: vec!["fake.example/".into()],
        max_batch: 3,
    }
}

fn names(nodes: &[Arc<Node>]) -> String {
    nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(",")
}

fn next<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    queue.lock().unwrap().pop_front()
}

#[async_trait]
impl CloudProvider for FakeCloud {
    fn info(&self) -> Arc<ProviderInfo> {
        let told = self.capabilities.lock().unwrap().clone();
        let info = info();
        let max_batch = Some(*self.max_batch.lock().unwrap()).filter(|max| *max > 0).unwrap_or(info.max_batch);
        Arc::new(ProviderInfo { capabilities: told.unwrap_or_else(|| info.capabilities.clone()), max_batch, ..info })
    }

    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        self.record(format!("check {}", names(nodes)));
        self.pass_gate().await;
        self.survives(nodes).await?;
        if let Some(error) = self.whole.lock().unwrap().clone() {
            return Err(error);
        }
        let presences = self.presences.lock().unwrap();
        Ok(nodes.iter().map(|node| presences.get(&node.name).cloned().unwrap_or(Ok(Presence::Running))).collect())
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
        Ok(nodes.iter().map(|node| instances.get(&node.name).cloned().unwrap_or_else(unknown)).collect())
    }

    async fn get_load_balancer(&self, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        self.record(format!("get {}", service.name));
        next(&self.get).unwrap_or(Ok(Some(LoadBalancerStatus::default())))
    }

    async fn ensure_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError> {
        self.record(format!("ensure {} {}", service.name, names(nodes)));
        let pause = *self.pause.lock().unwrap();
        tokio::time::sleep(pause).await;
        next(&self.ensure).unwrap_or(Ok(LoadBalancerStatus {
            ingress: vec![skydock_cloud::Ingress { ip: Some("192.0.2.1".into()), ..Default::default() }],
        }))
    }

    async fn update_load_balancer(&self, service: &Service, nodes: &NodeSet) -> Result<(), CloudError> {
        self.record(format!("update {} {}", service.name, names(nodes)));
        self.source_ranges.lock().unwrap().push(service.source_ranges.clone());
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
        let cidrs: Vec<_> = routes.iter().map(|route| route.destination_cidr.as_str()).collect();
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

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        self.record(format!("locate {}", names(nodes)));
        if self.locate_breaks.lock().unwrap().iter().any(|name| nodes.iter().any(|node| node.name == *name)) {
            return Err(CloudError::Invalid("it trapped".into()));
        }
        if let Some(error) = self.locate_whole.lock().unwrap().clone() {
            return Err(error);
        }
        let zone = Zone { zone: Some("z9".into()), region: None };
        let zones = self.zones.lock().unwrap();
        Ok(nodes.iter().map(|node| zones.get(&node.name).cloned().unwrap_or_else(|| Ok(zone.clone()))).collect())
    }
}

/// One error of each case; those with a delay ask for 7 s.
pub(crate) fn every_error() -> [CloudError; 9] {
    let why = || "because".to_owned();
    let retry = || Retry { after: Duration::from_secs(7), message: why() };
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

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A node as a kubelet registers it under `--cloud-provider=external`.
pub(crate) fn node(name: &str) -> k8s::Node {
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

/// A service of type LoadBalancer.
pub(crate) fn service(name: &str) -> k8s::Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]},
    }))
    .unwrap()
}

/// Merges a JSON object into an object, as RFC 7386 does.
pub(crate) fn with<K: serde::Serialize + serde::de::DeserializeOwned>(object: &K, patch: &Value) -> K {
    fn merge(target: &mut Value, patch: &Value) {
        let Some(patch) = patch.as_object() else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            if value.is_null() {
                target.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut target[key], value);
            }
        }
    }
    let mut value = serde_json::to_value(object).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}
