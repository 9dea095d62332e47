//! The first minutes of a cluster: a control plane and one real node, which is tainted until a
//! cloud-controller-manager has initialized it. Skydock is deployed as by a user, runs in a
//! container from its own image on that node, and initializes it; then DNS and other Pods run (`dns`).
//! The Deployment is that of Kustomize, the DaemonSet and the static Pod are those of the chart.
//!
//! Needs root. Where that is missing, `SKYDOCK_NO_CONTAINERS=1` skips it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

mod dns;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use skydock_clusters::{Error, NodeSpec, PAUSE, Plane, RealPlane};
use skydock_deploy::Program;
use skydock_story::image::{self, IMAGE};
use skydock_support::{Seen, checkout, eventually, kubernetes::UNINITIALIZED};

const NAMESPACE: &str = "kube-system";
/// A machine in the inventory of the example.
const NODE: &str = "control-1";
const SELECTOR: &str = "app.kubernetes.io/name=skydock";
/// A timeout for each step. The plugin is compiled on the node.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_begins_with_skydock_on_a_tainted_node() {
    let plane = RealPlane::start().await.expect("the plane starts");
    let dir = tempfile::Builder::new()
        .prefix("skydock-node-")
        .tempdir()
        .expect("a folder");
    let cluster = Box::pin(Cluster::prepare(&plane, dir.path())).await;
    let cluster = cluster.expect("images and Helm");
    match Box::pin(cluster.whole()).await {
        Ok(()) => {}
        Err(error) if is_skipped(&error) => {}
        Err(error) => {
            let state = cluster.state().await;
            panic!(
                "{error:?}\n{state}\nthe logs are in {}",
                plane.folder().display()
            );
        }
    }
}

fn is_skipped(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(Error::skips_test)
}

struct Cluster<'a> {
    plane: &'a RealPlane,
    client: Client,
    dir: &'a Path,
    helm: Program,
    images: [PathBuf; 2],
}

impl<'a> Cluster<'a> {
    /// Writes the images of Skydock and of CoreDNS.
    async fn prepare(plane: &'a RealPlane, dir: &'a Path) -> Result<Self> {
        let image = image::of_checkout()?;
        let archive = dir.join("skydock.tar");
        image::write(IMAGE, &[image], &archive)?;
        Ok(Self {
            plane,
            client: plane.client(),
            dir,
            helm: Program::helm().await?,
            images: [archive, dns::image(dir).await?],
        })
    }

    async fn whole(&self) -> Result<()> {
        let example = checkout().join("deploy/example").display().to_string();

        self.node().await?;
        self.kubectl(&["apply", "--validate=strict", "-k", &example])
            .await?;
        self.begins("the Deployment").await?;
        self.kubectl(&["delete", "deployment", "skydock"]).await?;
        self.ends().await?;
        // The chart brings all objects itself.
        self.kubectl(&["delete", "--ignore-not-found", "-k", &example])
            .await?;

        self.node().await?;
        let chart = self.dir.join("daemon-set.yaml");
        fs::write(&chart, self.rendered("DaemonSet", &[])?)?;
        let chart = chart.display().to_string();
        self.kubectl(&["apply", "--validate=strict", "-f", &chart])
            .await?;
        self.begins("the DaemonSet").await?;
        self.kubectl(&["delete", "daemonset", "skydock"]).await?;
        self.ends().await?;

        let manifests = self.node().await?;
        let static_pod = self.static_pod().await?;
        // The kubelet ignores the name until the file is complete.
        fs::write(manifests.join(".skydock.yaml"), static_pod)?;
        fs::rename(
            manifests.join(".skydock.yaml"),
            manifests.join("skydock.yaml"),
        )?;
        self.begins("the static Pod").await?;
        fs::remove_file(manifests.join("skydock.yaml"))?;
        self.ends().await
    }

