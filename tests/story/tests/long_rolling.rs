//! Skydock is updated and rolled back on real nodes while Services and nodes change. The next
//! replica leads within a second, every Service and node is handled in the end, and the Pods in
//! service answer everyone who reads their metrics.
//!
//! Needs root. Where that is missing, `SKYDOCK_NO_CONTAINERS=1` skips it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt as _;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod, Service},
        discovery::v1::EndpointSlice,
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use skydock_clusters::{Error, NodeSpec, Plane, RealPlane};
use skydock_story::image;
use skydock_support::{
    Seen, checkout, copy_folder, eventually, free_address,
    kubernetes::{FINALIZER, UNINITIALIZED},
};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

const NAMESPACE: &str = "kube-system";
/// The image that the example names, and that of the update.
const IMAGES: [&str; 2] = [image::IMAGE, "registry.example.com/skydock:update"];
/// The variables with files that have other images to be tested: an older one, and the newer one.
const FILES: [&str; 2] = ["SKYDOCK_OLD_IMAGE", "SKYDOCK_IMAGE"];
/// The nodes of Skydock.
const NODES: [&str; 2] = ["control-1", "control-2"];
/// Nodes that come and go, with kubelets that only pretend to run Pods.
const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];
/// It has fewer addresses than Services are created, so that those of deleted ones are used again.
const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1
kind: Inventory
machines: [{name: control-1}, {name: control-2}, {name: worker-1}, {name: worker-2}, {name: worker-3}]
addressPools: [{name: public, addresses: [192.0.2.0/27]}]
";
const SELECTOR: &str = "app.kubernetes.io/name=skydock";
/// The port of Skydock's HTTPS server.
const PORT: u16 = 10258;
/// The maximum time without a leader.
const MOST_GAP: Duration = Duration::from_secs(1);
/// The interval between two changes of Services.
const CHANGE: Duration = Duration::from_millis(100);
/// The number of Services before the oldest one is deleted.
const SERVICES: usize = 10;
/// The time from a node's initialization to its end, and to the next one.
const NODE_LIFE: Duration = Duration::from_secs(2);
/// The interval between two scrapes.
const SCRAPE: Duration = Duration::from_millis(250);
/// As of Prometheus.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time in which no Pod in service answers. A Pod is in service as soon as it is ready,
/// but the list of endpoints, which another controller writes, follows a moment later.
const MOST_SILENCE: Duration = Duration::from_secs(1);
/// The number of changes and scrapes below which nothing was tested: there are several each second.
const LEAST_WORK: usize = 50;
/// How long everything changes before the update.
const BEFORE: Duration = Duration::from_secs(5);
/// A timeout for each step.
const PATIENCE: Duration = Duration::from_secs(120);
/// A timeout for a rollout, for kubectl: each Pod compiles its plugin, and shares two processors with
/// all the rest.
const ROLLOUT: &str = "--timeout=8m";

#[tokio::test(flavor = "multi_thread")]
async fn an_update_and_its_rollback_are_not_noticed() {
    let plane = RealPlane::start().await.expect("the plane starts");
    let dir = tempfile::Builder::new()
        .prefix("skydock-rolling-")
        .tempdir()
        .expect("a folder");
    let cluster = Cluster::prepare(&plane, dir.path()).expect("two images");
    match cluster.whole().await {
        Ok(()) => {}
        Err(error) if is_skipped(&error) => {}
        Err(error) => {
            let state = plane
                .kubectl(&["get", "nodes,services,pods,leases,events", "-A"])
                .await;
            panic!(
                "{error:?}\n{}\nthe logs are in {}; those of Pods in nodes/NODE/logs",
                state.unwrap_or_else(|error| error.to_string()),
                plane.folder().display()
            );
        }
    }
}

fn is_skipped(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Error::skips_test)
}

struct Cluster<'a> {
    plane: &'a RealPlane,
    client: Client,
    dir: &'a Path,
    images: Vec<PathBuf>,
    /// Where the HTTPS server on each node is reached.
    addresses: BTreeMap<&'static str, SocketAddr>,
    /// Set when all rollouts are done.
    done: AtomicBool,
}

impl<'a> Cluster<'a> {
    /// Writes two images, and the example with an inventory. The images differ in a label, unless
    /// other ones are given.
    fn prepare(plane: &'a RealPlane, dir: &'a Path) -> Result<Self> {
        let first = image::of_checkout()?;
        let second = first
            .clone()
            .label("org.opencontainers.image.version", "update");
        let mut images = Vec::new();
        let mut digests = BTreeSet::new();
        for ((name, file), image) in IMAGES.into_iter().zip(FILES).zip([first, second]) {
            let archive = dir.join(format!("skydock-{}.tar", images.len()));
            let file = std::env::var_os(file);
            let digest = image::write_unless(file.as_deref(), name, &[image], &archive)?;
            digests.insert(digest);
            images.push(archive);
        }
        ensure!(digests.len() == IMAGES.len(), "one digest: {digests:?}");

        copy_folder(&checkout().join("deploy"), &dir.join("deploy"))?;
        fs::write(dir.join("deploy/example/cloud.yaml"), INVENTORY)?;
        let mut addresses = BTreeMap::new();
        for node in NODES {
            addresses.insert(node, free_address()?);
        }
        Ok(Self {
            plane,
            client: plane.client(),
            dir,
            images,
            addresses,
            done: AtomicBool::new(false),
        })
    }

