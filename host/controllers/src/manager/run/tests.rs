use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::{Capability, ProviderInfo};
use skydock_controller_base::{
    controller::recorder::recorder,
    testing::{FakeApi, FakeCloud, node, service, with},
};
use skydock_service_controller as service;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Duration, Instant, sleep, timeout},
};

use super::{controllers::RunningControllers, *};
use crate::{ClusterCidrs, ClusterCidrsError, controllers, ipam::IpamOptions, route::RouteOptions};

mod provider;

/// The running task of [`run()`].
type Running = JoinHandle<Result<(), RunError>>;

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    generations: watch::Sender<u64>,
    cluster: oneshot::Receiver<Arc<dyn Cluster>>,
    shutdown: CancellationToken,
    worked: CancellationToken,
    registry: Registry,
    running: Running,
}

fn list(kind: &str, items: &[Value]) -> Value {
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": items})
}

fn start(capabilities: &[Capability]) -> Bench {
    start_with(capabilities, Options::default())
}

fn start_with(capabilities: &[Capability], options: Options) -> Bench {
    let api = FakeApi::default();
    let plain = with(
        &node("n1"),
        &json!({"spec": {"taints": null, "providerID": "fake://n1"}}),
    );
    api.answer(
        "GET",
        "/api/v1/nodes",
        200,
        list("NodeList", &[serde_json::to_value(plain).unwrap()]),
    );
    api.answer(
        "GET",
        "/api/v1/services",
        200,
        list(
            "ServiceList",
            &[serde_json::to_value(service("web")).unwrap()],
        ),
    );
    start_on(api, capabilities, options)
}

fn start_on(api: FakeApi, capabilities: &[Capability], options: Options) -> Bench {
    let (context, events, bench) = context(api, capabilities, options);
    bench(tokio::spawn(run(context, events)))
}

/// Creates a context, the writer of its events, and a function that creates the bench from the
/// running task.
fn context(
    api: FakeApi,
    capabilities: &[Capability],
    options: Options,
) -> (Context, EventWriter, impl FnOnce(Running) -> Bench) {
    let cloud = Arc::new(FakeCloud::default());
    *cloud.capabilities.lock().unwrap() = Some(capabilities.iter().copied().collect());
    let (sender, receiver) = watch::channel(1);
    let (ready, cluster) = oneshot::channel();
    let (shutdown, worked) = (CancellationToken::new(), CancellationToken::new());
    let mut registry = Registry::default();
    let client = api.client();
    let metrics = Metrics::register(&mut registry);
    let (recorder, events) = recorder(&metrics.shared);
    let context = Context {
        clients: Clients {
            informers: client.clone(),
            node: client.clone(),
            service: client.clone(),
            route: client,
        },
        provider: cloud.clone(),
        volumes: Arc::new(CsiController::new(cloud.clone(), watch::channel(true).1)),
        generations: receiver,
        options,
        enabled: controllers().collect(),
        metrics,
        recorder,
        on_cluster: Box::new(move |view| drop(ready.send(view))),
        records: None,
        unreleased: false,
        shutdown: shutdown.clone(),
        worked: worked.clone(),
    };
    let bench = |running| Bench {
        api,
        cloud,
        generations: sender,
        cluster,
        shutdown,
        worked,
        registry,
        running,
    };
    (context, events, bench)
}

impl Bench {
    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Returns the error with which it ends within a minute, although it is not shut down.
    async fn ends(self) -> RunError {
        let ended = timeout(Duration::from_secs(60), self.running).await;
        ended
            .expect("it goes on as if nothing had happened")
            .unwrap()
            .unwrap_err()
    }

    fn runs(&self, name: &str) -> bool {
        let line = format!(
            "running_managed_controllers{{name=\"{name}\",manager=\"cloud-controller-manager\"}} 1"
        );
        self.metrics().contains(&line)
    }
}

// Holds: C-04, C-05, N-01, N-05, L-01, S-01
#[tokio::test(start_paused = true)]
async fn a_controller_starts_when_a_later_plugin_has_its_capability() {
    let mut bench = start(&[Capability::Instances]);
    sleep(Duration::from_secs(1)).await;
    let cluster = bench.cluster.try_recv().unwrap();
    assert_eq!((cluster.nodes().len(), cluster.services().len()), (1, 1));
    assert!(
        bench.runs("cloud-node") && bench.runs("cloud-node-lifecycle") && !bench.runs("service")
    );
    assert!(
        !bench
            .cloud
            .calls()
            .iter()
            .any(|call| call.starts_with("ensure"))
    );

    *bench.cloud.capabilities.lock().unwrap() =
        Some([Capability::Instances, Capability::LoadBalancers].into());
    bench.generations.send(2).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(bench.runs("service"));
    assert!(bench.cloud.calls().contains(&"ensure web n1".to_owned()));

    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
    assert!(text.contains(
        "running_managed_controllers{name=\"service\",manager=\"cloud-controller-manager\"} 0"
    ));
}

