//! Tests the component in a real host: the decisions of the rules must pass the sandbox unchanged.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};

use async_trait::async_trait;
use skydock_cloud::{
    CloudError, CloudProvider, Cluster, ForeignObject, Holder, Ingress, IpFamily,
    LoadBalancerStatus, NamedBy, Node, NodeSet, ObjectAnnotations, ObjectEvent, ObjectKind,
    ObjectName, Presence, ReadError, Service,
};
use skydock_sandbox::{
    ClusterSlot, Compiler, LoadError, Permissions, Plugin, PluginSource, Reload, Runtime,
    RuntimeOptions, Stage,
};
use tempfile::NamedTempFile;

const HEAD: &str = "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\n";

/// Services with their statuses, and the published events.
#[derive(Default)]
struct World {
    services: Mutex<Vec<Arc<Service>>>,
    events: Mutex<Vec<ObjectEvent>>,
}

#[async_trait]
impl Cluster for World {
    fn uid(&self) -> Option<String> {
        None
    }

    fn revision(&self) -> Option<u64> {
        None
    }

    fn annotate(&self, _: ObjectAnnotations) {}

    async fn read(
        &self,
        _: &ForeignObject,
        _: Option<&NamedBy>,
        _: Option<&ObjectName>,
    ) -> Result<String, ReadError> {
        Err(ReadError::NotThere)
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        Vec::new()
    }

    fn node(&self, _: &str) -> Option<Arc<Node>> {
        None
    }

    fn services(&self) -> Vec<Arc<Service>> {
        self.services.lock().unwrap().clone()
    }

    fn service(&self, _: &str, _: &str) -> Option<Arc<Service>> {
        None
    }

    fn has_service(&self, _: &str, _: &str) -> bool {
        false
    }

    fn object_json(&self, _: ObjectKind, _: &str, _: &str) -> Option<String> {
        None
    }

    fn holders(&self, _: IpAddr) -> Vec<Holder> {
        Vec::new()
    }

    fn named(&self, _: &str) -> Vec<Holder> {
        Vec::new()
    }

    fn publish(&self, event: ObjectEvent) {
        self.events.lock().unwrap().push(event);
    }
}

impl World {
    fn reasons(&self) -> Vec<String> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .map(|event| event.reason.clone())
            .collect()
    }
}

/// The plugin with an inventory, in a cluster.
struct Bench {
    plugin: Arc<Plugin>,
    world: Arc<World>,
    inventory: NamedTempFile,
}

#[test]
#[ignore = "the compiler of all other tests: not a test"]
fn compile() {
    std::process::exit(skydock_sandbox::compile_as_child().into());
}

impl Bench {
    async fn load(inventory: &str) -> Result<Self, LoadError> {
        let component =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/static.wasm");
        assert!(
            component.exists(),
            "no {}: run `cargo xtask guests`",
            component.display()
        );
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{HEAD}{inventory}")).unwrap();
        let source = PluginSource {
            name: "static".into(),
            component,
            cloud_config: Some(file.path().to_owned()),
            cluster_name: "test".into(),
            cluster_cidrs: Vec::new(),
            permissions: Permissions::unrestricted(),
            ..PluginSource::default()
        };
        let (world, slot) = (Arc::new(World::default()), ClusterSlot::default());
        slot.set(Arc::clone(&world) as Arc<dyn Cluster>);
        let compiler =
            Compiler::this_program(["--exact", "compile", "--ignored", "--nocapture"]).unwrap();
        // For the next run.
        let cache_dir = Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("static"));
        let runtime = Runtime::new(RuntimeOptions {
            cache_dir,
            ..RuntimeOptions::new(compiler)
        })
        .unwrap();
        Ok(Self {
            plugin: Plugin::load(&runtime, source, slot).await?,
            world,
            inventory: file,
        })
    }

    async fn ensure(&self, service: &Service) -> Result<Vec<String>, CloudError> {
        let status = self
            .plugin
            .ensure_load_balancer(service, &NodeSet::default())
            .await?;
        Ok(status
            .ingress
            .into_iter()
            .filter_map(|ingress| ingress.ip)
            .collect())
    }
}

fn service(name: &str, addresses: &[&str]) -> Service {
    let ingress = |text: &&str| Ingress {
        ip: Some((*text).to_owned()),
        ..Ingress::default()
    };
    Service {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        ip_families: vec![IpFamily::V4],
        status: LoadBalancerStatus {
            ingress: addresses.iter().map(ingress).collect(),
        },
        ..Service::default()
    }
}

