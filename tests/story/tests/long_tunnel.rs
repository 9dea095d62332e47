//! `kubectl logs` and `kubectl exec` reach a real kubelet through a tunnel (konnectivity), as in
//! clusters whose control plane has another network than the nodes. The API server uses the address
//! that Skydock has written, and the certificate that Skydock has approved: with another address, and
//! with another certificate, both commands fail.
//!
//! Needs root. Where that is missing, `SKYDOCK_NO_CONTAINERS=1` skips it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{ffi::OsString, fs, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use skydock_clusters::{Error, NodeSpec, PAUSE, Plane, RealPlane};
use skydock_support::{Host, Paths, Seen, eventually};

const NODE: &str = "control-1";
const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1
kind: Inventory
machines:
  - name: control-1
    addresses: [{type: InternalIP, address: 198.18.0.1}]
";
/// An address at which nobody listens.
const WRONG_ADDRESS: &str = "198.18.0.9";
/// The static Pod `web` on the node.
const POD: &str = "web-control-1";
/// What it logs, and what a command in it says.
const LOGGED: &str = "serves :8080";
const SAID: &str = "hello";
/// A timeout for each step.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn logs_and_exec_work_through_a_tunnel() {
    let plane = RealPlane::start_with_tunnel()
        .await
        .expect("the plane starts");
    match whole(&plane).await {
        Ok(()) => {}
        Err(error) if is_skipped(&error) => {}
        Err(error) => {
            let state = plane
                .kubectl(&["get", "nodes,pods,csr,events", "-A", "-o", "wide"])
                .await;
            panic!(
                "{error:?}\n{}\nthe logs are in {}; those of Pods, also of the tunnel's agent, in nodes/{NODE}/logs",
                state.unwrap_or_else(|error| error.to_string()),
                plane.folder().display()
            );
        }
    }
}

fn is_skipped(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Error::skips_test)
}

async fn whole(plane: &RealPlane) -> Result<()> {
    plane
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "nodes",
            "--clusterrole=system:node",
            "--group=system:nodes",
        ])
        .await?;
    let host = start_skydock(plane).await?;
    let node = NodeSpec::new(NODE).without_provider_id();
    start_node(plane, &node.clone().requesting_certificate()).await?;
    both_work(plane, "with Skydock's address and certificate").await?;

    end(host).await?;
    set_address(plane, WRONG_ADDRESS).await?;
    both_fail(plane, "with a wrong address", WRONG_ADDRESS).await?;

    let host = start_skydock(plane).await?;
    both_work(plane, "after Skydock has written the address again").await?;

    plane.stop_node(NODE).await?;
    // This kubelet signs its certificate itself.
    start_node(plane, &node).await?;
    both_fail(plane, "with a certificate that nobody approved", "x509: ").await?;
    end(host).await
}

/// Starts Skydock with the controller that approves serving certificates.
async fn start_skydock(plane: &RealPlane) -> Result<Host> {
    let dir = plane.folder();
    let paths = Paths::of_checkout()?;
    let inventory = dir.join("inventory.yaml");
    fs::write(&inventory, INVENTORY)?;
    let plugin = paths.plugins.join("static.wasm");
    let args: Vec<OsString> = vec![
        "--cloud-provider=static".into(),
        format!("--plugin=static={}", plugin.display()).into(),
        format!("--cloud-config={}", inventory.display()).into(),
        format!("--kubeconfig={}", plane.kubeconfig_path().display()).into(),
        format!("--plugin-cache-dir={}", dir.join("compiled").display()).into(),
        "--controllers=*,node-csr-approval".into(),
        "--node-status-update-frequency=2s".into(),
    ];
    Host::start(&paths.skydock, dir, "host", &args).await
}

/// Replaces the address that Skydock has written.
async fn set_address(plane: &RealPlane, address: &str) -> Result<()> {
    let addresses = json!([
        {"type": "InternalIP", "address": address},
        {"type": "Hostname", "address": NODE},
    ]);
    let patch = json!({"status": {"addresses": addresses}}).to_string();
    plane
        .kubectl(&[
            "patch",
            "node",
            NODE,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
        .await?;
    Ok(())
}

async fn end(mut host: Host) -> Result<()> {
    host.terminate()?;
    let code = host.ended(PATIENCE).await?;
    ensure!(code == Some(0), "{code:?}: {}", host.last_words());
    Ok(())
}

/// Starts a node with the static Pod.
async fn start_node(plane: &RealPlane, node: &NodeSpec) -> Result<()> {
    let manifests = plane.start_container_node(node, &[]).await?;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "web", "image": PAUSE, "args": [":8080"]}]},
    });
    // The kubelet ignores the name until the file is complete.
    fs::write(manifests.join(".web.json"), pod.to_string())?;
    fs::rename(manifests.join(".web.json"), manifests.join("web.json"))?;
    Ok(())
}

/// Waits until both commands work.
async fn both_work(plane: &RealPlane, when: &str) -> Result<()> {
    eventually(PATIENCE, async || {
        let (log, said) = ask(plane).await;
        let seen = format!("log: {log:?}; exec: {said:?}");
        let works =
            log.is_ok_and(|log| log.contains(LOGGED)) && said.is_ok_and(|said| said.trim() == SAID);
        Ok(Seen::when(works, seen))
    })
    .await
    .with_context(|| when.to_owned())?;
    println!("{when}: both work");
    Ok(())
}

/// Waits until both commands fail for this reason. Meanwhile, they may fail for another one, for
/// example because the tunnel has no agent.
async fn both_fail(plane: &RealPlane, when: &str, reason: &str) -> Result<()> {
    let (log, said) = eventually(PATIENCE, async || {
        let (log, said) = ask(plane).await;
        let (Err(log), Err(said)) = (&log, &said) else {
            bail!("log: {log:?}; exec: {said:?}");
        };
        let (log, said) = (log.to_string(), said.to_string());
        Ok(if log.contains(reason) && said.contains(reason) {
            Seen::Yes((log, said))
        } else {
            Seen::NotYet(format!("no {reason:?} in log: {log}; exec: {said}"))
        })
    })
    .await
    .with_context(|| when.to_owned())?;
    println!("{when}: {log}; {said}");
    Ok(())
}

/// Returns the answers to `kubectl logs` and `kubectl exec`.
async fn ask(plane: &RealPlane) -> (Result<String, Error>, Result<String, Error>) {
    let log = plane.kubectl(&["logs", POD]).await;
    let said = plane
        .kubectl(&["exec", POD, "--", "/pause", "say", SAID])
        .await;
    (log, said)
}
