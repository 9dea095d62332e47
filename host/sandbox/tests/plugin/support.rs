//! Common parts of all tests: fixtures, a plugin with short limits, objects, and a cluster that can
//! be inspected.

use std::{
    fs,
    net::IpAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_cloud::{
    Cluster, ForeignObject, Holder, NamedBy, Node, ObjectAnnotations, ObjectEvent, ObjectKind,
    ObjectName, ReadError, Service, ServicePort,
};
use skydock_egress::Gateway;
use skydock_sandbox::{
    ClusterSlot, Compiler, GatewayProvider, Limits, LoadError, Permissions, Plugin, PluginMetrics,
    PluginSource, Runtime, RuntimeOptions, Taping, WithheldRule,
};
use tempfile::TempDir;

/// Returns the path of a fixture that `cargo xtask guests` has built.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/plugins/hostile")
        .join(format!("{name}.wasm"));
    assert!(
        path.is_file(),
        "there is no fixture {}: run `cargo xtask guests`",
        path.display()
    );
    path
}

/// Returns limits that are short enough for tests, and long enough for a busy machine.
pub(crate) fn limits() -> Limits {
    Limits {
        guest_cpu: Duration::from_millis(500),
        read_deadline: Duration::from_secs(20),
        write_deadline: Duration::from_secs(20),
        ..Limits::default()
    }
}

/// A plugin whose files can be changed.
pub(crate) struct Bench {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) cluster: ClusterSlot,
    pub(crate) dir: TempDir,
    registry: Registry,
}

/// Returns a directory for machine code that the tests of a module share, so that each component is
/// compiled once. One for all tests would not keep all of their components.
pub(crate) fn shared_cache() -> PathBuf {
    let test = thread::current();
    let module = test
        .name()
        .and_then(|name| name.split("::").next())
        .unwrap_or_default();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("plugin")
        .join(module);
    let _ = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir);
    dir
}

/// Returns this test program as the compiler.
pub(crate) fn compiler() -> Compiler {
    Compiler::this_program(["--exact", "support::compile", "--ignored", "--nocapture"]).unwrap()
}

#[test]
#[ignore = "the compiler of all other tests: not a test"]
fn compile() {
    std::process::exit(skydock_sandbox::compile_as_child().into());
}

pub(crate) fn runtime(limits: Limits, metrics: PluginMetrics) -> Runtime {
    let options = RuntimeOptions::new(compiler());
    Runtime::new(RuntimeOptions {
        cache_dir: Some(shared_cache()),
        limits,
        metrics,
        ..options
    })
    .unwrap()
}

/// Returns a runtime that records or replays.
pub(crate) fn taping(limits: Limits, taping: Taping) -> Runtime {
    let options = RuntimeOptions::new(compiler());
    Runtime::new(RuntimeOptions {
        cache_dir: Some(shared_cache()),
        limits,
        taping,
        ..options
    })
    .unwrap()
}

pub(crate) fn source(dir: &Path) -> PluginSource {
    PluginSource {
        name: "test".into(),
        component: dir.join("plugin.wasm"),
        cloud_config: Some(dir.join("cloud.conf")),
        cluster_name: "c1".into(),
        cluster_cidrs: vec!["10.0.0.0/16".into()],
        permissions: Permissions::unrestricted(),
        ..PluginSource::default()
    }
}

/// Provides the same gateway for every component.
#[derive(Debug)]
pub(crate) struct OneWay(pub(crate) Arc<Gateway>);

impl GatewayProvider for OneWay {
    fn gateway(&self, _: &str) -> Arc<Gateway> {
        Arc::clone(&self.0)
    }

    fn withheld(&self, _: &str) -> Vec<WithheldRule> {
        Vec::new()
    }

    fn is_api_server(&self, _: IpAddr) -> bool {
        false
    }

    fn translated(&self, address: IpAddr) -> IpAddr {
        address
    }
}

