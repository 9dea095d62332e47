//! What keeps a cloud-controller-manager from running on a real node, made on purpose: the doctor
//! finds it by the right check, and after what it says was done, the node is initialized.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use skydock_clusters::{PAUSE, Plane as _, control_plane_binary};
use skydock_story::image::IMAGE;
use skydock_support::{Seen, eventually, kubernetes::UNINITIALIZED};
use tokio::process::Command;

use crate::cluster::{ACCOUNT, CONTAINER, Cluster, INVENTORY, NAMESPACE, NODE, PATIENCE, is_ready};

const SKYDOCK: &str = "skydock";
/// Another cloud-controller-manager, and its Lease.
const OTHER: &str = "metal-ccm";
const OTHER_LEASE: &str = "metal-cloud-controller-manager";
/// What the doctor calls them.
const DEPLOYMENT: &str = "Deployment kube-system/skydock";
const LEASES: &str =
    "Lease kube-system/cloud-controller-manager, Lease kube-system/metal-cloud-controller-manager";

/// Something that keeps Skydock from its work.
struct Trap {
    name: &'static str,
    /// What runs, in this order. Each but the last one is ready before the next one is created.
    deployments: Vec<Value>,
    /// Whether nodes have no Pod network.
    without_network: bool,
    /// The check that finds it, the object in its findings, and how bad they are.
    check: &'static str,
    object: &'static str,
    severity: &'static str,
    /// The words of a fix that is no command, which name the workload and its namespace, and a command
    /// that does what they say.
    in_words: Option<(&'static str, &'static str)>,
}

impl Trap {
    fn new(name: &'static str, check: &'static str, deployments: Vec<Value>) -> Self {
        Self {
            name,
            deployments,
            without_network: false,
            check,
            object: DEPLOYMENT,
            severity: "problem",
            in_words: None,
        }
    }

    /// Returns whether this is a finding about it.
    fn is(&self, finding: &Value) -> bool {
        finding["check"] == self.check
            && finding["object"] == self.object
            && finding["severity"] == self.severity
    }
}

/// Runs into all traps, one after the other. Returns what was not as it should be.
pub(crate) async fn run(cluster: &Cluster) -> Result<Vec<String>> {
    let inventory = cluster.file("cloud/cloud.yaml", INVENTORY.as_bytes())?;
    let inventory = inventory.display().to_string();
    cluster.grant().await?;
    cluster.grant_lease(NAMESPACE, OTHER_LEASE).await?;
    let site = Site {
        cluster,
        control_plane: control_plane_binary().await?.display().to_string(),
    };

    let mut failures = Vec::new();
    for trap in traps(&inventory) {
        match Box::pin(site.spring(&trap)).await {
            Ok(()) => println!("{}: found by {}, and fixed", trap.name, trap.check),
            Err(error) => {
                let failure = format!("{}: {error:#}", trap.name);
                let state = cluster.state(SKYDOCK).await;
                println!("{failure}\n{state}");
                failures.push(failure);
            }
        }
        site.clear(&trap).await?;
    }
    Ok(failures)
}

