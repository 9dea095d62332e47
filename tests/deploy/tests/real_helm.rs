//! The Helm chart in a real cluster: its package is installed, upgraded to that of another version,
//! and rolled back, and what it renders is accepted. Nothing runs, because there are no nodes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use skydock_clusters::{Error, Plane, RealPlane};
use skydock_deploy::{NAMESPACE, Program, objects};
use skydock_support::{checkout, copy_folder};
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of an upgrade.
const NEXT: &str = "1000.0.0";

struct Cluster {
    plane: RealPlane,
    helm: Program,
    dir: TempDir,
}

impl Cluster {
    async fn start() -> Self {
        Self {
            plane: RealPlane::start().await.expect("the plane starts"),
            helm: Program::helm().await.unwrap(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs Helm in the folder of this test, as the admin of the cluster.
    fn helm(&self, arguments: &[&str]) -> String {
        let kubeconfig = format!("--kubeconfig={}", self.plane.kubeconfig_path().display());
        let cluster = ["--namespace", NAMESPACE, &kubeconfig];
        self.helm
            .run(self.dir.path(), &[arguments, &cluster].concat())
            .unwrap()
    }

    /// Writes the package of the next version, in which the image has another tag.
    fn package_next(&self) {
        // The copy has no links.
        let chart = self.dir.path().join("chart");
        copy_folder(&checkout().join("deploy/chart"), &chart).unwrap();
        let base = chart.join("base/kustomization.yaml");
        let text = fs::read_to_string(&base).unwrap();
        let [tag, next] = [VERSION, NEXT].map(|version| format!("newTag: {version}\n"));
        assert!(text.contains(&tag), "{text}");
        fs::write(&base, text.replace(&tag, &next)).unwrap();
        let version = ["--version", NEXT, "--app-version", NEXT];
        self.helm(&[&["package", "chart"][..], &version].concat());
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<String, Error> {
        let namespace = ["--namespace", NAMESPACE];
        self.plane.kubectl(&[arguments, &namespace].concat()).await
    }

    /// Applies these objects in a dry run, or compares them with those of the cluster.
    async fn with_objects(&self, command: &[&str], objects: &[Value]) -> Result<String, Error> {
        let file = self.dir.path().join("objects.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(&file, list.to_string()).unwrap();
        let file = file.display().to_string();
        let server = ["--server-side", "--force-conflicts", "-f", &file];
        self.plane.kubectl(&[command, &server].concat()).await
    }

    /// Returns true if an object of the release has other fields in the cluster, or is missing.
    async fn has_drift(&self) -> bool {
        let manifest = objects(&self.helm(&["get", "manifest", "skydock"])).unwrap();
        assert!(manifest.len() >= 10, "{manifest:?}");
        match self.with_objects(&["diff"], &manifest).await {
            Ok(_) => false,
            Err(Error::Command { status, .. }) if status.code() == Some(1) => true,
            Err(error) => panic!("{error}"),
        }
    }

    async fn deployment(&self) -> Value {
        let command = ["get", "deployment", "skydock", "-o", "json"];
        serde_json::from_str(&self.kubectl(&command).await.unwrap()).unwrap()
    }

    async fn container(&self) -> Value {
        self.deployment().await["spec"]["template"]["spec"]["containers"][0].take()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_upgraded_and_rolled_back() {
    let cluster = Cluster::start().await;
    let deploy = checkout().join("deploy");
    let chart = deploy.join("chart").display().to_string();
    cluster.helm(&["package", &chart]);
    cluster.package_next();
    let [package, next] = [VERSION, NEXT].map(|version| format!("skydock-{version}.tgz"));
    let values = deploy.join("example/values.yaml").display().to_string();
    let inventory = deploy.join("example/cloud.yaml").display().to_string();
    let inventory = format!("cloudConfig.cloud\\.yaml={inventory}");
    let given = ["--values", &values, "--set-file", &inventory];

    cluster.helm(&[&["install", "skydock", &package][..], &given].concat());
    let installed = cluster.container().await;
    assert!(!cluster.has_drift().await);

    let changed = ["--set=flags.v=4"];
    cluster.helm(&[&["upgrade", "skydock", &next][..], &given, &changed].concat());
    let upgraded = cluster.container().await;
    let mut expected = installed["args"].clone();
    expected.as_array_mut().unwrap().push("--v=4".into());
    assert_eq!(upgraded["args"], expected);
    let image = upgraded["image"].as_str().unwrap();
    assert!(image.contains(&format!("/skydock:{NEXT}")), "{image}");
    assert!(!cluster.has_drift().await);

    cluster.helm(&["rollback", "skydock", "1"]);
    assert_eq!(cluster.container().await, installed);
    assert!(!cluster.has_drift().await);

    let scale = ["scale", "deployment", "skydock", "--replicas=5"];
    cluster.kubectl(&scale).await.unwrap();
    assert!(cluster.has_drift().await);
    cluster.helm(&["rollback", "skydock", "1", "--force-conflicts"]);
    assert_eq!(cluster.deployment().await["spec"]["replicas"], 2);
    assert!(!cluster.has_drift().await);

    cluster.helm(&["uninstall", "skydock"]);
    let kinds = "all,secrets,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets";
    let selector = "--selector=app.kubernetes.io/name=skydock";
    let get = ["get", kinds, selector, "-o", "name"];
    assert_eq!(cluster.kubectl(&get).await.unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_accepted() {
    let cluster = Cluster::start().await;
    // Pods without an account are not admitted without it.
    let account = ["wait", "--for=create", "serviceaccount/default"];
    cluster.kubectl(&account).await.unwrap();
    for name in ["deployment", "daemon-set", "static-pod"] {
        let file = format!("snapshots/{name}.yaml");
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let mut rendered = objects(&text).unwrap();
        // Of the Prometheus operator, which is not installed.
        rendered.retain(|object| object["apiVersion"] != "monitoring.coreos.com/v1");
        let command = ["apply", "--dry-run=server", "--validate=strict"];
        cluster.with_objects(&command, &rendered).await.expect(name);
    }
}