// Holds: C-05, N-01, L-01
#[tokio::test(start_paused = true)]
async fn a_provider_without_capabilities_is_not_called_or_fatal() {
    let bench = start(&[]);
    sleep(Duration::from_secs(3600)).await;
    assert!(!bench.running.is_finished());
    for controller in controllers().filter(|controller| controller.needs.is_some()) {
        assert!(
            !bench.runs(controller.alias),
            "{controller}: {}",
            bench.metrics()
        );
    }
    assert_eq!(bench.cloud.calls(), [""; 0]);
    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
}

// Holds: N-05
#[tokio::test(start_paused = true)]
async fn no_controller_starts_before_the_nodes_are_listed() {
    let api = FakeApi::default();
    // The list of nodes is never answered.
    api.answer(
        "GET",
        "/api/v1/services",
        200,
        list(
            "ServiceList",
            &[serde_json::to_value(service("web")).unwrap()],
        ),
    );
    let bench = start_on(
        api,
        &[Capability::Instances, Capability::LoadBalancers],
        Options::default(),
    );

    sleep(Duration::from_secs(60)).await;
    assert!(
        !bench.running.is_finished() && !bench.runs("cloud-node"),
        "{}",
        bench.metrics()
    );
    assert_eq!(bench.cloud.calls(), [""; 0]);
}

// Holds: N-05, S-04
#[tokio::test(start_paused = true)]
async fn node_controllers_run_even_if_services_cannot_be_listed() {
    let api = FakeApi::default();
    let new = serde_json::to_value(node("n1")).unwrap();
    api.answer("GET", "/api/v1/nodes", 200, list("NodeList", &[new]));
    (0..10).for_each(|_| api.fail("GET", "/api/v1/services", 403, "Forbidden"));
    api.answer(
        "GET",
        "/api/v1/services",
        200,
        list(
            "ServiceList",
            &[serde_json::to_value(service("web")).unwrap()],
        ),
    );
    let mut bench = start_on(
        api,
        &[Capability::Instances, Capability::LoadBalancers],
        Options::default(),
    );

    sleep(Duration::from_secs(5)).await;
    assert!(
        bench.runs("cloud-node") && bench.runs("cloud-node-lifecycle") && !bench.runs("service")
    );
    assert!(
        bench.cloud.calls().contains(&"describe n1".to_owned()),
        "{:?}",
        bench.cloud.calls()
    );
    assert_eq!(bench.cluster.try_recv().unwrap().services().len(), 0);

    // The permission is granted.
    sleep(Duration::from_secs(600)).await;
    assert!(bench.runs("service"));
    assert!(
        bench.cloud.calls().contains(&"ensure web n1".to_owned()),
        "{:?}",
        bench.cloud.calls()
    );
}

/// Their addresses are compared with those of Services.
// Holds: SEC-60
#[tokio::test(start_paused = true)]
async fn node_controllers_wait_until_services_are_listed() {
    let api = FakeApi::default();
    let new = serde_json::to_value(node("n1")).unwrap();
    api.answer("GET", "/api/v1/nodes", 200, list("NodeList", &[new]));
    (0..3).for_each(|_| api.fail("GET", "/api/v1/services", 500, "InternalError"));
    let dns = with(
        &service("dns"),
        &json!({"spec": {"clusterIPs": ["10.96.0.10"]}}),
    );
    let dns = serde_json::to_value(dns).unwrap();
    api.answer("GET", "/api/v1/services", 200, list("ServiceList", &[dns]));
    let mut bench = start_on(api, &[Capability::Instances], Options::default());
    sleep(Duration::from_secs(1)).await;
    let cluster = bench.cluster.try_recv().unwrap();
    let holders = || cluster.holders("10.96.0.10".parse().unwrap()).len();
    assert!(!bench.runs("cloud-node") && holders() == 0);
    sleep(Duration::from_secs(60)).await;
    assert!(bench.runs("cloud-node") && holders() == 1);
}

/// Calls its function for each log event.
struct OnEvent<F>(F);

impl<F: Fn() + Send + Sync + 'static> tracing::Subscriber for OnEvent<F> {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        (self.0)();
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

