//! csi-sanity, with which the CSI project tests drivers, on the built host with simcloud, with EBS and with
//! Cinder.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::{EmbeddedPlane, Plane as _, go_binary};
use skydock_e2e::{AwsSite, Cluster, Hosts, Machine, OpenStackSite, Site};
use skydock_simcloud::{Options, Settings, Simcloud};
use skydock_support::{Host, Paths, Seen, eventually};

/// The folder of its Go module.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/csi-sanity");
/// Specs that a controller part without a node part and without groups has to pass, at least; the
/// others are for capabilities that the plugin does not have.
const PASSED: usize = 50;
/// Those without the limit of a node, which moto does not have.
const PASSED_ON_EBS: usize = 45;
/// Those without that limit and without attributes that can change.
const PASSED_ON_CINDER: usize = 54;

fn socket(dir: &Path) -> PathBuf {
    dir.join("csi.sock")
}

fn cloud() -> Simcloud {
    let settings = Settings {
        lag_ms: 0,
        lb_delay_ms: 0,
        volume_delay_ms: 0,
        latency_ms: 2,
        rate_limit: None,
    };
    Simcloud::start(Options {
        servers: 1,
        token: "a-secret-token".to_owned(),
        settings,
        ..Options::default()
    })
    .unwrap()
}

async fn start(cloud: &Simcloud, plane: &EmbeddedPlane, socket: &Path) -> (Hosts, Host) {
    let endpoint = format!("--csi-endpoint=unix://{}", socket.display());
    let flags = ["--controllers=cloud-node", &endpoint];
    let mut hosts = Hosts::with("simcloud", plane.kubeconfig_path(), &flags, |dir| {
        let config = json!({"url": cloud.url(), "region": "sim"});
        fs::write(dir.join("cloud.json"), config.to_string())?;
        fs::write(dir.join("token"), cloud.token())?;
        let rule = json!({
            "name": "api", "to": cloud.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"], "credential": "token",
            "limits": {"rate": 1000, "burst": 1000},
        });
        let plugin = Paths::of_checkout()?.plugins.join("simcloud.wasm");
        Ok(json!({
            "apiVersion": "skydock.dev/v1alpha1", "kind": "SkydockConfiguration",
            "plugins": [{"name": "simcloud", "file": plugin, "cloudConfig": dir.join("cloud.json"), "egress": [rule]}],
            "credentials": [{
                "name": "token", "type": "header", "for": {"plugin": "simcloud", "digest": "any"},
                "prefix": "Bearer ", "valueFile": dir.join("token"),
            }],
        }))
    })
    .unwrap();
    let host = hosts.start().await.unwrap();
    (hosts, host)
}

/// Runs csi-sanity, which waits until the host leads, and returns how many specs passed.
async fn passed(host: &Host, dir: &Path, flags: &[&str]) -> usize {
    let program = go_binary(Path::new(MODULE), "csi-sanity").await.unwrap();
    let report = dir.join("report.json");
    let mut sanity = Command::new(program);
    sanity
        .arg(format!("-endpoint={}", socket(dir).display()))
        .args(flags)
        .arg("-ginkgo.skip=Node Service|GroupController")
        .arg("-ginkgo.no-color")
        .arg(format!("-ginkgo.json-report={}", report.display()));
    let output = tokio::task::spawn_blocking(move || sanity.output().unwrap());
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", host.last_words());

    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let specs = report[0]["SpecReports"].as_array().unwrap();
    specs.iter().filter(|it| it["State"] == "passed").count()
}

/// Runs csi-sanity with the plugin of a cloud, on the node of a machine, and returns how many specs
/// passed.
async fn passed_on(
    site: &dyn Site,
    machine: &Machine,
    plane: &EmbeddedPlane,
    flags: &[&str],
) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = format!("--csi-endpoint=unix://{}", socket(dir.path()).display());
    let of_host = ["--controllers=cloud-node", endpoint.as_str()];
    let mut hosts = Hosts::of_site(site, "sanity", plane.kubeconfig_path(), &of_host).unwrap();
    hosts
        .edit(|document| document["plugins"][0]["options"]["volumes"] = json!("true"))
        .unwrap();
    let host = hosts.start().await.unwrap();

    // Volumes that may be in any zone are in that of a node.
    let cluster = Cluster::new(plane.client());
    cluster.register(&machine.node).await.unwrap();
    eventually(Duration::from_secs(60), || async {
        let is_there = cluster.is_initialized(&machine.node).await?;
        Ok(Seen::when(is_there, "the node is not initialized"))
    })
    .await
    .unwrap();

    let node = format!("-node={}", machine.id);
    let flags = [&[node.as_str()][..], flags].concat();
    let passed = passed(&host, dir.path(), &flags).await;
    Hosts::stop(host).await.unwrap();
    passed
}

#[tokio::test(flavor = "multi_thread")]
async fn csi_sanity_passes_on_simcloud() {
    let (cloud, plane) = (cloud(), EmbeddedPlane::start().await.unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (_hosts, host) = start(&cloud, &plane, &socket(dir.path())).await;
    let flags = ["-node=srv-1", "-limit=16", "-attribute=iops", "-value=5000"];
    let passed = passed(&host, dir.path(), &flags).await;
    assert!(passed >= PASSED, "{passed} passed");

    let (_, state) = cloud.request("GET", "/_sim/state", &Value::Null);
    assert_eq!(
        (&state["volumes"], &state["snapshots"]),
        (&json!([]), &json!([]))
    );
    Hosts::stop(host).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn csi_sanity_passes_on_ebs() {
    let cloud = Aws::start().await.unwrap();
    let plane = EmbeddedPlane::start_without_controllers().await.unwrap();
    let keys = cloud.verify_signatures().await.unwrap();
    let mut site = AwsSite::new(&cloud, keys, "sanity", 1).await.unwrap();
    let machine = site.add(1).await.unwrap().remove(0);

    let flags = ["-attribute=iops", "-value=4000"];
    let passed = passed_on(&site, &machine, &plane, &flags).await;
    assert!(passed >= PASSED_ON_EBS, "{passed} passed");

    for (action, name) in [
        ("DescribeVolumes", "CSIVolumeName"),
        ("DescribeSnapshots", "CSIVolumeSnapshotName"),
    ] {
        let left = cloud.call("ec2", action, &[]).await.unwrap();
        assert!(!left.contains(name), "{left}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csi_sanity_passes_on_cinder() {
    let cloud = OpenStack::start().await.unwrap();
    let plane = EmbeddedPlane::start_without_controllers().await.unwrap();
    let mut site = OpenStackSite::new(&cloud, "sanity", 1).await.unwrap();
    let machine = site.add(1).await.unwrap().remove(0);

    let passed = passed_on(&site, &machine, &plane, &[]).await;
    assert!(passed >= PASSED_ON_CINDER, "{passed} passed");

    let left = site.holdings().await.unwrap();
    assert!(
        left["volumes"].is_empty() && left["snapshots"].is_empty(),
        "{left:?}"
    );
}