fn traps(inventory: &str) -> Vec<Trap> {
    let skydock = || deployment(SKYDOCK, inventory, 10258, &[]);
    let changed = |path: &str, value: Value| {
        let mut deployment = skydock();
        let field = deployment.pointer_mut(&format!("/spec/template/spec/{path}"));
        *field.expect("a field") = value;
        deployment
    };
    let mut by_http = skydock();
    for probe in ["livenessProbe", "readinessProbe"] {
        let container = &mut by_http["spec"]["template"]["spec"]["containers"][0];
        let get = container[probe]["httpGet"].as_object_mut();
        get.expect("a request").remove("scheme");
    }
    let second = deployment(
        OTHER,
        inventory,
        10268,
        &[
            "--secure-port=10268",
            "--leader-elect-resource-name=metal-cloud-controller-manager",
        ],
    );

    vec![
        Trap::new(
            "a missing toleration",
            "D2",
            vec![changed(
                "tolerations",
                json!([
                    {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
                    {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
                ]),
            )],
        ),
        Trap {
            without_network: true,
            ..Trap::new(
                "the Pod network, without a network",
                "D4",
                vec![changed("hostNetwork", json!(false))],
            )
        },
        Trap::new(
            "the former label of control planes",
            "D5",
            vec![changed(
                "nodeSelector",
                json!({"node-role.kubernetes.io/master": ""}),
            )],
        ),
        Trap::new(
            "a label that no node has",
            "D5",
            vec![changed("nodeSelector", json!({"example.com/role": "edge"}))],
        ),
        Trap {
            in_words: Some((
                "stop Deployment kube-system/metal-ccm",
                "kubectl --namespace kube-system scale deployment metal-ccm --replicas=0",
            )),
            ..Trap::new("a port in use", "D6", vec![holder_of_the_port(), skydock()])
        },
        Trap {
            object: LEASES,
            severity: "warning",
            in_words: Some((
                "stop one of them: Deployment kube-system/metal-ccm, Deployment kube-system/skydock",
                "kubectl --namespace kube-system scale deployment metal-ccm --replicas=0",
            )),
            ..Trap::new(
                "a second one with another Lease",
                "D10",
                vec![skydock(), second],
            )
        },
        Trap::new("probes by HTTP", "D15", vec![by_http]),
    ]
}

/// Returns a Deployment of Skydock without a trap.
fn deployment(name: &str, inventory: &str, port: u16, flags: &[&str]) -> Value {
    let mut args = vec![
        "--cloud-provider=static",
        "--cloud-config=/etc/cloud/cloud.yaml",
    ];
    args.extend(flags);
    let probe = |path: &str, period: u16| json!({"httpGet": {"scheme": "HTTPS", "port": port, "path": path}, "periodSeconds": period});
    workload(
        name,
        &json!({
            "serviceAccountName": ACCOUNT,
            "hostNetwork": true,
            "dnsPolicy": "Default",
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "tolerations": [
                {"key": UNINITIALIZED, "operator": "Exists"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
                {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
            ],
            "containers": [{
                "name": CONTAINER,
                "image": IMAGE,
                "args": args,
                "livenessProbe": probe("/healthz", 10),
                "readinessProbe": probe("/readyz", 1),
                "volumeMounts": [{"name": "cloud", "mountPath": "/etc/cloud/cloud.yaml", "readOnly": true}],
            }],
            "volumes": [{"name": "cloud", "hostPath": {"path": inventory}}],
        }),
    )
}

/// Returns a Deployment that is named like a cloud-controller-manager, and uses Skydock's port.
fn holder_of_the_port() -> Value {
    workload(
        OTHER,
        &json!({
            "hostNetwork": true,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": CONTAINER,
                "image": PAUSE,
                "args": [":10258"],
                "ports": [{"containerPort": 10258}],
                "readinessProbe": {"httpGet": {"port": 10258}, "periodSeconds": 1},
            }],
        }),
    )
}

fn workload(name: &str, pod: &Value) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            // An old Pod holds the port of a new one.
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

struct Site<'a> {
    cluster: &'a Cluster,
    /// The binary with kubectl.
    control_plane: String,
}

impl Site<'_> {
    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.cluster.client.clone(), NAMESPACE)
    }

    /// Runs into a trap, and gets out of it.
    async fn spring(&self, trap: &Trap) -> Result<()> {
        // The node waits, as a new one does.
        let taint = format!("{UNINITIALIZED}=true:NoSchedule");
        let taint = ["taint", "node", NODE, taint.as_str(), "--overwrite"];
        self.cluster.plane.kubectl(&taint).await?;
        if trap.without_network {
            fs::rename(self.network(), self.network().with_extension("off"))?;
        }
        for (at, deployment) in trap.deployments.iter().enumerate() {
            if at > 0 {
                let before = &trap.deployments[at - 1]["metadata"]["name"];
                self.is_ready(before.as_str().context("no name")?).await?;
            }
            let deployment: Deployment = serde_json::from_value(deployment.clone())?;
            let deployments = self.deployments();
            deployments
                .create(&PostParams::default(), &deployment)
                .await?;
        }

        let fixes = eventually(PATIENCE, async || {
            let all = self.findings().await?;
            let found: Vec<_> = all.iter().filter(|it| trap.is(it)).cloned().collect();
            Ok(match commands(trap, &found) {
                Ok(fixes) => Seen::Yes(fixes),
                Err(error) => Seen::NotYet(format!("{error}; findings: {}", Value::from(all))),
            })
        });
        let fixes = fixes.await.context("the doctor does not find it")?;
        for command in fixes {
            println!("{}: {command}", trap.name);
            self.execute(&command).await?;
        }

        self.is_ready(SKYDOCK).await.context("after the fix")?;
        self.is_initialized().await.context("after the fix")?;
        eventually(PATIENCE, async || {
            let all = self.findings().await?;
            let is_found = all.iter().any(|it| trap.is(it));
            Ok(Seen::when(
                !is_found,
                format!("findings: {}", Value::from(all)),
            ))
        })
        .await
        .context("the doctor finds it after the fix")
    }

    /// Removes everything of a trap.
    async fn clear(&self, trap: &Trap) -> Result<()> {
        if trap.without_network && !self.network().exists() {
            // The runtime follows files that are written, not those that get another name.
            let off = self.network().with_extension("off");
            fs::write(self.network(), fs::read(&off)?)?;
            fs::remove_file(off)?;
        }
        for name in [SKYDOCK, OTHER] {
            let deployments = self.deployments();
            if deployments.get_opt(name).await?.is_some() {
                deployments.delete(name, &DeleteParams::default()).await?;
            }
            eventually(PATIENCE, async || {
                let left = self.cluster.pods_of(name).await?;
                Ok(Seen::when(left.is_empty(), "its Pods have not ended"))
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the configuration of the Pod network.
    fn network(&self) -> PathBuf {
        self.cluster.node_folder().join("cni/pods.conflist")
    }

    /// Waits until a Pod of this Deployment is ready.
    async fn is_ready(&self, name: &str) -> Result<()> {
        eventually(PATIENCE, async || {
            let pods = self.cluster.pods_of(name).await?;
            let instead = format!("no Pod of {name} is ready");
            Ok(Seen::when(pods.iter().any(is_ready), instead))
        })
        .await
    }

    async fn is_initialized(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.cluster.client.clone());
        eventually(PATIENCE, async || {
            let spec = nodes.get(NODE).await?.spec.unwrap_or_default();
            let taints = spec.taints.unwrap_or_default();
            let waits = taints.iter().any(|taint| taint.key == UNINITIALIZED);
            Ok(Seen::when(!waits, "the node is not initialized"))
        })
        .await
    }

    /// Returns what the doctor finds.
    async fn findings(&self) -> Result<Vec<Value>> {
        let output = Command::new(&self.cluster.paths.skydock)
            .arg("doctor")
            .arg("--kubeconfig")
            .arg(self.cluster.plane.kubeconfig_path())
            .args(["-o", "json"])
            .output()
            .await?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let findings = report["findings"].as_array();
        Ok(findings.context("a report without findings")?.clone())
    }

    /// Runs a command of kubectl as a person would, in a shell.
    async fn execute(&self, command: &str) -> Result<()> {
        let kubeconfig = self.cluster.plane.kubeconfig_path().display();
        let program = &self.control_plane;
        let script = format!(
            "kubectl() {{ '{program}' kubectl --kubeconfig='{kubeconfig}' \"$@\"; }}\n{command}"
        );
        let output = Command::new("sh")
            .args(["-c", script.as_str()])
            .env("KUBECACHEDIR", self.cluster.folder().join("kubectl-cache"))
            .output()
            .await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command}: {errors}");
        Ok(())
    }
}

/// Returns the commands that fix what was found.
fn commands(trap: &Trap, findings: &[Value]) -> Result<Vec<String>> {
    let fixes = findings
        .iter()
        .flat_map(|finding| finding["fix"].as_array().into_iter().flatten());
    let fixes: Vec<_> = fixes.collect();
    if let Some((words, command)) = trap.in_words {
        let mut texts = fixes.iter().filter_map(|fix| fix["text"].as_str());
        ensure!(texts.any(|text| text.contains(words)), "fixes: {fixes:?}");
        return Ok(vec![command.to_owned()]);
    }
    let commands = fixes.iter().filter_map(|fix| fix["command"].as_str());
    let commands: Vec<_> = commands.map(str::to_owned).collect();
    if commands.is_empty() {
        bail!("no command fixes it: {fixes:?}");
    }
    Ok(commands)
}