impl Bench {
    /// Loads the well-behaved fixture with these limits and this configuration.
    pub(crate) async fn new(limits: Limits, config: &str) -> Self {
        Self::with(&fs::read(fixture("good")).unwrap(), limits, config).await
    }

    /// Loads this component with these limits.
    pub(crate) async fn of(component: &[u8], limits: Limits) -> Self {
        Self::with(component, limits, "").await
    }

    /// Loads the plugin that tries everything, after changing its source.
    pub(crate) async fn probe(limits: Limits, change: impl FnOnce(&mut PluginSource)) -> Self {
        Self::try_probe(limits, change).await.unwrap()
    }

    pub(crate) async fn try_probe(
        limits: Limits,
        change: impl FnOnce(&mut PluginSource),
    ) -> Result<Self, LoadError> {
        Self::try_with(&fs::read(fixture("probe")).unwrap(), limits, "", change).await
    }

    /// Loads the cloud with volumes that does this wrong.
    pub(crate) async fn volumes(fault: &str) -> Result<Self, LoadError> {
        let component = fs::read(fixture("volumes")).unwrap();
        Self::try_with(&component, limits(), fault, |_| {}).await
    }

    /// Loads this component with this gateway.
    pub(crate) async fn through(component: &[u8], limits: Limits, gateway: Arc<Gateway>) -> Self {
        Self::try_with(component, limits, "", |source| {
            source.gateways = Some(Arc::new(OneWay(gateway)));
        })
        .await
        .unwrap()
    }

    /// Loads this fixture with these gateways.
    pub(crate) async fn with_gateways(name: &str, gateways: Arc<dyn GatewayProvider>) -> Self {
        let component = fs::read(fixture(name)).unwrap();
        let loaded = Self::try_with(&component, limits(), "", |source| {
            source.gateways = Some(gateways);
        });
        loaded.await.unwrap()
    }

    async fn with(component: &[u8], limits: Limits, config: &str) -> Self {
        Self::try_with(component, limits, config, |_| {})
            .await
            .unwrap()
    }

    async fn try_with(
        component: &[u8],
        limits: Limits,
        config: &str,
        change: impl FnOnce(&mut PluginSource),
    ) -> Result<Self, LoadError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("plugin.wasm"), component).unwrap();
        fs::write(dir.path().join("cloud.conf"), config).unwrap();
        let mut registry = Registry::default();
        let runtime = runtime(limits, PluginMetrics::register(&mut registry));
        let cluster = ClusterSlot::default();
        let mut source = source(dir.path());
        change(&mut source);
        let plugin = Plugin::load(&runtime, source, cluster.clone()).await?;
        Ok(Self {
            plugin,
            cluster,
            dir,
            registry,
        })
    }

    pub(crate) async fn good() -> Self {
        Self::new(limits(), "").await
    }

    /// Replaces the component by another one, atomically.
    pub(crate) fn replace(&self, name: &str) {
        self.replace_bytes(&fs::read(fixture(name)).unwrap());
    }

    pub(crate) fn replace_bytes(&self, bytes: &[u8]) {
        fs::write(self.dir.path().join("new"), bytes).unwrap();
        fs::rename(
            self.dir.path().join("new"),
            self.dir.path().join("plugin.wasm"),
        )
        .unwrap();
    }

    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.dir.path().join("cloud.conf"), text).unwrap();
    }

    /// Returns the sum of all samples whose line starts with `start`, for example
    /// `skydock_plugin_traps_total{plugin="test",kind="memory"}`.
    pub(crate) fn metric(&self, start: &str) -> f64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let samples = text.lines().filter(|line| line.starts_with(start));
        samples
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }

    pub(crate) fn instances(&self, state: &str) -> f64 {
        self.metric(&format!(
            "skydock_plugin_instances{{plugin=\"test\",state=\"{state}\"}}"
        ))
    }
}

const DO: &str = "hostile.example/do";

pub(crate) fn node(name: &str) -> Arc<Node> {
    node_that("good", name)
}