    async fn whole(&self) -> Result<()> {
        self.deploy().await?;
        let create = self.kubectl(&["create", "token", "prometheus", "--duration=2h"]);
        let token = create.await?.trim().to_owned();

        let (gaps, scrapes, changes, workers, ()) = tokio::try_join!(
            Box::pin(self.watch_lease()),
            Box::pin(self.scrape(&token)),
            Box::pin(self.change_services()),
            Box::pin(self.change_nodes()),
            Box::pin(self.update_and_roll_back()),
        )?;
        self.is_reconciled(&token).await?;

        println!("without a leader: {gaps:.0?}");
        println!("scrapes: {scrapes}");
        println!("{changes} changes of Services, {workers} nodes came and went");
        let worked = changes >= LEAST_WORK && scrapes.count >= LEAST_WORK && workers > 0;
        ensure!(worked, "too little happened in the meantime");
        // The last Pod of each rollout is another one.
        ensure!(gaps.len() >= 2, "leaders changed {} times", gaps.len());
        for gap in gaps {
            ensure!(gap <= MOST_GAP, "{gap:?} without a leader");
        }
        Ok(())
    }

    /// Starts the nodes, and deploys Skydock and what an operator adds to read its metrics.
    async fn deploy(&self) -> Result<()> {
        for (node, address) in &self.addresses {
            let spec = NodeSpec::new(*node)
                .without_provider_id()
                .with_port(PORT, *address);
            self.plane.start_container_node(&spec, &self.images).await?;
            // As kubeadm does it: a kubelet may not set this label itself.
            let role = "node-role.kubernetes.io/control-plane=";
            self.plane.kubectl(&["label", "node", node, role]).await?;
        }

        let example = self.dir.join("deploy/example").display().to_string();
        self.kubectl(&["apply", "--validate=strict", "-k", &example])
            .await?;
        let metrics = self.dir.join("metrics.json");
        fs::write(&metrics, metrics_objects().to_string())?;
        self.kubectl(&["create", "-f", &metrics.display().to_string()])
            .await?;
        self.is_rolled_out("the installation", IMAGES[0]).await
    }

    async fn update_and_roll_back(&self) -> Result<()> {
        sleep(BEFORE).await;
        let update = format!("skydock={}", IMAGES[1]);
        self.kubectl(&["set", "image", "deployment/skydock", &update])
            .await?;
        self.is_rolled_out("the update", IMAGES[1]).await?;
        self.kubectl(&["rollout", "undo", "deployment/skydock"])
            .await?;
        self.is_rolled_out("the rollback", IMAGES[0]).await?;
        self.done.store(true, Relaxed);
        Ok(())
    }

