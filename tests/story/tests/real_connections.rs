//! The connections of the host to a real API server: their number, and the recovery from a
//! connection that receives nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    future::pending,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ListParams, PostParams},
    config::Kubeconfig,
};
use serde_json::json;
use skydock_clusters::{Plane, RealPlane};
use skydock_support::{Host, Paths, Seen, eventually, kubernetes::UNINITIALIZED};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

const LIMIT: Duration = Duration::from_secs(60);
/// A dead connection is detected after 15 s, and lost requests are repeated after that.
const RECOVERY: Duration = Duration::from_secs(30);
const NODES: usize = 600;
/// The connections of the leader election, the informers, each controller, events, and the initial
/// requests.
const CONNECTIONS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn requests_share_connections_and_abandon_dead_ones() {
    let plane = RealPlane::start().await.expect("the plane starts");
    let nodes: Api<Node> = Api::all(plane.client());
    try_join_all((1..NODES).map(|number| make(&nodes, number)))
        .await
        .expect("nodes");
    let wire = Wire::to(plane.kubeconfig_path()).await;
    let (dir, host) = start(&wire).await;
    initialized(&nodes, LIMIT)
        .await
        .unwrap_or_else(|error| panic!("{error:?}\n{}", host.last_words()));
    let few = eventually(LIMIT, || async {
        let open = wire.open.load(Ordering::Relaxed);
        Ok(if open > CONNECTIONS {
            Seen::NotYet(format!("{open} connections"))
        } else {
            Seen::Yes(())
        })
    });
    few.await.expect("requests share connections");
    let log = fs::read_to_string(host.log()).expect("a log");
    assert!(
        !log.contains("client error"),
        "who is sent to another connection asks again there: {log}"
    );

    wire.silence.send_modify(|times| *times += 1);
    make(&nodes, 0).await.expect("a node");
    initialized(&nodes, RECOVERY)
        .await
        .unwrap_or_else(|error| panic!("{error:?}\n{}", host.last_words()));
    let log = fs::read_to_string(host.log()).expect("a log");
    assert!(!log.contains("leadership lost"), "{log}");
    drop(dir);
}

/// A proxy for bytes that can become silent. Connections that are opened afterwards work.
struct Wire {
    kubeconfig: Kubeconfig,
    open: Arc<AtomicUsize>,
    silence: watch::Sender<usize>,
    /// Ends when it is dropped.
    _serving: JoinSet<()>,
}

impl Wire {
    async fn to(kubeconfig: &Path) -> Self {
        let mut kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let cluster = kubeconfig
            .clusters
            .iter_mut()
            .find_map(|named| named.cluster.as_mut())
            .expect("a cluster");
        let here = format!("https://{}", listener.local_addr().expect("an address"));
        let there = cluster.server.replace(here).expect("an API server");
        let there: SocketAddr = there
            .trim_start_matches("https://")
            .parse()
            .expect("an address");
        let (open, silence) = (Arc::<AtomicUsize>::default(), watch::Sender::new(0));
        let mut serving = JoinSet::new();
        serving.spawn(pass(listener, there, open.clone(), silence.clone()));
        Self {
            kubeconfig,
            open,
            silence,
            _serving: serving,
        }
    }
}

async fn pass(
    listener: TcpListener,
    there: SocketAddr,
    open: Arc<AtomicUsize>,
    silence: watch::Sender<usize>,
) {
    let mut passing = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let (open, mut silent) = (open.clone(), silence.subscribe());
        passing.spawn(async move {
            let mut far = TcpStream::connect(there)
                .await
                .expect("the API server listens");
            open.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                // The result does not matter.
                _ = copy_bidirectional(&mut near, &mut far) => {}
                Ok(()) = silent.changed() => pending().await,
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn initialized(nodes: &Api<Node>, limit: Duration) -> anyhow::Result<()> {
    eventually(limit, || async {
        let all = nodes.list(&ListParams::default()).await?.items;
        let taints = all
            .into_iter()
            .flat_map(|node| node.spec.and_then(|spec| spec.taints))
            .flatten();
        let waiting = taints.filter(|taint| taint.key == UNINITIALIZED).count();
        Ok(if waiting > 0 {
            Seen::NotYet(format!("{waiting} wait"))
        } else {
            Seen::Yes(())
        })
    })
    .await
}

async fn make(nodes: &Api<Node>, number: usize) -> kube::Result<Node> {
    let taint = json!({ "key": UNINITIALIZED, "effect": "NoSchedule" });
    let node =
        json!({ "metadata": { "name": format!("node-{number}") }, "spec": { "taints": [taint] } });
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).expect("a node"),
        )
        .await
}

async fn start(wire: &Wire) -> (TempDir, Host) {
    let paths = Paths::of_checkout().expect("all is built");
    let dir = tempfile::Builder::new()
        .prefix("skydock-connections-")
        .tempdir()
        .expect("a folder");
    let mut inventory =
        "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachines:\n".to_owned();
    for number in 0..NODES {
        writeln!(inventory, "  - name: node-{number}").expect("room");
    }
    let (machines, kubeconfig) = (
        dir.path().join("inventory.yaml"),
        dir.path().join("kubeconfig"),
    );
    fs::write(&machines, inventory).expect("a file");
    // JSON is valid YAML.
    fs::write(
        &kubeconfig,
        serde_json::to_vec(&wire.kubeconfig).expect("a kubeconfig"),
    )
    .expect("a file");
    let args: Vec<OsString> = vec![
        "--cloud-provider=static".into(),
        format!(
            "--plugin=static={}",
            paths.plugins.join("static.wasm").display()
        )
        .into(),
        format!("--cloud-config={}", machines.display()).into(),
        format!("--kubeconfig={}", kubeconfig.display()).into(),
        format!(
            "--plugin-cache-dir={}",
            dir.path().join("compiled").display()
        )
        .into(),
    ];
    let host = Host::start(&paths.skydock, dir.path(), "host", &args)
        .await
        .expect("the host starts");
    (dir, host)
}