// Holds: N-05, S-04
#[tokio::test(start_paused = true)]
async fn a_skipped_service_controller_starts_once_services_are_listed() {
    let (mut context, _events, _bench) = context(
        FakeApi::default(),
        &[Capability::LoadBalancers],
        Options::default(),
    );
    context.enabled = [&service::CONTROLLER as Controller].into();
    let mut controllers = RunningControllers::new(context, None);
    controllers.nodes.complete();
    let services = Arc::clone(&controllers.services);

    // The first event after `node cache synced` says that the controller is skipped.
    let skips = std::sync::atomic::AtomicUsize::new(0);
    let _guard = tracing::subscriber::set_default(OnEvent(move || {
        if skips.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            services.complete();
        }
    }));
    assert!(
        timeout(Duration::from_secs(60), controllers.control(Arc::default()))
            .await
            .is_err()
    );
    assert!(
        controllers.skipped.contains_key(&service::CONTROLLER),
        "the list came before"
    );
    assert!(controllers.started.contains_key(&service::CONTROLLER));
}

#[tokio::test(start_paused = true)]
async fn another_process_may_lead_while_the_last_events_are_written() {
    let bench = start(&[Capability::Instances, Capability::LoadBalancers]);
    bench.api.hang("POST", "/api/v1/namespaces/ns/events");
    sleep(Duration::from_secs(1)).await;
    assert!(!bench.worked.is_cancelled());
    bench.shutdown.cancel();
    sleep(Duration::from_secs(1)).await;
    assert!(
        bench.worked.is_cancelled() && !bench.running.is_finished(),
        "an event hangs"
    );
    bench.running.await.unwrap().unwrap();
}

/// Upstream restarts a worker that has returned, and only a panic ends its process. Here, nothing
/// continues with the state that a bug has left behind.
// Holds: C-06
#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_process_and_names_the_controller() {
    let bench = start(&[Capability::Instances, Capability::LoadBalancers]);
    let cloud = Arc::clone(&bench.cloud);
    // Because of a poisoned lock, the fake cloud panics in the middle of a call.
    let poisoned = std::thread::spawn(move || {
        let _guard = cloud.ensure.lock();
        panic!("poison");
    });
    assert!(poisoned.join().is_err());
    let error = bench.ends().await;
    assert!(
        matches!(&error, RunError::Ended(name) if name == "service-lb-controller"),
        "{error}"
    );
}