    /// Waits until all Pods are ready and have this image.
    async fn is_rolled_out(&self, what: &str, image: &str) -> Result<()> {
        let began = Instant::now();
        self.kubectl(&["rollout", "status", "deployment/skydock", ROLLOUT])
            .await
            .with_context(|| what.to_owned())?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let pods = pods.list(&ListParams::default().labels(SELECTOR)).await?;
        let images: Vec<_> = pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.as_deref())
            .collect();
        ensure!(images == [image; NODES.len()], "{what}: {images:?}");
        println!("{what} took {:.1?}", began.elapsed());
        Ok(())
    }

    /// Returns the times without a leader: each from the release, or else the last renewal, of one
    /// leader until the next one acquires the Lease.
    async fn watch_lease(&self) -> Result<Vec<Duration>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let config = watcher::Config::default().fields("metadata.name=cloud-controller-manager");
        let mut versions = pin!(watcher(leases, config).default_backoff().applied_objects());
        let mut leader = String::new();
        let mut last: Option<Version> = None;
        let mut gaps = Vec::new();
        while !self.is_done() {
            // An interrupted watch continues.
            let Ok(Some(Ok(lease))) = timeout(CHANGE, versions.next()).await else {
                continue;
            };
            let version = Version::of(lease)?;
            if let Some(last) = &last {
                ensure!(
                    version.transitions <= last.transitions + 1,
                    "the watch has missed a leader of the Lease: {last:?}, then {version:?}"
                );
                if !version.holder.is_empty() && version.holder != leader {
                    let gap = version.acquired.duration_since(last.renewed).unsigned_abs();
                    println!("{} leads after {gap:.0?}", version.holder);
                    gaps.push(gap);
                }
            }
            if !version.holder.is_empty() {
                leader.clone_from(&version.holder);
            }
            last = Some(version);
        }
        Ok(gaps)
    }

    /// Reads the metrics of all Pods in service again and again, each time with its own connection.
    async fn scrape(&self, token: &str) -> Result<Scrapes> {
        let mut scrapes = Scrapes::default();
        let mut answered = Instant::now();
        let mut ticks = every(SCRAPE);
        while !self.is_done() {
            ticks.tick().await;
            for (pod, node) in self.in_service().await? {
                let began = Instant::now();
                match self.metrics(&node, token).await {
                    Ok(_) => {
                        answered = Instant::now();
                        scrapes.count += 1;
                        scrapes.slowest = scrapes.slowest.max(began.elapsed());
                    }
                    Err(_) if self.is_deleted(&pod).await? => scrapes.deleted += 1,
                    Err(error) => bail!(
                        "{pod} on {node} is in service, but scrape {} failed: {error:#}",
                        scrapes.count
                    ),
                }
            }
            ensure!(
                answered.elapsed() < MOST_SILENCE,
                "no Pod in service has answered for {:.1?}",
                answered.elapsed()
            );
        }
        Ok(scrapes)
    }

    /// Returns the ready endpoints of the Service: their Pods and nodes.
    async fn in_service(&self) -> Result<Vec<(String, String)>> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), NAMESPACE);
        let of_service = ListParams::default().labels("kubernetes.io/service-name=skydock");
        let slices = slices.list(&of_service).await?;
        let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
        Ok(endpoints
            .filter(|it| it.conditions.as_ref().and_then(|it| it.ready) == Some(true))
            .filter_map(|it| Some((it.target_ref?.name?, it.node_name?)))
            .collect())
    }

    async fn is_deleted(&self, pod: &str) -> Result<bool> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let pod = pods.get_opt(pod).await?;
        Ok(pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()))
    }

    /// Reads the metrics of the Pod on this node.
    async fn metrics(&self, node: &str, token: &str) -> Result<String> {
        let address = self.addresses.get(node).context("an unknown node")?;
        let mut config = Config::new(format!("https://{address}").parse()?);
        // The certificate is self-signed.
        config.accept_invalid_certs = true;
        config.root_cert = Some(Vec::new());
        config.default_retry = false;
        config.auth_info.token = Some(token.to_owned().into());
        let client = Client::try_from(config)?;
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = timeout(SCRAPE_TIMEOUT, client.request_text(request)).await??;
        ensure!(text.contains("skydock_build_info"), "not metrics: {text}");
        Ok(text)
    }

    /// Creates, changes and deletes Services, and returns the number of changes.
    async fn change_services(&self) -> Result<usize> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        let mut existing = VecDeque::new();
        let mut changes = 0;
        let mut ticks = every(CHANGE);
        for number in 0.. {
            if self.is_done() {
                break;
            }
            ticks.tick().await;
            if number % 3 == 0 {
                let name = format!("s{number}");
                let service: Service = serde_json::from_value(json!({
                    "metadata": {"name": name},
                    "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
                }))?;
                services.create(&PostParams::default(), &service).await?;
                existing.push_back(name);
            } else if number % 3 == 1
                && let Some(newest) = existing.back()
            {
                // Every other one loses its load balancer.
                let change = if number % 2 == 0 {
                    json!({"spec": {"type": "ClusterIP"}})
                } else {
                    json!({"spec": {"ports": [{"port": 81}]}})
                };
                let change = Patch::Merge(change);
                services
                    .patch(newest, &PatchParams::default(), &change)
                    .await?;
            } else if existing.len() > SERVICES
                && let Some(oldest) = existing.pop_front()
            {
                services.delete(&oldest, &DeleteParams::default()).await?;
            } else {
                continue;
            }
            changes += 1;
        }
        Ok(changes)
    }

    /// Starts nodes, waits until they are initialized, and removes them. Returns their number.
    async fn change_nodes(&self) -> Result<usize> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut count = 0;
        for worker in WORKERS.into_iter().cycle() {
            if self.is_done() {
                break;
            }
            let spec = NodeSpec::new(worker).without_provider_id();
            self.plane.start_node(&spec).await?;
            let initialized = eventually(PATIENCE, async || {
                Ok(Seen::when(
                    is_initialized(&nodes.get(worker).await?),
                    "it is not initialized",
                ))
            });
            initialized.await.with_context(|| worker.to_owned())?;
            sleep(NODE_LIFE).await;
            self.plane.stop_node(worker).await?;
            nodes.delete(worker, &DeleteParams::default()).await?;
            count += 1;
            sleep(NODE_LIFE).await;
        }
        Ok(count)
    }

    /// Waits until each Service is as it should be, and the leader knows of these load balancers and
    /// of no others.
    async fn is_reconciled(&self, token: &str) -> Result<()> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        eventually(PATIENCE, async || {
            let all = services.list(&ListParams::default()).await?;
            let mut addresses = BTreeSet::new();
            let wrong: Vec<_> = all
                .iter()
                .filter(|service| !is_right(service, &mut addresses))
                .map(kube::ResourceExt::name_any)
                .collect();
            Ok(Seen::when(wrong.is_empty(), format!("wrong: {wrong:?}")))
        })
        .await
        .context("Services")?;

        let all = services.list(&ListParams::default()).await?;
        let wanted = all.iter().filter(|service| is_wanted(service)).count();
        eventually(PATIENCE, async || {
            let mut known: BTreeMap<String, usize> = BTreeMap::new();
            for (_, node) in self.in_service().await? {
                known.extend(balancers(&self.metrics(&node, token).await?));
            }
            let is_same =
                known.get("ready") == Some(&wanted) && known.values().sum::<usize>() == wanted;
            let instead = format!("instead of {wanted} that are ready: {known:?}");
            Ok(Seen::when(is_same, instead))
        })
        .await
        .context("load balancers")?;

        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await?;
        for node in &nodes {
            ensure!(is_initialized(node), "{} is tainted", node.name_any());
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }

    /// Runs kubectl in Skydock's namespace.
    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let arguments = [arguments, &["--namespace", NAMESPACE]].concat();
        Ok(self.plane.kubectl(&arguments).await?)
    }
}

