//! Controllers of volumes in the host, on a real control plane with simcloud and with EBS, without sidecars
//! of CSI.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

mod faults;
mod labels;
mod life;
mod world;

use std::{fs, time::Duration};

use serde_json::json;
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::Hosts;
use skydock_simcloud::{Options, Settings, Simcloud};
use skydock_support::{Host, Paths};

/// The driver of simcloud, and its topology.
const DRIVER: &str = "csi.simcloud.example";
const KEY: &str = "topology.csi.simcloud.example/zone";
/// How long a step may take.
const SOON: Duration = Duration::from_secs(60);

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

/// Starts a host with these flags.
async fn start(cloud: &Simcloud, plane: &RealPlane, flags: &[&str]) -> (Hosts, Host) {
    let mut hosts = Hosts::with("simcloud", plane.kubeconfig_path(), flags, |dir| {
        let config = json!({"url": cloud.url(), "region": "sim"});
        fs::write(dir.join("cloud.json"), config.to_string())?;
        fs::write(dir.join("token"), cloud.token())?;
        let rule = json!({
            "name": "api", "to": cloud.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"], "credential": "token",
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