    /// Returns what Helm renders of the example, with this kind of workload.
    fn rendered(&self, kind: &str, more: &[&str]) -> Result<String> {
        let kind = format!("--set=kind={kind}");
        let arguments = [
            "template",
            "skydock",
            "../chart",
            "--namespace",
            NAMESPACE,
            "--values",
            "values.yaml",
            "--set-file",
            "cloudConfig.cloud\\.yaml=cloud.yaml",
            &kind,
        ];
        let example = checkout().join("deploy/example");
        self.helm.run(&example, &[&arguments[..], more].concat())
    }

    /// Starts the node, and creates an ordinary Pod and CoreDNS, which must wait. Returns the folder
    /// for static Pods.
    async fn node(&self) -> Result<PathBuf> {
        let node = NodeSpec::new(NODE).without_provider_id();
        let started = self.plane.start_container_node(&node, &self.images);
        let manifests = started.await?;
        // As kubeadm does it: a kubelet may not set this label itself.
        let role = "node-role.kubernetes.io/control-plane=";
        self.kubectl(&["label", "node", NODE, role]).await?;

        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {"containers": [{
                "name": "app",
                "image": PAUSE,
                "args": [":8080"],
                "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
            }]},
        });
        self.apply(&pod).await?;
        self.apply(&dns::coredns(NAMESPACE)).await?;
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        eventually(PATIENCE, async || {
            let pod = pods.get("app").await?;
            let reason = condition(&pod, "PodScheduled").and_then(|(_, reason)| reason);
            Ok(Seen::when(
                reason.as_deref() == Some("Unschedulable"),
                "the Pod does not wait for the taint",
            ))
        })
        .await?;
        Ok(manifests)
    }

    /// Waits until Skydock is ready, the node is initialized, and the ordinary Pod, CoreDNS and a Pod
    /// that uses it are ready.
    async fn begins(&self, what: &str) -> Result<()> {
        let began = Instant::now();
        let nodes: Api<Node> = Api::all(self.client.clone());
        let initialized = eventually(PATIENCE, async || {
            let spec = nodes.get(NODE).await?.spec.unwrap_or_default();
            let taints = spec.taints.unwrap_or_default();
            Ok(Seen::when(
                taints.iter().all(|taint| taint.key != UNINITIALIZED)
                    && spec.provider_id.as_deref() == Some("static://control-1"),
                "the node is not initialized",
            ))
        });
        initialized.await.context(what.to_owned())?;
        let took = began.elapsed();

        let own: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let ready = eventually(PATIENCE, async || {
            let pods = own.list(&ListParams::default().labels(SELECTOR)).await?;
            let ready = pods.items.iter().filter(|pod| is_ready(pod)).count();
            Ok(Seen::when(ready == 1, "Skydock's Pod is not ready"))
        });
        ready.await.context(what.to_owned())?;
        // A row of tests/bench/README.md.
        let took_to_start = began.elapsed();
        println!("| cold start in a Pod: {what} | {took_to_start:.1?} |");

        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let runs = eventually(PATIENCE, async || {
            let pod = pods.get("app").await?;
            Ok(Seen::when(is_ready(&pod), "the ordinary Pod is not ready"))
        });
        runs.await.context(what.to_owned())?;
        self.resolves().await.context(what.to_owned())?;
        println!(
            "{what}: the node was initialized after {took:.1?}, all was ready after {:.1?}",
            began.elapsed()
        );
        Ok(())
    }

    /// Waits until CoreDNS is ready, and an ordinary Pod finds the API server by its name.
    async fn resolves(&self) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let server = eventually(PATIENCE, async || {
            let pod = pods.get(dns::COREDNS).await?;
            let address = pod.status.as_ref().and_then(|it| it.pod_ip.clone());
            Ok(match address {
                Some(address) if is_ready(&pod) => Seen::Yes(address),
                _ => Seen::NotYet("CoreDNS is not ready".to_owned()),
            })
        })
        .await?;

        self.apply(&dns::client(&server)).await?;
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        eventually(PATIENCE, async || {
            let pod = pods.get(dns::CLIENT).await?;
            let instead = "an ordinary Pod does not find kubernetes.default.svc";
            Ok(Seen::when(is_ready(&pod), instead))
        })
        .await
    }

    /// Waits until Skydock has ended, which releases its Lease, and removes the node.
    async fn ends(&self) -> Result<()> {
        let own: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        eventually(PATIENCE, async || {
            let pods = own.list(&ListParams::default().labels(SELECTOR)).await?;
            Ok(Seen::when(pods.items.is_empty(), "Skydock still runs"))
        })
        .await?;
        let holder = self
            .kubectl(&[
                "get",
                "lease",
                "cloud-controller-manager",
                "-o",
                "jsonpath={.spec.holderIdentity}",
            ])
            .await?;
        ensure!(holder.is_empty(), "the Lease is still held by {holder}");

        self.plane.stop_node(NODE).await?;
        let now = ["--force", "--grace-period=0"];
        for (pod, namespace) in [
            ("app", "default"),
            (dns::CLIENT, "default"),
            (dns::COREDNS, NAMESPACE),
        ] {
            self.kubectl(&[&["delete", "pod", pod, "-n", namespace][..], &now].concat())
                .await?;
        }
        self.kubectl(&["delete", "node", NODE]).await?;
        Ok(())
    }

    /// Returns the manifest of the static Pod, and writes the files that it needs on the node. They
    /// are in a folder of this test, instead of `/etc/kubernetes` of this machine.
    async fn static_pod(&self) -> Result<String> {
        let folder = self.dir.join("on-the-node");
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let inventory = checkout().join("deploy/example/cloud.yaml");
        write(&folder.join("cloud.yaml"), &fs::read(inventory)?)?;
        let authority = self.plane.folder().join("ca.crt");
        write(&folder.join("ca.crt"), &fs::read(authority)?)?;

        let token = self.kubectl(&["create", "token", "skydock"]).await?;
        let admin = fs::read_to_string(self.plane.kubeconfig_path())?;
        let server = admin.lines().find(|line| line.contains("server: "));
        let server = server.context("no server")?.trim();
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: c, cluster: {{certificate-authority: ca.crt, {server}}}}}], \
             users: [{{name: c, user: {{token: {token}}}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}",
            token = token.trim()
        );
        write(&folder.join("kubeconfig"), kubeconfig.as_bytes())?;

        let workload = ["--show-only", "templates/workload.yaml"];
        let manifest = self.rendered("StaticPod", &workload)?;
        let usual = "path: /etc/kubernetes/skydock\n";
        ensure!(manifest.matches(usual).count() == 1, "{manifest}");
        Ok(manifest.replace(usual, &format!("path: {}\n", folder.display())))
    }

    /// Creates objects, or what is missing of them.
    async fn apply(&self, objects: &Value) -> Result<()> {
        let file = self.dir.join("objects.json");
        fs::write(&file, objects.to_string())?;
        let file = file.display().to_string();
        self.kubectl(&["apply", "--validate=strict", "-f", &file])
            .await?;
        Ok(())
    }

    /// Runs kubectl in Skydock's namespace.
    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let in_namespace = ["--namespace", NAMESPACE];
        let is_named = arguments.contains(&"-n") || arguments.contains(&"-f");
        let namespace: &[&str] = if is_named { &[] } else { &in_namespace };
        Ok(self.plane.kubectl(&[arguments, namespace].concat()).await?)
    }

    /// Returns what a person would look at after a failure.
    async fn state(&self) -> String {
        let mut state = String::new();
        for arguments in [
            &["get", "nodes,pods", "-A", "-o", "wide"][..],
            &["describe", "pods", "-A"],
            &["get", "events", "-A"],
        ] {
            let said = self.plane.kubectl(arguments).await;
            state += &said.unwrap_or_else(|error| error.to_string());
        }
        state
    }
}

/// Returns the status and the reason of a condition.
fn condition(pod: &Pod, kind: &str) -> Option<(String, Option<String>)> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()))
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|(status, _)| status == "True")
}

/// Writes a file that every user may read.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    Ok(())
}