// Holds: C-06
#[tokio::test(start_paused = true)]
async fn a_worker_that_returns_ends_the_process_and_is_named() {
    let api = FakeApi::default();
    for (path, kind) in [
        ("/api/v1/nodes", "NodeList"),
        ("/api/v1/services", "ServiceList"),
    ] {
        api.answer("GET", path, 200, list(kind, &[]));
    }
    let (context, _events, bench) = context(api, &[], Options::default());
    let mut controllers = RunningControllers::new(context, None);
    let worker = controllers.tasks.spawn(sleep(Duration::from_secs(60)));
    controllers
        .names
        .insert(worker.id(), "node-route-controller".to_owned());
    let bench = bench(tokio::spawn(controllers.run()));
    sleep(Duration::from_secs(59)).await;
    assert!(!bench.running.is_finished());
    let error = bench.ends().await;
    assert!(
        matches!(&error, RunError::Ended(name) if name == "node-route-controller"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_plugin_generation_ensures_all_services_again() {
    let bench = start(&[Capability::LoadBalancers]);
    sleep(Duration::from_secs(1)).await;
    bench.generations.send(2).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.cloud.calls(), ["ensure web n1", "ensure web n1"]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_a_running_call_end_and_writes_its_result() {
    let bench = start(&[Capability::LoadBalancers]);
    bench.cloud.ensure_takes(Duration::from_secs(5));
    sleep(Duration::from_secs(1)).await;
    bench.shutdown.cancel();
    sleep(Duration::from_secs(3)).await;
    assert!(!bench.running.is_finished());
    bench.running.await.unwrap().unwrap();
    let requests = bench.api.requests();
    let posted = requests.iter().filter(|request| request.method == "POST");
    let reasons: Vec<_> = posted
        .map(|request| request.body["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]);
    assert_eq!(
        bench
            .api
            .calls()
            .iter()
            .filter(|call| call.starts_with("PATCH"))
            .count(),
        2
    );
}

// Holds: C-08
#[tokio::test(start_paused = true)]
async fn a_hanging_call_is_dropped_after_the_grace_period() {
    let bench = start(&[Capability::LoadBalancers]);
    bench.cloud.ensure_takes(Duration::from_secs(3600));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.cloud.calls(), ["ensure web n1"]);
    bench.shutdown.cancel();
    sleep(Duration::from_secs(9)).await;
    assert!(!bench.running.is_finished());
    sleep(Duration::from_secs(2)).await;
    assert!(bench.running.is_finished());
    bench.running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_idle_controllers() {
    let all = [
        Capability::Instances,
        Capability::LoadBalancers,
        Capability::Routes,
    ];
    let bench = start_with(&all, with_pod_cidrs());
    sleep(Duration::from_secs(60)).await;
    assert!(
        ["cloud-node", "cloud-node-lifecycle", "service", "route"]
            .iter()
            .all(|name| bench.runs(name))
    );

    let asked = Instant::now();
    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
}

fn with_pod_cidrs() -> Options {
    let cluster_cidrs = ClusterCidrs::parse(&["10.244.0.0/16"]);
    Options {
        routes: RouteOptions {
            cluster_cidrs,
            ..RouteOptions::default()
        },
        ..Options::default()
    }
}

// Holds: R-01
#[tokio::test(start_paused = true)]
async fn the_route_capability_alone_starts_the_route_controller() {
    let bench = start_with(&[Capability::Routes], with_pod_cidrs());
    sleep(Duration::from_secs(1)).await;
    assert!(bench.runs("route") && !bench.runs("cloud-node") && !bench.runs("service"));
    assert_eq!(bench.cloud.calls(), ["list"]);
    bench.generations.send(2).unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        bench.cloud.calls(),
        ["list", "list"],
        "another plugin looks again"
    );
}

// Holds: R-01
#[tokio::test(start_paused = true)]
async fn the_route_controller_needs_the_capability_and_the_flag() {
    let off = RouteOptions {
        configure: false,
        ..with_pod_cidrs().routes
    };
    for (capability, options) in [
        (Capability::Instances, with_pod_cidrs()),
        (
            Capability::Routes,
            Options {
                routes: off,
                ..Options::default()
            },
        ),
    ] {
        let mut bench = start_with(&[capability], options);
        sleep(Duration::from_secs(1)).await;
        assert!(bench.cluster.try_recv().is_ok() && !bench.runs("route"));
        assert!(!bench.cloud.calls().contains(&"list".to_owned()));
    }
}

// Holds: R-02
#[tokio::test(start_paused = true)]
async fn a_later_plugin_with_routes_needs_cluster_cidrs() {
    let bench = start(&[Capability::Instances]);
    sleep(Duration::from_secs(1)).await;
    *bench.cloud.capabilities.lock().unwrap() =
        Some([Capability::Instances, Capability::Routes].into());
    bench.generations.send(2).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(!bench.runs("route") && bench.runs("cloud-node") && !bench.running.is_finished());
}

// Holds: R-02
#[test]
fn cluster_cidrs_are_required_only_if_routes_are_configured() {
    let info = |capability| ProviderInfo {
        capabilities: [capability].into(),
        ..skydock_controller_base::testing::info()
    };
    let options = |configure| RouteOptions {
        configure,
        ..RouteOptions::default()
    };
    assert_eq!(
        options(true).check(&info(Capability::Routes)),
        Err(ClusterCidrsError::Missing)
    );
    assert_eq!(options(false).check(&info(Capability::Routes)), Ok(()));
    assert_eq!(options(true).check(&info(Capability::Instances)), Ok(()));
    assert_eq!(
        with_pod_cidrs().routes.check(&info(Capability::Routes)),
        Ok(())
    );
}

// Holds: S-04
#[tokio::test(start_paused = true)]
async fn the_service_controller_waits_for_the_service_cache() {
    let bench = start(&[Capability::LoadBalancers]);
    bench.api.clear("GET", "/api/v1/services");
    sleep(Duration::from_secs(60)).await;
    assert!(!bench.runs("service"));
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
}

// Holds: I-01
#[tokio::test(start_paused = true)]
async fn pod_cidrs_wait_for_late_writes_of_a_killed_process() {
    let range = || crate::ipam::NodeRange::new("10.244.0.0/16".parse().unwrap(), 24).unwrap();
    for (ranges, unreleased, given) in [
        (vec![range()], true, [false, true]),
        (vec![range()], false, [true; 2]),
        (vec![], false, [false; 2]),
    ] {
        let api = FakeApi::default();
        let new = serde_json::to_value(node("n1")).unwrap();
        api.answer("GET", "/api/v1/nodes", 200, list("NodeList", &[new]));
        let options = Options {
            ipam: IpamOptions {
                ranges,
                ..IpamOptions::default()
            },
            ..Options::default()
        };
        let (context, events, bench) = context(api, &[], options);
        let bench = bench(tokio::spawn(run(
            Context {
                unreleased,
                ..context
            },
            events,
        )));
        let mut seen = Vec::new();
        for seconds in [39, 2] {
            sleep(Duration::from_secs(seconds)).await;
            seen.push(
                bench
                    .api
                    .calls()
                    .contains(&"PATCH /api/v1/nodes/n1".to_owned()),
            );
        }
        assert_eq!(seen, given, "after 39 and 41 s, unreleased: {unreleased}");
        assert_eq!(bench.runs("nodeipam"), given[1]);
    }
}

/// Has the API server return a new node, one whose instance is gone, a Service, and a
/// PersistentVolume.
fn answer_with_work(api: &FakeApi) {
    let gone = with(
        &node("gone"),
        &json!({"spec": {"taints": null, "providerID": "fake://gone"}}),
    );
    let nodes = [node("new"), gone].map(|node| serde_json::to_value(node).unwrap());
    let services = [serde_json::to_value(service("web")).unwrap()];
    api.answer("GET", "/api/v1/nodes", 200, list("NodeList", &nodes));
    let services = list("ServiceList", &services);
    api.answer("GET", "/api/v1/services", 200, services);
    let volume = json!({
        "metadata": {"name": "pv-1", "uid": "uid-pv-1", "resourceVersion": "1"},
        "spec": {"csi": {"driver": "disks.example", "volumeHandle": "vol-1"}},
    });
    let volumes = list("PersistentVolumeList", &[volume]);
    api.answer("GET", "/api/v1/persistentvolumes", 200, volumes);
}

/// Gives the cloud the instance of the new node, a route that no node needs, and the volume of the
/// PersistentVolume.
fn add_work(cloud: &FakeCloud) {
    let known = skydock_cloud::Instance {
        provider_id: Some("fake://new".into()),
        ..Default::default()
    };
    let gone = Ok(skydock_cloud::Presence::Absent);
    let mut instances = cloud.instances.lock().unwrap();
    instances.insert("new".into(), Ok(known));
    let mut presences = cloud.presences.lock().unwrap();
    presences.insert("gone".into(), gone);
    cloud.routes.has(skydock_cloud::Route {
        name: "old".into(),
        target_node: None,
        target_addresses: None,
        destination_cidr: "10.244.9.0/24".into(),
        blackhole: false,
    });

    let zone = "topology.disks.example/zone".to_owned();
    *cloud.driver.lock().unwrap() = Some(skydock_cloud::CsiDriver {
        name: "disks.example".into(),
        topology_keys: vec![zone.clone()],
        access_modes: Vec::new(),
        clones: false,
    });
    let volume = skydock_cloud::Volume {
        id: skydock_cloud::VolumeId("vol-1".into()),
        bytes: 1,
        topology: vec![[(zone, "a".to_owned())].into()],
        context: skydock_cloud::Pairs::new(),
        nodes: Vec::new(),
    };
    let mut volumes = cloud.volumes.lock().unwrap();
    volumes.insert("vol-1".into(), Ok(volume));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing_with_all_controllers() {
    let api = FakeApi::default();
    answer_with_work(&api);
    let all = [
        Capability::Instances,
        Capability::LoadBalancers,
        Capability::Routes,
        Capability::Volumes,
    ];
    let bench = start_on(
        api,
        &all,
        Options {
            dry_run: true,
            ..with_pod_cidrs()
        },
    );
    add_work(&bench.cloud);
    sleep(Duration::from_secs(60)).await;
    let asked = ["check gone", "describe new", "list", "volumes vol-1"];

    let calls = bench.cloud.calls();
    assert!(
        asked.iter().all(|call| calls.contains(&(*call).to_owned())),
        "{calls:?}"
    );
    assert!(
        calls
            .iter()
            .all(|call| !["ensure", "update", "delete", "create", "unroute"]
                .iter()
                .any(|it| call.starts_with(it))),
        "{calls:?}"
    );

    let writes: Vec<_> = bench
        .api
        .requests()
        .into_iter()
        .filter(|request| request.method != "GET")
        .collect();
    assert!(
        writes
            .iter()
            .any(|request| request.path == "/api/v1/nodes/new"),
        "{writes:?}"
    );
    assert!(
        writes
            .iter()
            .any(|request| request.path == "/api/v1/namespaces/ns/services/web/status"),
        "{writes:?}"
    );
    assert!(
        writes
            .iter()
            .any(|request| request.path == "/api/v1/persistentvolumes/pv-1"),
        "{writes:?}"
    );

    for request in writes {
        assert!(
            request.method == "PATCH" && request.query.contains("dryRun=All"),
            "{request:?}"
        );
    }
}
