//! A real kubelet gets its serving certificate: it requests one, Skydock approves that because the
//! cloud confirms its addresses, and kube-controller-manager signs it. What the cloud does not
//! confirm waits.
//!
//! Needs root. Where that is missing, `SKYDOCK_NO_CONTAINERS=1` skips it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{ffi::OsString, fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Event};
use kube::{Api, api::ListParams};
use serde_json::json;
use skydock_clusters::{Error, NodeSpec, Plane, RealPlane};
use skydock_story::kubelet::{issued, request_certificate};
use skydock_support::{Host, Paths, Seen, eventually};

const NODE: &str = "control-1";
/// The address of every node with containers.
const ADDRESS: &str = "198.18.0.1";
const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1
kind: Inventory
machines:
  - name: control-1
    addresses: [{type: InternalIP, address: 198.18.0.1}]
  - name: control-2
    addresses: [{type: InternalIP, address: 198.18.0.2}]
";
/// Names of forged requests, the node whose kubelet creates each, and what it asks for.
const FORGED: [(&str, &str, &[&str]); 5] = [
    ("another-address", NODE, &[NODE, "198.18.0.2"]),
    ("another-name", NODE, &["control-2", ADDRESS]),
    ("the-api-server", NODE, &[NODE, "kubernetes.default.svc"]),
    ("of-no-node", "control-2", &["control-2", "198.18.0.2"]),
    ("of-a-thief", THIEF, &[NODE, ADDRESS]),
];
/// A Node with the provider ID of another one, as a kubelet may register it.
const THIEF: &str = "thief";
/// A timeout for each step. A kubelet requests a certificate as soon as its Node has addresses.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time in which a forged request would be approved.
const MORE: Duration = Duration::from_secs(10);

// Holds: SEC-64
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_gets_only_a_certificate_that_is_confirmed() {
    let plane = RealPlane::start().await.expect("the plane starts");
    let dir = tempfile::Builder::new()
        .prefix("skydock-certificates-")
        .tempdir()
        .expect("a folder");
    let mut host = start(&plane, dir.path()).await.expect("the host starts");
    match whole(&plane, dir.path()).await {
        Ok(()) => {}
        Err(error) if is_skipped(&error) => {}
        Err(error) => panic!(
            "{error:?}\n{}\nthe logs are in {}",
            host.last_words(),
            plane.folder().display()
        ),
    }
    host.terminate().expect("it is told to end");
    assert_eq!(host.ended(PATIENCE).await.expect("it ends"), Some(0));
}

fn is_skipped(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Error::skips_test)
}

async fn start(plane: &RealPlane, dir: &Path) -> Result<Host> {
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
    ];
    Host::start(&paths.skydock, dir, "host", &args).await
}

async fn whole(plane: &RealPlane, dir: &Path) -> Result<()> {
    plane
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "nodes",
            "--clusterrole=system:node",
            "--group=system:nodes",
        ])
        .await?;
    let node = NodeSpec::new(NODE)
        .without_provider_id()
        .requesting_certificate();
    plane.start_container_node(&node, &[]).await?;
    kubelet_has_certificate(plane).await?;

    let admin = plane.kubeconfig_path();
    for (request, node, names) in FORGED {
        if node == THIEF {
            // The others must not wait only because of it.
            tokio::time::sleep(MORE).await;
            create_thief(plane, dir).await?;
        }
        request_certificate(admin, node, request, names).await?;
    }
    tokio::time::sleep(MORE).await;

    let requests: Api<CertificateSigningRequest> = Api::all(plane.client());
    for (request, ..) in FORGED {
        let status = requests.get(request).await?.status.unwrap_or_default();
        ensure!(
            status.conditions.is_none() && status.certificate.is_none(),
            "{request}: {status:?}"
        );
    }

    let events: Api<Event> = Api::all(plane.client());
    let told = ListParams::default().fields("reason=ServingCertificateNotApproved");
    let events = events.list(&told).await?;
    for request in [
        "another-address",
        "another-name",
        "the-api-server",
        "of-a-thief",
    ] {
        let mut messages = events.iter().filter_map(|event| event.message.as_deref());
        ensure!(
            messages.any(|message| message.contains(request)),
            "nobody says why {request} waits"
        );
    }
    Ok(())
}

async fn create_thief(plane: &RealPlane, dir: &Path) -> Result<()> {
    let file = dir.join("thief.json");
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": THIEF},
        "spec": {"providerID": format!("static://{NODE}")},
    });
    fs::write(&file, node.to_string())?;
    let file = file.display().to_string();
    plane.kubectl(&["create", "-f", &file]).await?;
    Ok(())
}

/// Waits until the kubelet has the certificate that it has requested.
async fn kubelet_has_certificate(plane: &RealPlane) -> Result<()> {
    let requests: Api<CertificateSigningRequest> = Api::all(plane.client());
    let user = format!("system:node:{NODE}");
    let name = eventually(PATIENCE, async || {
        let all = requests.list(&ListParams::default()).await?;
        let mut own = all.items.into_iter().filter(|it| {
            let status = it.status.as_ref();
            let is_issued = status.is_some_and(|status| status.certificate.is_some());
            it.spec.username.as_ref() == Some(&user) && is_issued
        });
        let name = own.next().and_then(|request| request.metadata.name);
        Ok(name.map_or_else(|| Seen::NotYet("no certificate".to_owned()), Seen::Yes))
    })
    .await?;
    let certificate = issued(&plane.client(), &name).await?;
    let certificate = certificate.context("no certificate")?;

    let pki = plane.folder().join("nodes").join(NODE).join("pki");
    eventually(PATIENCE, async || {
        let text = fs::read_to_string(pki.join("kubelet-server-current.pem")).unwrap_or_default();
        Ok(Seen::when(
            text.contains(certificate.trim()),
            "the kubelet does not use it",
        ))
    })
    .await
}
