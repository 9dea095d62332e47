//! Recording a plugin that serves a difficult cloud, and replaying it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use skydock_cloud::{
    CloudError, CloudProvider as _, IpFamily, NewRoute, Node, NodeAddress, Service, ServicePort,
};
use skydock_egress::{Gateway, GatewayDependencies};
use skydock_sandbox::{
    ClusterSlot, ConfigSecrets, Limits, Plugin, PluginSource, Recordings, Replay, Replayed, Taping,
};
use skydock_simcloud::{Options, Settings, Simcloud};

use crate::{
    egress::with_token,
    support::{
        FakeCluster, OneWay, fixture, limits, node, node_that, service_that, source, taping, until,
    },
};

const TOKEN: &str = "a-token-of-the-cloud-that-nobody-may-see";

/// A directory with the plugin, its configuration and recordings.
struct Studio {
    dir: tempfile::TempDir,
    cloud: Simcloud,
}

impl Studio {
    fn new(component: &[u8]) -> Self {
        let settings = Settings {
            lag_ms: 20,
            lb_delay_ms: 50,
            volume_delay_ms: 0,
            latency_ms: 2,
            rate_limit: None,
        };
        let options = Options {
            servers: 3,
            token: TOKEN.to_owned(),
            settings,
            ..Options::default()
        };
        let studio = Self {
            dir: tempfile::tempdir().unwrap(),
            cloud: Simcloud::start(options).unwrap(),
        };
        fs::write(studio.path("plugin.wasm"), component).unwrap();
        fs::write(studio.path("token"), TOKEN).unwrap();
        fs::write(
            studio.path("cloud.conf"),
            json!({"url": studio.cloud.url(), "region": "sim"}).to_string(),
        )
        .unwrap();
        studio
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn recordings(&self) -> PathBuf {
        self.path("recordings")
    }

    /// Loads the plugin, and records what it does.
    async fn record(&self, limits: Limits) -> (Arc<Plugin>, ClusterSlot) {
        let address = self
            .cloud
            .url()
            .trim_start_matches("http://")
            .parse()
            .unwrap();
        let gateway = with_token(address, &self.path("token"));
        let gateway = Gateway::new("test", &gateway, GatewayDependencies::default()).unwrap();
        let source = PluginSource {
            gateways: Some(Arc::new(OneWay(Arc::new(gateway)))),
            options: [("token".to_owned(), "an-option-that-is-secret".to_owned())].into(),
            secrets: ConfigSecrets::Passed,
            ..source(self.dir.path())
        };
        let cluster = ClusterSlot::default();
        cluster.set(Arc::new(FakeCluster::default()));
        let recordings = Recordings::open(&self.recordings(), 64 << 20).unwrap();
        let runtime = taping(limits, Taping::Record(recordings));
        (
            Plugin::load(&runtime, source, cluster.clone())
                .await
                .unwrap(),
            cluster,
        )
    }

    fn fails(&self, failure: &Value) {
        let (status, answer) = self.cloud.request("POST", "/_sim/failures", failure);
        assert!((200..300).contains(&status), "{answer}");
    }

    /// Loads this component for replays.
    async fn player(&self, component: &[u8]) -> Replay {
        let file = self.path("replayed.wasm");
        fs::write(&file, component).unwrap();
        Replay::load(&taping(limits(), Taping::Replay), &file)
            .await
            .unwrap()
    }

    /// Replays all recordings with this component.
    async fn replay(&self, component: &[u8]) -> Vec<Replayed> {
        let replay = self.player(component).await;
        let mut all = Vec::new();
        for recording in Replay::recordings(&self.recordings()).unwrap() {
            all.push(replay.play(&recording).await.unwrap());
        }
        all
    }

    fn text(&self) -> String {
        let files = Replay::recordings(&self.recordings()).unwrap();
        files
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect()
    }
}

fn simcloud() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/simcloud.wasm"))
        .unwrap()
}