fn node(name: &str, provider_id: Option<&str>) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        uid: name.into(),
        provider_id: provider_id.map(Into::into),
        ..Node::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_get_the_data_of_their_machines() {
    let bench = Bench::load(
        "machines:\n- {name: a, zone: z, providerID: 'metal://1'}\n- {name: b, state: stopped}",
    )
    .await
    .unwrap();
    assert_eq!(
        bench.plugin.info().provider_id_prefixes,
        ["static://", "metal://"]
    );
    let nodes = [
        node("a", None),
        node("b", None),
        node("gone", Some("static://gone")),
        node("new", None),
    ];
    let described = bench.plugin.describe(&nodes).await.unwrap();
    let a = described[0].as_ref().unwrap();
    assert_eq!(
        (a.provider_id.as_deref(), a.zone.as_deref()),
        (Some("metal://1"), Some("z"))
    );
    assert!(matches!(described[3], Err(CloudError::NotFound(_))));
    let checked = bench.plugin.check(&nodes).await.unwrap();
    assert_eq!(
        checked[..3],
        [
            Ok(Presence::Running),
            Ok(Presence::Stopped),
            Ok(Presence::Absent)
        ]
    );
    assert!(matches!(checked[3], Err(CloudError::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_reserved_until_its_service_is_deleted() {
    let bench = Bench::load("addressPools: [{name: p, addresses: [192.0.2.0/31]}]")
        .await
        .unwrap();
    let (a, b, c) = (service("a", &[]), service("b", &[]), service("c", &[]));
    assert_eq!(bench.ensure(&a).await, Ok(vec!["192.0.2.0".into()]));
    assert_eq!(
        bench.ensure(&a).await,
        Ok(vec!["192.0.2.0".into()]),
        "the answer was lost and is asked for again"
    );
    assert_eq!(bench.ensure(&b).await, Ok(vec!["192.0.2.1".into()]));
    assert!(matches!(
        bench.ensure(&c).await,
        Err(CloudError::Unavailable(_))
    ));
    assert!(
        bench
            .world
            .reasons()
            .contains(&"AddressPoolExhausted".to_owned()),
        "{:?}",
        bench.world.reasons()
    );
    let gone = service("a", &["192.0.2.0"]);
    assert!(
        bench
            .plugin
            .get_load_balancer(&gone)
            .await
            .unwrap()
            .is_some()
    );
    bench
        .plugin
        .ensure_load_balancer_deleted(&service("c", &["192.0.2.0"]))
        .await
        .unwrap();
    assert!(
        matches!(bench.ensure(&c).await, Err(CloudError::Unavailable(_))),
        "only its own reservation ends"
    );
    bench
        .plugin
        .ensure_load_balancer_deleted(&gone)
        .await
        .unwrap();
    assert_eq!(bench.ensure(&c).await, Ok(vec!["192.0.2.0".into()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_stays_while_the_status_is_outdated() {
    let bench = Bench::load("addressPools: [{name: p, addresses: [192.0.2.0/30]}]")
        .await
        .unwrap();
    let (early, web) = (service("early", &[]), service("web", &[]));
    assert_eq!(bench.ensure(&early).await, Ok(vec!["192.0.2.0".into()]));
    assert_eq!(bench.ensure(&web).await, Ok(vec!["192.0.2.1".into()]));
    bench
        .plugin
        .ensure_load_balancer_deleted(&service("early", &["192.0.2.0"]))
        .await
        .unwrap();
    // An edit of the Service that is older than its status. There is a free address before the
    // Service's own.
    assert_eq!(bench.ensure(&web).await, Ok(vec!["192.0.2.1".into()]));
    assert_eq!(
        bench.ensure(&service("web", &["192.0.2.1"])).await,
        Ok(vec!["192.0.2.1".into()])
    );
    assert_eq!(
        bench.ensure(&service("next", &[])).await,
        Ok(vec!["192.0.2.0".into()])
    );
}

/// Returns inventories of the maximum file size, made of as many small elements as possible.
fn bombs() -> Vec<(&'static str, String)> {
    let room = (1 << 20) - HEAD.len() - 100;
    let lines = |line: &dyn Fn(usize) -> String| {
        let mut text = String::new();
        for line in (0..).map(line) {
            if text.len() + line.len() > room {
                break;
            }
            text.push_str(&line);
        }
        text
    };
    vec![
        (
            "machines",
            format!("machines:\n{}", lines(&|n| format!("- name: m{n}\n"))),
        ),
        (
            "machines twice",
            format!("machines: [{}]\n", lines(&|_| "{name: a},".to_owned())),
        ),
        (
            "labels",
            format!(
                "machines:\n- name: a\n  labels: {{{}}}\n",
                lines(&|n| format!("l{n}: x,"))
            ),
        ),
        (
            "addresses",
            format!(
                "addressPools:\n- name: a\n  addresses: [{}]\n",
                lines(&|_| "1.1.1.1,".to_owned())
            ),
        ),
        (
            "prefixes",
            format!("providerIDPrefixes: [{}]\n", lines(&|_| "a,".to_owned())),
        ),
        (
            "aliases",
            format!(
                "machines: [&a {{name: a, zone: z}},{}]\n",
                lines(&|_| "*a,".to_owned())
            ),
        ),
        ("depth", format!("machines: {}", "[".repeat(room))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_bomb_is_rejected_as_invalid() {
    let bench = Bench::load("machines: [{name: a}]").await.unwrap();
    for (what, bomb) in bombs() {
        std::fs::write(bench.inventory.path(), format!("{HEAD}{bomb}")).unwrap();
        let begin = Instant::now();
        let rejected = bench.plugin.reload().await.expect_err(what).to_string();
        println!("{what} in {:?}: {rejected:.300}", begin.elapsed());
        assert!(
            rejected.starts_with("it rejected its configuration: invalid: "),
            "{what}: {rejected}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_services_get_different_addresses_and_keep_them() {
    let bench = Bench::load("addressPools: [{name: p, addresses: [10.0.0.0/8]}]")
        .await
        .unwrap();
    let bench = Arc::new(bench);
    let calls = (0..200).map(|number| {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move {
            bench
                .ensure(&service(&number.to_string(), &[]))
                .await
                .unwrap()
                .remove(0)
        })
    });
    let mut given = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        given.push(call.await.unwrap());
    }
    assert_eq!(
        given
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        200
    );
    let services = given
        .iter()
        .enumerate()
        .map(|(number, address)| Arc::new(service(&number.to_string(), &[address])));
    *bench.world.services.lock().unwrap() = services.collect();
    let pools = "addressPools: [{name: first, addresses: [192.0.2.0/24]}, {name: p, addresses: [10.0.0.0/8]}]";
    std::fs::write(bench.inventory.path(), format!("{HEAD}{pools}")).unwrap();
    assert!(matches!(
        bench.plugin.reload().await,
        Ok(Reload::Swapped(_))
    ));
    for (number, address) in given.iter().enumerate() {
        assert_eq!(
            bench
                .ensure(&service(&number.to_string(), &[address]))
                .await
                .as_deref(),
            Ok(&[address.clone()][..])
        );
    }
    assert_eq!(
        bench.ensure(&service("new", &[])).await,
        Ok(vec!["192.0.2.0".into()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_inventory_is_rejected_and_the_old_one_stays() {
    let bench = Bench::load("machines: [{name: a}]").await.unwrap();
    std::fs::write(
        bench.inventory.path(),
        format!("{HEAD}machines:\n- {{name: a, zome: b}}"),
    )
    .unwrap();
    let error = bench.plugin.reload().await.unwrap_err();
    assert_eq!(error.stage, Stage::Configure);
    let place = format!(
        "{}:4:13: unknown field `zome`",
        bench.inventory.path().display()
    );
    let told = std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
        error.source()
    });
    assert!(
        told.into_iter()
            .any(|error| error.to_string().contains(&place)),
        "{error:#?}"
    );
    assert!(bench.plugin.describe(&[node("a", None)]).await.unwrap()[0].is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_10000_services_and_5000_machines() {
    let machines: String = (0..5000)
        .map(|number| {
            format!(
                "- {{name: m{number}, zone: z{}, providerID: 'metal://{number}'}}\n",
                number % 3
            )
        })
        .collect();
    let bench = Bench::load(&format!(
        "addressPools: [{{name: p, addresses: [10.0.0.0/8]}}]\nmachines:\n{machines}"
    ))
    .await
    .unwrap();
    let address = |number: u32| std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
    let services: Vec<_> = (0..10_000)
        .map(|number| Arc::new(service(&number.to_string(), &[&address(number)])))
        .collect();
    *bench.world.services.lock().unwrap() = services.clone();
    let begin = Instant::now();
    for (number, service) in services.iter().enumerate().take(500) {
        assert_eq!(
            bench.ensure(service).await,
            Ok(vec![address(u32::try_from(number).unwrap())])
        );
    }
    println!(
        "500 of 10,000 services kept in {:?}; {:?}",
        begin.elapsed(),
        bench.plugin.generation().stages
    );
    assert_eq!(
        bench.ensure(&service("new", &[])).await,
        Ok(vec![address(10_000)])
    );
}
