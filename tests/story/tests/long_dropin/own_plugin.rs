//! A plugin of one's own: the example for that, with the init container that copies the plugin.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::ListParams};
use skydock_support::{Seen, checkout, copy_folder, eventually};

use crate::cluster::{Cluster, INVENTORY, NODE, PATIENCE, is_ready};

const SELECTOR: &str = "app.kubernetes.io/name=skydock";
/// The static provider stands in.
const CONFIGURATION: &str = "apiVersion: skydock.dev/v1alpha1
kind: SkydockConfiguration
plugins:
- name: metal
  file: /plugins/metal.wasm
  cloudConfig: /etc/skydock/cloud.yaml
  permissions: {providerIDs: [\"static://\"]}
";
/// What an operator edits, and the inventory.
const CHANGES: [(&str, &str); 2] = [
    ("path: image-volume.yaml", "path: init-container.yaml"),
    (
        "literals:\n      - token=replace-me",
        "files:\n      - cloud.yaml",
    ),
];

/// Applies the example, and waits until its plugin has initialized the node.
pub(crate) async fn run(cluster: &Cluster) -> Result<()> {
    let dir = tempfile::tempdir()?;
    copy_folder(&checkout().join("deploy"), dir.path())?;
    let example = dir.path().join("example-metal");
    fs::write(example.join("config.yaml"), CONFIGURATION)?;
    fs::write(example.join("cloud.yaml"), INVENTORY)?;
    let file = example.join("kustomization.yaml");
    let mut text = fs::read_to_string(&file)?;
    for (from, to) in CHANGES {
        ensure!(text.contains(from), "the example has no {from:?}");
        text = text.replace(from, to);
    }
    fs::write(&file, text)?;
    let example = example.display().to_string();
    let apply = ["apply", "--validate=strict", "-k", example.as_str()];
    cluster.plane.kubectl(&apply).await?;

    let pods = cluster.pods();
    let own = ListParams::default().labels(SELECTOR);
    let ready = eventually(PATIENCE, async || {
        let pods = pods.list(&own).await?.items;
        Ok(Seen::when(pods.iter().any(is_ready), "no Pod is ready"))
    });
    ready.await.context("Skydock does not start")?;

    let nodes: Api<Node> = Api::all(cluster.client.clone());
    eventually(PATIENCE, async || {
        let id = nodes.get(NODE).await?.spec.and_then(|it| it.provider_id);
        let is_known = id.as_deref() == Some("static://control-1");
        Ok(Seen::when(is_known, "the plugin has not initialized it"))
    })
    .await
}