/// Returns a node that makes the plugin behave in this way.
pub(crate) fn node_that(behavior: &str, name: &str) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        uid: format!("uid-{name}"),
        annotations: [(DO.into(), behavior.into())].into(),
        ..Node::default()
    })
}

/// Returns a Service that makes the plugin behave in this way.
pub(crate) fn service_that(behavior: &str, name: &str) -> Service {
    Service {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        annotations: [(DO.into(), behavior.into())].into(),
        ports: vec![ServicePort {
            port: 80,
            ..ServicePort::default()
        }],
        ..Service::default()
    }
}

/// A cluster that records its events.
#[derive(Default)]
pub(crate) struct FakeCluster {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) services: Vec<Arc<Service>>,
    pub(crate) events: Mutex<Vec<ObjectEvent>>,
    pub(crate) annotations: Mutex<Vec<ObjectAnnotations>>,
    pub(crate) reads: Mutex<Vec<(ForeignObject, Option<ObjectName>)>>,
    pub(crate) pause: Mutex<Duration>,
    /// Annotations that were written for the plugin.
    pub(crate) own_annotations: Vec<String>,
    /// An address, and who has it.
    pub(crate) held: Option<(IpAddr, Holder)>,
}

impl FakeCluster {
    /// Makes later reads take this long.
    pub(crate) fn slow_reads(&self, pause: Duration) {
        *self.pause.lock().unwrap() = pause;
    }

    /// Makes reads never end.
    pub(crate) fn hold_reads(&self) {
        self.slow_reads(Duration::from_secs(3600));
    }
}

#[async_trait]
impl Cluster for FakeCluster {
    fn uid(&self) -> Option<String> {
        Some("cluster-1".to_owned())
    }

    fn revision(&self) -> Option<u64> {
        Some(7)
    }

    fn annotate(&self, annotations: ObjectAnnotations) {
        self.annotations.lock().unwrap().push(annotations);
    }

    async fn read(
        &self,
        object: &ForeignObject,
        named_by: Option<&NamedBy>,
        reader: Option<&ObjectName>,
    ) -> Result<String, ReadError> {
        if named_by.is_some_and(|by| self.own_annotations.contains(&by.annotation)) {
            return Err(ReadError::NotGranted);
        }
        self.reads
            .lock()
            .unwrap()
            .push((object.clone(), reader.cloned()));
        let pause = *self.pause.lock().unwrap();
        tokio::time::sleep(pause).await;
        if object.name == "missing" {
            Err(ReadError::NotThere)
        } else {
            Ok(format!("{{\"name\":\"{}\"}}", object.name))
        }
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.clone()
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.iter().find(|node| node.name == name).cloned()
    }

    fn services(&self) -> Vec<Arc<Service>> {
        self.services.clone()
    }

    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.services
            .iter()
            .find(|it| (&*it.namespace, &*it.name) == (namespace, name))
            .cloned()
    }

    fn has_service(&self, namespace: &str, name: &str) -> bool {
        self.service(namespace, name).is_some()
    }

    fn object_json(&self, kind: ObjectKind, _: &str, name: &str) -> Option<String> {
        Some(format!("{{\"kind\":\"{kind:?}\",\"name\":\"{name}\"}}"))
    }

    fn holders(&self, address: IpAddr) -> Vec<Holder> {
        let held = self.held.iter().filter(|(held, _)| *held == address);
        held.map(|(_, holder)| holder.clone()).collect()
    }

    fn named(&self, _: &str) -> Vec<Holder> {
        Vec::new()
    }

    fn publish(&self, event: ObjectEvent) {
        self.events.lock().unwrap().push(event);
    }
}

/// Waits until the condition is true; panics after a minute.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("still not: {what}");
}

/// Subscribes to the log, so that lines of plugins are written.
pub(crate) fn listen() {
    struct Everything;

    impl tracing::Subscriber for Everything {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    // Another test may have set it.
    let _ = tracing::subscriber::set_global_default(Everything);
}
