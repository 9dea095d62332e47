//! The first minutes of a cluster: a control plane and one real node, which is tainted until a
//! cloud-controller-manager has initialized it. Skydock is deployed as by a user, runs in a
//! container from its own image on that node, and initializes it; then other Pods run.
//!
//! Needs root. Where that is missing, `SKYDOCK_NO_CONTAINERS=1` skips it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "helpers of tests, which clippy does not know for such"
)]

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
use skydock_image::Layer;
use skydock_story::image::{self, IMAGE};
use skydock_support::{Seen, checkout, copy_folder, eventually, kubernetes::UNINITIALIZED};

const NAMESPACE: &str = "kube-system";
/// A machine in the inventory of the example.
const NODE: &str = "control-1";
const SELECTOR: &str = "app.kubernetes.io/name=skydock";
/// A timeout for each step. The plugin is compiled on the node.
const PATIENCE: Duration = Duration::from_secs(120);
/// If set, this test is skipped on machines that cannot run containers.
const SKIP: &str = "SKYDOCK_NO_CONTAINERS";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_begins_with_skydock_on_a_tainted_node() {
    let plane = RealPlane::start().await.expect("the plane starts");
    let dir = tempfile::Builder::new()
        .prefix("skydock-node-")
        .tempdir()
        .expect("a folder");
    let cluster = Cluster::prepare(&plane, dir.path()).expect("an image");
    match cluster.whole().await {
        Ok(()) => {}
        Err(error) if is_unsuitable(&error) && std::env::var_os(SKIP).is_some() => {
            eprintln!("skipped: {error}");
        }
        Err(error) => {
            let state = cluster.state().await;
            panic!(
                "{error:?}\n{state}\nthe logs are in {}",
                plane.folder().display()
            );
        }
    }
}

fn is_unsuitable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::NoContainers { .. }))
}

struct Cluster<'a> {
    plane: &'a RealPlane,
    client: Client,
    dir: &'a Path,
    image: PathBuf,
}

impl<'a> Cluster<'a> {
    /// Writes Skydock's image.
    fn prepare(plane: &'a RealPlane, dir: &'a Path) -> Result<Self> {
        let image = image::of_checkout()?;
        let archive = dir.join("skydock.tar");
        skydock_image::write(IMAGE, &[image], Layer::Plain, &archive)?;
        copy_folder(&checkout().join("deploy"), &dir.join("deploy"))?;
        Ok(Self {
            plane,
            client: plane.client(),
            dir,
            image: archive,
        })
    }

    async fn whole(&self) -> Result<()> {
        let example = self.dir.join("deploy/example").display().to_string();

        self.node().await?;
        self.kubectl(&["apply", "--validate=strict", "-k", &example])
            .await?;
        self.begins("the Deployment").await?;
        let deployment = self.kubectl(&["get", "deployment", "skydock", "-o", "json"]);
        let deployment: Value = serde_json::from_str(&deployment.await?)?;
        self.kubectl(&["delete", "deployment", "skydock"]).await?;
        self.ends().await?;

        self.node().await?;
        let daemon_set = self.dir.join("daemon-set.json");
        fs::write(&daemon_set, as_daemon_set(&deployment).to_string())?;
        let daemon_set = daemon_set.display().to_string();
        self.kubectl(&["apply", "--validate=strict", "-f", &daemon_set])
            .await?;
        self.begins("the DaemonSet").await?;
        self.kubectl(&["delete", "daemonset", "skydock"]).await?;
        self.ends().await?;

        let manifests = self.node().await?;
        let static_pod = self.as_static_pod(&deployment).await?;
        // The kubelet ignores the name until the file is complete.
        fs::write(manifests.join(".skydock.json"), static_pod.to_string())?;
        fs::rename(
            manifests.join(".skydock.json"),
            manifests.join("skydock.json"),
        )?;
        self.begins("the static Pod").await?;
        fs::remove_file(manifests.join("skydock.json"))?;
        self.ends().await
    }

    /// Starts the node, and creates an ordinary Pod, which must wait. Returns the folder for static
    /// Pods.
    async fn node(&self) -> Result<PathBuf> {
        let node = NodeSpec::new(NODE).without_provider_id();
        let images = [self.image.clone()];
        let manifests = self.plane.start_container_node(&node, &images).await?;
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
        let file = self.dir.join("app.json");
        fs::write(&file, pod.to_string())?;
        self.kubectl(&["create", "-f", &file.display().to_string()])
            .await?;
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

    /// Waits until Skydock is ready, the node is initialized and the ordinary Pod is ready.
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
        println!(
            "{what}: the node was initialized after {took:.1?}, all was ready after {:.1?}",
            began.elapsed()
        );
        Ok(())
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
        self.kubectl(&[&["delete", "pod", "app", "-n", "default"][..], &now].concat())
            .await?;
        self.kubectl(&["delete", "node", NODE]).await?;
        Ok(())
    }

    /// Returns the Pod of the Deployment as a static Pod, which has neither an account nor Secrets:
    /// they become files on the node.
    async fn as_static_pod(&self, deployment: &Value) -> Result<Value> {
        let mut spec = deployment["spec"]["template"]["spec"].clone();
        for field in ["serviceAccountName", "serviceAccount"] {
            spec.as_object_mut().unwrap().remove(field);
        }
        for volume in spec["volumes"].as_array_mut().unwrap() {
            let Some(name) = volume["secret"]["secretName"].as_str() else {
                continue;
            };
            let name = name.to_owned();
            let folder = self.folder(&name)?;
            for (file, content) in self.secret(&name).await? {
                write(&folder.join(file), &content)?;
            }
            *volume = json!({"name": volume["name"], "hostPath": {"path": folder}});
        }

        let folder = self.folder("kubeconfig")?;
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
        write(&folder.join("skydock.conf"), kubeconfig.as_bytes())?;
        write(
            &folder.join("ca.crt"),
            &fs::read(self.plane.folder().join("ca.crt"))?,
        )?;
        let add = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
        add(
            &mut spec["volumes"],
            json!({"name": "kubeconfig", "hostPath": {"path": folder}}),
        );
        let container = &mut spec["containers"][0];
        add(
            &mut container["volumeMounts"],
            json!({"name": "kubeconfig", "mountPath": "/etc/kubernetes", "readOnly": true}),
        );
        add(
            &mut container["args"],
            "--kubeconfig=/etc/kubernetes/skydock.conf".into(),
        );
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "skydock", "namespace": NAMESPACE, "labels": labels},
            "spec": spec,
        }))
    }

    /// Creates a folder that every user on the node may read.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.dir.join("on-the-node").join(name);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        Ok(folder)
    }

    async fn secret(&self, name: &str) -> Result<Vec<(String, Vec<u8>)>> {
        let secrets =
            Api::<k8s_openapi::api::core::v1::Secret>::namespaced(self.client.clone(), NAMESPACE);
        let data = secrets.get(name).await?.data.unwrap_or_default();
        Ok(data
            .into_iter()
            .map(|(key, value)| (key, value.0))
            .collect())
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

fn as_daemon_set(deployment: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "skydock", "namespace": NAMESPACE},
        "spec": {
            "selector": deployment["spec"]["selector"],
            "template": deployment["spec"]["template"],
        },
    })
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