/// Changes a text in a component to another one of the same length, as a change of one line of its
/// source would.
fn changed(component: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut component = component.to_vec();
    let places = component
        .windows(from.len())
        .enumerate()
        .filter(|(_, window)| *window == from.as_bytes())
        .map(|(at, _)| at)
        .collect::<Vec<_>>();
    assert!(!places.is_empty(), "{from}");
    for at in places {
        component[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    component
}

/// Returns three nodes, of which so many are initialized.
fn nodes(initialized: u8) -> Vec<Arc<Node>> {
    let node = |number: u8| Node {
        name: format!("node-{number}"),
        uid: format!("uid-{number}"),
        addresses: vec![NodeAddress {
            kind: skydock_cloud::AddressKind::InternalIp,
            address: format!("10.0.0.{number}"),
        }],
        provider_id: (number <= initialized).then(|| format!("simcloud:///zone-a/srv-{number}")),
        ..Node::default()
    };
    (1..=3).map(|number| Arc::new(node(number))).collect()
}

/// Has the plugin serve a cluster while requests fail.
async fn live(studio: &Studio, plugin: &Plugin) {
    let all = nodes(3);
    studio.fails(&json!({"operation": "servers.*", "status": 503, "skip": 1}));
    studio.fails(&json!({"operation": "load-balancers.create", "after": true}));
    studio.fails(&json!({"operation": "routes.create", "status": 429, "retry_after": 1}));
    for _ in 0..2 {
        plugin.describe(&nodes(1)).await.unwrap();
        let _ = plugin.check(&all).await;
    }
    let service = Service {
        namespace: "default".into(),
        name: "web".into(),
        uid: "uid-web".into(),
        ports: vec![ServicePort {
            port: 80,
            node_port: 30080,
            ..ServicePort::default()
        }],
        ip_families: vec![IpFamily::V4],
        ..Service::default()
    };
    let set = all.clone().into();
    let mut ensured = BTreeSet::new();
    for _ in 0..100 {
        match plugin.ensure_load_balancer(&service, &set).await {
            Ok(_) => break,
            Err(error) => {
                ensured.insert(error.to_string());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    assert!(
        plugin.get_load_balancer(&service).await.unwrap().is_some(),
        "{ensured:?}"
    );
    let route = |node: &Arc<Node>| NewRoute {
        name_hint: node.uid.clone(),
        target_node: node.name.clone(),
        target_provider_id: node.provider_id.clone(),
        target_addresses: node.addresses.clone(),
        destination_cidr: format!("10.0.{}.0/24", node.name.trim_start_matches("node-")),
    };
    let routes: Vec<_> = all.iter().map(route).collect();
    let _ = plugin.create_routes(&routes).await;
    let _ = plugin.list_routes().await;
    // Two calls at the same time take two instances.
    let (one, other) = tokio::join!(plugin.describe(&all), plugin.get_load_balancer(&service));
    assert!(one.is_ok() && other.is_ok());
    plugin.ensure_load_balancer_deleted(&service).await.unwrap();
}

/// Records a life of the plugin, until all of it is written.
async fn recorded(component: &[u8]) -> Studio {
    let studio = Studio::new(component);
    let (plugin, _) = studio.record(limits()).await;
    live(&studio, &plugin).await;
    drop(plugin);
    until("all files are written", || {
        studio.text().lines().count() > 100
    })
    .await;
    studio
}

// Holds: SEC-26
#[tokio::test(flavor = "multi_thread")]
async fn a_recording_replays_exactly_and_shows_changes() {
    let component = simcloud();
    let studio = recorded(&component).await;

    let text = studio.text();
    assert!(
        !text.contains(TOKEN) && !text.contains("an-option-that-is-secret"),
        "a secret is recorded"
    );
    assert!(
        text.contains("[\"token\",\"xxxxxxxxxxxxxxxxxxxxxxxx\"]")
            && text.contains("/v1/load-balancers")
    );

    let replayed = studio.replay(&component).await;
    assert!(replayed.len() >= 2, "{replayed:#?}");
    for one in &replayed {
        let good = one.difference.is_none() && one.exact && one.same_component && one.cut.is_none();
        assert!(
            good,
            "{}: {one:#?}",
            one.difference
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default()
        );
    }
    let (calls, steps) = replayed.iter().fold((0, 0), |(calls, steps), one| {
        (calls + one.calls, steps + one.steps)
    });
    let recorded = |start: &str| text.lines().filter(|line| line.starts_with(start)).count() as u64;
    assert_eq!(calls, recorded("{\"call\""));
    assert_eq!(steps, recorded("{\"host\"") + recorded("{\"request\""));

    let other = studio.replay(&changed(&component, "/v1/", "/v9/")).await;
    let difference = other
        .iter()
        .find_map(|one| one.difference.as_ref())
        .unwrap();
    assert!(
        difference.call > 2 && difference.what.starts_with("request "),
        "{difference}"
    );
    assert!(
        difference.expected.contains("/v1/") && difference.came.contains("/v9/"),
        "{difference}"
    );

    let other = studio
        .replay(&changed(&component, "simcloud://", "simcloud:/."))
        .await;
    let difference = other[0].difference.as_ref().unwrap();
    let told = (
        difference.call,
        difference.function.as_str(),
        difference.what.as_str(),
    );
    assert_eq!(told, (2, "plugin.info", "answer.provider_id_prefixes[0]"));
    assert_eq!(
        (&*difference.expected, &*difference.came),
        ("\"simcloud://\"", "\"simcloud:/.\"")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_has_recorded_replays() {
    let component = simcloud();
    let studio = recorded(&component).await;

    // Lines are written in this order, so that a killed process leaves the first ones.
    let files = Replay::recordings(&studio.recordings()).unwrap();
    let text = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .max_by_key(String::len)
        .unwrap();
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let replay = studio.player(&component).await;
    // One after the other, those that wait for an answer which was not written would take minutes.
    let all = stream::iter((1..lines.len()).step_by(3)).map(|end| {
        let (file, kept, last) = (
            studio.path(&format!("{end}.jsonl")),
            lines[..end].concat(),
            lines[end - 1],
        );
        let replay = &replay;
        async move {
            fs::write(&file, &kept).unwrap();
            let one = replay.play(&file).await.unwrap();
            let calls = kept.matches("{\"call\"").count() as u64;
            let (ended, begun) = (
                kept.matches("\n{\"answer\"").count() as u64,
                one.cut.is_some(),
            );
            assert!(
                one.difference.is_none() && one.exact,
                "{end} lines: {one:#?}\n{last}"
            );
            assert!(
                one.calls == calls && begun == (calls > ended),
                "{end} lines: {one:#?}"
            );
            one.cut.is_some()
        }
    });
    let cut: Vec<_> = all.buffer_unordered(16).collect().await;
    assert!(cut.contains(&true) && cut.contains(&false), "{cut:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_call_that_cannot_be_made_says_why() {
    let component = simcloud();
    let studio = recorded(&component).await;
    let replay = studio.player(&component).await;

    let is_call = |line: &str| line.starts_with("{\"call\"") && line.contains("\"provider_id\"");
    let files = Replay::recordings(&studio.recordings()).unwrap();
    let text = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .find(|text| text.lines().any(is_call))
        .unwrap();

    for (name, other, expected) in [
        (
            "\"provider_id\"",
            "\"provder_id\"",
            "argument 1[0]: unknown field `provder_id`; expected one of `name`, `uid`, `provider_id`, ",
        ),
        (
            "\"function\":\"",
            "\"function\":\"un",
            "the plugin does not export this function of skydock:provider/un",
        ),
    ] {
        let line = |line: &str| {
            if is_call(line) {
                line.replace(name, other)
            } else {
                line.to_owned()
            }
        };
        let lines: Vec<_> = text.lines().map(line).collect();
        let file = studio.path("changed.jsonl");
        fs::write(&file, lines.join("\n") + "\n").unwrap();

        let difference = replay.play(&file).await.unwrap().difference.unwrap();
        assert_eq!(difference.what, "the call");
        assert!(difference.came.contains(expected), "{difference}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_traps_or_hangs_replays_as_it_ended() {
    let component = fs::read(fixture("good")).unwrap();
    let studio = Studio::new(&component);
    fs::write(studio.path("cloud.conf"), "").unwrap();
    let short = Limits {
        read_deadline: Duration::from_secs(1),
        ..limits()
    };
    let (plugin, _) = studio.record(short).await;
    for behavior in ["good", "trap", "good", "sleep"] {
        let answer = plugin.describe(&[node_that(behavior, "n")]).await;
        assert_eq!(answer.is_ok(), behavior == "good", "{behavior}: {answer:?}");
        assert!(!matches!(answer, Err(CloudError::Denied(_))));
    }
    drop(plugin);
    for one in studio.replay(&component).await {
        assert!(one.difference.is_none(), "{one:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_writes_to_standard_error_is_compared() {
    let component = fs::read(fixture("faulty")).unwrap();
    let studio = Studio::new(&component);
    fs::write(studio.path("cloud.conf"), "slices-names").unwrap();
    let (plugin, _) = studio.record(limits()).await;
    let node = Arc::new(Node {
        name: "n".repeat(150),
        ..Node::default()
    });
    assert!(plugin.describe(&[node]).await.is_err());
    drop(plugin);
    until("the end is written", || {
        studio.text().contains("{\"trap\":")
    })
    .await;
    assert!(studio.replay(&component).await.iter().all(|one| one.exact));
    let other = studio
        .replay(&changed(&component, "a name is long", "a name is huge"))
        .await;
    assert!(
        other.iter().all(|one| one.difference.is_none()) && !other[0].exact,
        "{other:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_recorded_call_has_the_targets_that_it_was_lent() {
    for name in ["good", "contract_0_1_0"] {
        let component = fs::read(fixture(name)).unwrap();
        let studio = Studio::new(&component);
        fs::write(studio.path("cloud.conf"), "").unwrap();
        let (plugin, _) = studio.record(limits()).await;
        let nodes = [node("a"), node("b")].into();
        for service in ["one", "two", "one"] {
            let service = service_that("nodes", service);
            let status = plugin.ensure_load_balancer(&service, &nodes).await.unwrap();
            assert_eq!(status.ingress[0].hostname.as_deref(), Some("a.b"), "{name}");
        }
        drop(plugin);

        let targets = || studio.text().matches("\"node-sets.targets\"").count();
        // The fixture with the SDK reads them twice in a call.
        let expected = if name == "good" { 6 } else { 3 };
        until("all is written", || targets() >= expected).await;
        assert_eq!(targets(), expected, "{name}");
        for one in studio.replay(&component).await {
            assert!(one.exact && one.difference.is_none(), "{name}: {one:#?}");
        }
    }
}
