//! Tests of the binary, from its flags to their effect in a cluster.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Node, Service},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use skydock_devplane::{DevPlane, Options};
use skydock_support::Process;
use tempfile::TempDir;
use tokio::time::sleep;

/// How long to wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the flag for a plugin that `cargo xtask guests` has built.
fn plugin(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/plugins")
        .join(name);
    assert!(
        path.is_file(),
        "there is no plugin {}: run `cargo xtask guests`",
        path.display()
    );
    format!("--plugin={}={}", provider(&path), path.display())
}

/// Returns the name of a plugin, which permits its provider IDs.
fn provider(plugin: &Path) -> &str {
    let folder = plugin.parent().unwrap();
    let named = if folder.ends_with("hostile") {
        folder
    } else {
        plugin
    };
    named.file_stem().unwrap().to_str().unwrap()
}

/// Returns the flag that selects the plugin of `--plugin`.
fn cloud_provider(args: &[&str]) -> String {
    let plugins = args.iter().filter_map(|arg| arg.strip_prefix("--plugin="));
    let name = plugins.filter_map(|plugin| plugin.split_once('=')).next();
    format!("--cloud-provider={}", name.map_or("it", |(name, _)| name))
}

fn skydock(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skydock"));
    command
        .args([&*cloud_provider(args), "--secure-port=0"])
        .args(args);
    command
        .current_dir(dir.path())
        .env("HOME", dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Returns the error for flags with which the binary does not start.
fn rejection(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let output = skydock(&dir, args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // A slow compilation is logged before the error.
    let errors: Vec<_> = said
        .lines()
        .filter(|line| !line.contains(" INFO "))
        .collect();
    assert!(
        !output.status.success() && errors.len() == 1,
        "{args:?}: {said}"
    );
    errors.concat()
}

/// A running process, which is killed at the end of the test.
struct Running {
    _process: Process,
    dir: TempDir,
}

impl Running {
    fn start(plane: &DevPlane, args: &[&str], inventory: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cloud.yaml"), inventory).unwrap();
        let master = format!("--master={}", plane.url());
        let config = "--cloud-config=cloud.yaml";
        fs::write(dir.path().join("kubeconfig"), kubeconfig(plane)).unwrap();
        // What was compiled once is used by all tests.
        let compiled = concat!(
            "--plugin-cache-dir=",
            env!("CARGO_TARGET_TMPDIR"),
            "/manager"
        )
        .to_owned();
        let own = [
            plugin("static.wasm"),
            master,
            config.to_owned(),
            "--kubeconfig=kubeconfig".to_owned(),
            compiled,
        ];
        let all: Vec<_> = own
            .iter()
            .map(String::as_str)
            .chain(args.iter().copied())
            .collect();
        let process =
            Process::start("skydock", skydock(&dir, &all), &dir.path().join("log")).unwrap();
        Self {
            _process: process,
            dir,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }
}

fn kubeconfig(plane: &DevPlane) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{}'}}}}]\n\
         users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        plane.url().to_string().trim_end_matches('/')
    )
}

const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\n";

async fn until<T>(what: &str, running: &Running, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "still not: {what}\n{}",
            running.log()
        );
        sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn tools_for_developers_are_next_to_skydock() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("skydock");
    fs::copy(env!("CARGO_BIN_EXE_skydock"), &alone).unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(&alone)
            .args(words)
            .env("PATH", "/nowhere")
            .output()
            .unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (dev, new) = (["dev", "--help", "x y"], ["plugin", "new", "--help", "x y"]);
    for (words, command) in [(&dev[..], "dev"), (&new, "plugin new")] {
        let (_, said) = run(words);
        let needs =
            format!("skydock: `skydock {command}` needs the program skydock-dev, which is neither");
        assert!(said.starts_with(&needs), "{said}");
        assert!(
            said.lines().count() == 1 && said.contains("cargo build --release -p skydock-dev"),
            "{said}"
        );
    }
    let beside = dir.path().join("skydock-dev");
    fs::write(&beside, "#!/bin/sh\nfor word; do echo \"<$word>\"; done\n").unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&dev).0, "<--help>\n<x y>\n");
    assert_eq!(run(&new).0, "<plugin>\n<new>\n<--help>\n<x y>\n");
}