/// What a version of the Lease says.
#[derive(Debug)]
struct Version {
    /// Empty if it is released.
    holder: String,
    acquired: Timestamp,
    renewed: Timestamp,
    transitions: i32,
}

impl Version {
    fn of(lease: Lease) -> Result<Self> {
        let spec = lease.spec.context("a Lease without a spec")?;
        Ok(Self {
            holder: spec.holder_identity.unwrap_or_default(),
            acquired: spec.acquire_time.context("no acquireTime")?.0,
            renewed: spec.renew_time.context("no renewTime")?.0,
            transitions: spec.lease_transitions.unwrap_or_default(),
        })
    }
}

#[derive(Default)]
struct Scrapes {
    count: usize,
    slowest: Duration,
    /// Those that failed because the Pod was being deleted.
    deleted: usize,
}

impl fmt::Display for Scrapes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            count,
            slowest,
            deleted,
        } = self;
        write!(
            formatter,
            "{count} answered, the slowest after {slowest:.0?}; {deleted} found a Pod that was being deleted"
        )
    }
}

/// Returns a Service with Skydock's Pods, and an account that may read their metrics.
fn metrics_objects() -> Value {
    let account = json!({"kind": "ServiceAccount", "name": "prometheus", "namespace": NAMESPACE});
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "skydock", "namespace": NAMESPACE},
                "spec": {
                    "clusterIP": "None",
                    "selector": {"app.kubernetes.io/name": "skydock"},
                    "ports": [{"name": "metrics", "port": PORT}],
                },
            },
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "prometheus", "namespace": NAMESPACE},
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "skydock-metrics-reader"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "skydock-metrics-reader",
                },
                "subjects": [account],
            },
        ],
    })
}

fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn is_initialized(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let mut taints = taints.unwrap_or_default().iter();
    taints.all(|taint| taint.key != UNINITIALIZED)
}

/// Returns the numbers of load balancers that the leader knows, by state. Others have no such metric.
fn balancers(metrics: &str) -> BTreeMap<String, usize> {
    let numbers = metrics.lines().filter_map(|line| {
        let (labels, number) = line.strip_prefix("skydock_services{")?.split_once("} ")?;
        let (_, state) = labels.split_once("state=\"")?;
        let (state, _) = state.split_once('"')?;
        Some((state.to_owned(), number.parse().ok()?))
    });
    numbers.collect()
}

/// Returns whether a Service wants a load balancer.
fn is_wanted(service: &Service) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    kind == Some("LoadBalancer")
}

/// Returns whether a Service has a load balancer with an address that no other one has, or neither
/// wants nor has one.
fn is_right(service: &Service, addresses: &mut BTreeSet<String>) -> bool {
    let is_wanted = is_wanted(service);
    let has_finalizer = service.finalizers().iter().any(|it| it == FINALIZER);
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_deref());
    let address = ingress.and_then(|ingress| ingress.first()?.ip.clone());

    service.metadata.deletion_timestamp.is_none()
        && has_finalizer == is_wanted
        && address.is_some() == is_wanted
        && address.is_none_or(|address| addresses.insert(address))
}
