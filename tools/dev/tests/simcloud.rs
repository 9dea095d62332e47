//! `skydock dev --simcloud`, from the command to a Service that is served.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};

/// The running program, which ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn until<T>(what: &str, log: &Path, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found().await {
            return found;
        }
        let log = || fs::read_to_string(log).unwrap_or_default();
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "{what}:\n{}",
            log()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn nodes_and_a_service_work_in_simcloud_at_once() {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/simcloud.wasm");
    assert!(
        plugin.is_file(),
        "there is no plugin {}: run `cargo xtask guests`",
        plugin.display()
    );
    let dir = tempfile::tempdir().unwrap();
    let (log, kubeconfig) = (dir.path().join("log"), dir.path().join("kubeconfig"));
    let output = File::create(&log).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_skydock-dev"));
    program
        .arg("--plugin")
        .arg(&plugin)
        .arg("--write-kubeconfig")
        .arg(&kubeconfig)
        .args(["--simcloud", "--nodes=2"]);
    program
        .env("HOME", dir.path())
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    let _running = Running(program.spawn().unwrap());

    let read = until("the kubeconfig", &log, async || {
        Kubeconfig::read_from(&kubeconfig).ok()
    })
    .await;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let ids = until("the nodes", &log, async || {
        let nodes = nodes.list(&Default::default()).await.ok()?.items;
        let ids: Vec<_> = nodes
            .into_iter()
            .filter_map(|node| node.spec?.provider_id)
            .collect();
        (ids.len() == 2).then_some(ids)
    });
    assert_eq!(
        ids.await,
        ["simcloud:///zone-a/srv-1", "simcloud:///zone-b/srv-2"]
    );

    let services: Api<Service> = Api::default_namespaced(client);
    let service = serde_json::json!({
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
    });
    services
        .create(
            &PostParams::default(),
            &serde_json::from_value(service).unwrap(),
        )
        .await
        .unwrap();
    let ip = until("the load balancer", &log, async || {
        let status = services.get("web").await.ok()?.status?;
        status.load_balancer?.ingress?.into_iter().next()?.ip
    });
    assert_eq!(ip.await, "198.19.0.1");
    let told = fs::read_to_string(&log).unwrap();
    assert!(
        told.contains("simcloud: http://127.0.0.1:") && told.contains("/token"),
        "{told}"
    );
}