#[test]
fn another_manifest_reaches_the_plugin_and_is_told_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("plugins")).unwrap();
    fs::write(dir.path().join("plugins/static.wasm"), "not yet").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_skydock"))
        .args([
            "/bin/metal-cloud-controller-manager",
            "--cloud-provider=metal",
            "--allow-untagged-cloud",
            "--leader-elect=True",
            "--plugin-dir=plugins",
            "--secure-port=0",
        ])
        .current_dir(dir.path())
        .env("HOME", dir.path())
        .output()
        .unwrap();

    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = said.lines().collect();
    let expected = [
        (
            " INFO ",
            "/bin/metal-cloud-controller-manager before the flags is ignored",
        ),
        (" WARN ", "--allow-untagged-cloud=true has no effect: "),
        (
            " WARN ",
            "--cloud-provider=metal names no plugin: static, the only one, serves",
        ),
        (
            "skydock: ",
            "cannot load plugin static from plugins/static.wasm",
        ),
    ];
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, (level, words)) in lines.iter().zip(expected) {
        assert!(line.contains(level) && line.contains(words), "{said}");
    }
}

// Holds: R-02
#[test]
fn routes_without_cluster_cidr_fail_at_startup() {
    let said = rejection(&[&plugin("hostile/good.wasm")]);
    let words = "supports routes: set a valid --cluster-cidr, or set --configure-cloud-routes=false: --cluster-cidr is missing";
    assert!(said.contains(words), "{said}");
}

#[test]
fn plugin_limit_flags_apply_to_the_plugin() {
    let said = rejection(&[&plugin("hostile/good.wasm"), "--plugin-limit=memory=1Mi"]);
    assert!(
        said.contains("which exceeds the limit of 0x100000 bytes"),
        "{said}"
    );
}

/// What the flags of `deploy/` do not tell is known from the cluster.
// Holds: SEC-16
#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_the_cluster_are_known_without_flags() {
    let plane = DevPlane::start(Options::default()).await.unwrap();
    let client = Client::try_from(Config::new(plane.url().parse().unwrap())).unwrap();
    let services = Api::<Service>::namespaced(client.clone(), "default");
    let node = json!({
        "metadata": {"name": "n1"}, "spec": {"podCIDRs": ["10.244.7.0/24"]},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.7.7"}]},
    });
    let node = serde_json::from_value::<Node>(node).unwrap();
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let create = async |service| {
        let service = serde_json::from_value(service).unwrap();
        services
            .create(&PostParams::default(), &service)
            .await
            .unwrap()
    };
    let dns = create(json!({"metadata": {"name": "dns"}, "spec": {"ports": [{"port": 53}]}})).await;
    let dns = dns.spec.unwrap().cluster_ip.unwrap();
    let table = [
        (
            "service",
            dns.as_str(),
            "it is a cluster IP of Service default/dns",
        ),
        ("node", "10.0.7.7", "it is an address of node n1"),
        (
            "pod",
            "10.244.7.7",
            "it is in the Pod CIDR 10.244.7.0/24 of node n1",
        ),
    ];
    for (name, address, _) in table {
        let wanted = json!({"static.skydock.dev/addresses": address});
        create(json!({
            "metadata": {"name": name, "annotations": wanted},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        }))
        .await;
    }

    let pool = format!("addressPools: [{{name: p, addresses: [{dns}, 10.0.7.7, 10.244.7.7]}}]");
    let running = Running::start(
        &plane,
        &["--leader-elect=false"],
        &format!("{INVENTORY}{pool}\n"),
    );
    let events = Api::<Event>::all(client);
    for (name, address, why) in table {
        let message = until("the service is told", &running, async || {
            let all = events.list(&ListParams::default()).await.unwrap();
            let failed = all.into_iter().find(|event| {
                event.involved_object.name.as_deref() == Some(name)
                    && event.reason.as_deref() == Some("SyncLoadBalancerFailed")
            });
            failed.and_then(|event| event.message)
        });
        let (message, expected) = (message.await, format!("{address} is rejected: {why}"));
        assert!(message.contains(&expected), "{message}");
    }
    drop(running);
    plane.shutdown().await;
}

