//! The sidecars of `deploy/`: the same releases, with the same arguments.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use skydock_clusters::go_tool;
use skydock_support::{Process, checkout};

/// The folder with a Go module for each project.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sidecars");

/// What containers have in front of the path of the socket.
const ADDRESS: &str = "--csi-address=";

/// The sidecars: name, component of `deploy/`, folder of the module, and package.
const ALL: [(&str, &str, &str, &str); 4] = [
    (
        "csi-provisioner",
        "csi",
        "provisioner",
        "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
    ),
    (
        "csi-attacher",
        "csi",
        "attacher",
        "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
    ),
    (
        "csi-resizer",
        "csi",
        "resizer",
        "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
    ),
    (
        "csi-snapshotter",
        "csi-snapshots",
        "snapshotter",
        "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
    ),
];

/// A sidecar that has been built.
pub(crate) struct Sidecar {
    /// The name of its container, and of its account in the tests.
    pub(crate) name: &'static str,
    binary: PathBuf,
    /// The arguments of its container.
    arguments: Vec<String>,
}

impl Sidecar {
    /// Returns all sidecars. They are built if they are not in the cache.
    pub(crate) async fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for (name, component, folder, package) in ALL {
            let module = Path::new(MODULES).join(folder);
            let container = container(component, name)?;
            is_same_release(&module, package, &container)?;
            let arguments = container["args"].as_array().cloned().unwrap_or_default();
            let arguments = arguments.iter().filter_map(Value::as_str);
            all.push(Self {
                name,
                binary: go_tool(&module, package, name).await?,
                arguments: arguments.map(str::to_owned).collect(),
            });
        }
        Ok(all)
    }

    /// Starts it for a socket, with its log in `NAME.log` in the folder.
    pub(crate) fn start(&self, socket: &Path, kubeconfig: &Path, dir: &Path) -> Result<Process> {
        let mut command = Command::new(&self.binary);
        for argument in &self.arguments {
            if argument.starts_with(ADDRESS) {
                command.arg(format!("{ADDRESS}{}", socket.display()));
            } else {
                command.arg(argument);
            }
        }
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--v=4")
            // It would have precedence.
            .env_remove("KUBECONFIG");
        let log = dir.join(format!("{}.log", self.name));
        Process::start(self.name, command, &log).with_context(|| format!("start {}", self.name))
    }
}

/// Returns the container with this name that a component adds.
fn container(component: &str, name: &str) -> Result<Value> {
    let mut values = values(component)?.into_iter();
    let found = values.find(|it| it["name"] == name && it["image"].is_string());
    found.with_context(|| format!("the component {component} has no container {name}"))
}

/// Returns the arguments that a component adds to those of Skydock.
pub(crate) fn arguments(component: &str) -> Result<Vec<String>> {
    let values = values(component)?.into_iter();
    let arguments = values.filter_map(|it| it.as_str().map(str::to_owned));
    Ok(arguments.collect())
}

/// Returns what a component adds to the Deployment.
fn values(component: &str) -> Result<Vec<Value>> {
    let file = checkout().join(format!("deploy/components/{component}/kustomization.yaml"));
    let kustomization: Value = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
    let patches = kustomization["patches"].as_array().cloned();

    let mut values = Vec::new();
    for patch in patches.unwrap_or_default() {
        let operations: Value =
            serde_saphyr::from_str(patch["patch"].as_str().unwrap_or_default())?;
        let operations = operations.as_array().into_iter().flatten();
        values.extend(operations.map(|it| it["value"].clone()));
    }
    Ok(values)
}

/// Checks that the image of a container is the release that the Go module requires.
fn is_same_release(module: &Path, package: &str, container: &Value) -> Result<()> {
    let image = container["image"].as_str().unwrap_or_default();
    let (_, version) = image.rsplit_once(':').context("an image without tag")?;
    let (project, _) = package.split_once("/cmd/").context("not a program")?;
    let go_mod = fs::read_to_string(module.join("go.mod"))?;
    ensure!(
        go_mod.contains(&format!("{project} {version} ")),
        "deploy/ has {image}, which {} does not require",
        module.display()
    );
    Ok(())
}

/// Returns the end of a log, and its last errors and warnings, for an error message.
pub(crate) fn tail(process: &Process) -> String {
    let log = fs::read_to_string(process.log()).unwrap_or_default();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with(['E', 'W', 'F']))
        .collect();
    let last = lines.iter().skip(lines.len().saturating_sub(15));
    let last: Vec<&str> = last.copied().collect();
    format!(
        "{}\nits last errors and warnings:\n{}",
        process.last_words(),
        last.join("\n")
    )
}