// Holds: SEC-16
#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_with_a_pod_address_causes_an_event() {
    let plane = DevPlane::start(Options::default()).await.unwrap();
    let client = Client::try_from(Config::new(plane.url().parse().unwrap())).unwrap();
    let services = Api::<Service>::namespaced(client.clone(), "default");
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    services
        .create(
            &PostParams::default(),
            &serde_json::from_value(service).unwrap(),
        )
        .await
        .unwrap();
    let inventory = format!("{INVENTORY}addressPools: [{{name: pods, addresses: [10.244.7.7]}}]\n");
    let pods = ["--cluster-cidr=10.244.0.0/16", "--leader-elect=false"];
    let rejecting = Running::start(&plane, &pods, &inventory);
    let events = Api::<Event>::all(client);
    let message = until("the service is told", &rejecting, async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let failed = all
            .into_iter()
            .find(|event| event.reason.as_deref() == Some("SyncLoadBalancerFailed"));
        failed.and_then(|event| event.message)
    });
    let message = message.await;
    assert!(
        message.contains("10.244.7.7 is rejected: it is in the Pod address range 10.244.0.0/16"),
        "{message}"
    );
    drop(rejecting);

    let allowing = [&pods[..], &["--load-balancer-allowed-cidrs=10.244.7.0/24"]].concat();
    let allowing = Running::start(&plane, &allowing, &inventory);
    until("the address is there", &allowing, async || {
        let status = services.get("web").await.unwrap().status?.load_balancer?;
        status
            .ingress?
            .iter()
            .any(|ingress| ingress.ip.as_deref() == Some("10.244.7.7"))
            .then_some(())
    })
    .await;
    drop(allowing);
    plane.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_cidr_allocation_waits_after_a_killed_leader() {
    let plane = DevPlane::start(Options::default()).await.unwrap();
    let client = Client::try_from(Config::new(plane.url().parse().unwrap())).unwrap();
    let (nodes, leases) = (
        Api::<Node>::all(client.clone()),
        Api::<Lease>::namespaced(client, "kube-system"),
    );
    let register = async |name: &str| {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    };
    let has = async |name: &str| {
        nodes
            .get(name)
            .await
            .unwrap()
            .spec
            .and_then(|spec| spec.pod_cidr)
            .is_some()
    };
    let flags = [
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16",
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=1s",
    ];
    register("a").await;
    let first = Running::start(&plane, &flags, INVENTORY);
    until("the first gives Pod CIDRs", &first, async || {
        has("a").await.then_some(())
    })
    .await;
    let lease = async || leases.get("cloud-controller-manager").await.unwrap();
    let before = lease().await.spec.unwrap().holder_identity;
    // Killed by SIGKILL, so the Lease is not released.
    drop(first);
    register("b").await;
    let second = Running::start(&plane, &flags, INVENTORY);
    until("the second leads", &second, async || {
        let lease = lease().await;
        assert_eq!(lease.name_any(), "cloud-controller-manager");
        (lease.spec.unwrap().holder_identity != before).then_some(())
    })
    .await;
    sleep(Duration::from_secs(5)).await;
    assert!(
        !has("b").await,
        "what the first has sent may arrive yet\n{}",
        second.log()
    );
    drop(second);
    plane.shutdown().await;
}
