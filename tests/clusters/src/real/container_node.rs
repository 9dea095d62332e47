//! Nodes whose kubelet runs Pods in containers, with containerd and runc.
//!
//! `control-plane/node_linux.go` keeps them apart from this machine: each has its own processes,
//! mounts, network and control groups, and sees its own kernel settings.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use skydock_image::{Image, Layer};

use super::binary::{debian_tools, go_binary};
use super::konnectivity::Tunnel;
use crate::{Error, NodeSpec};

/// The address of every such node. Nodes do not reach each other. The range is reserved for
/// benchmarks (RFC 2544), so it is not in use.
const ADDRESS: &str = "198.18.0.1";
/// The addresses of Pods.
const POD_CIDR: &str = "10.244.0.0/24";
/// The first cluster IP, that of the Service `kubernetes`. There is no kube-proxy.
const KUBERNETES: &str = "10.96.0.1";
/// The name of an image that is on every node with containers. Its program waits until it is told to
/// end, and with an address such as `:8080` as its argument also serves HTTP there, with errors while
/// it cannot connect to the addresses in further arguments.
pub const PAUSE: &str = "registry.example.com/pause:1";

/// Debian's packages with containerd, runc and plugins for the network of Pods.
const PACKAGES: [&str; 3] = ["containerd", "runc", "containernetworking-plugins"];
/// A dependency that is not required: for plugins that are not used.
const UNNEEDED: [&str; 1] = ["iptables"];
/// Changes whenever the way of unpacking changes.
const REVISION: &str = "containerd-1";

/// Fails if this machine cannot run such nodes.
pub(super) fn is_possible() -> Result<(), Error> {
    let unsuitable = |reason: &str| {
        Err(Error::NoContainers {
            reason: reason.to_owned(),
        })
    };
    if !cfg!(target_os = "linux") {
        return unsuitable("it does not run Linux");
    }
    if !rustix::process::geteuid().is_root() {
        return unsuitable("these tests do not run as root");
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if !mounts.contains(" - cgroup") {
        return unsuitable("it has no control groups");
    }
    Ok(())
}

async fn pause() -> Result<Image, Error> {
    let module = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/pause"));
    let binary = go_binary(module, "pause").await?;
    let program = fs::read(&binary).map_err(Error::io("read", &binary))?;
    Image::of_program("/pause", program).map_err(Error::setup("write an image"))
}

/// Writes all files of a node into a new folder, and returns the arguments of `control-plane node`.
/// With a tunnel, the node has the agent of that.
pub(super) async fn prepare(
    node: &NodeSpec,
    images: &[PathBuf],
    folder: &Path,
    kubeconfig: &Path,
    port: u16,
    tunnel: Option<&Tunnel>,
) -> Result<Vec<String>, Error> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::io("remove", folder))?;
    }
    let subfolder = |name: &str| folder.join(name);
    for name in [folder.to_owned(), subfolder("cni"), static_pods(folder)] {
        fs::create_dir_all(&name).map_err(Error::io("create", &name))?;
    }
    let archive = subfolder("pause.tar");
    skydock_image::write(PAUSE, &[pause().await?], Layer::Plain, &archive)
        .map_err(Error::setup("write an image"))?;
    let mut archives = vec![archive];
    archives.extend_from_slice(images);
    if let Some(tunnel) = tunnel {
        let archive = subfolder("konnectivity.tar");
        tunnel.prepare_agent(&archive, &static_pods(folder))?;
        archives.push(archive);
    }
    let tools = tokio::task::spawn_blocking(tools)
        .await
        .map_err(Error::setup("unpack containerd"))??;

    let write = |name: &str, text: &str| {
        let path = subfolder(name);
        fs::write(&path, text).map_err(Error::io("write", path))
    };
    write("config.toml", &containerd(folder, &tools))?;
    let authority = kubeconfig.with_file_name("ca.crt");
    write("kubelet.json", &kubelet(node, folder, &authority))?;
    write("cni/pods.conflist", &pod_network())?;
    // The names of this machine's network are not resolved in that of the node.
    write("resolv.conf", "")?;
    let own_kubeconfig = subfolder("kubeconfig");
    let kubeconfig = if node.requests_certificate {
        let admin = fs::read_to_string(kubeconfig).map_err(Error::io("read", kubeconfig))?;
        write("kubeconfig", &as_kubelet(&admin, &node.name))?;
        own_kubeconfig.as_path()
    } else {
        kubeconfig
    };

    let server = format!("127.0.0.1:{port}");
    let mut arguments = vec![
        format!("--name={}", node.name),
        format!("--folder={}", folder.display()),
        format!("--tools={}", tools.display()),
        format!("--address={ADDRESS}"),
        format!("--address={KUBERNETES}"),
        // As for programs on this machine, so that the same kubeconfig works.
        format!("--out={server}={server}"),
        format!("--out={KUBERNETES}:443={server}"),
    ];
    if let Some(tunnel) = tunnel {
        let address = tunnel.address();
        arguments.push(format!("--out={address}={address}"));
    }
    let ports = node.ports.iter();
    arguments.extend(ports.map(|(port, address)| format!("--in={address}=127.0.0.1:{port}")));
    let images = archives.iter();
    arguments.extend(images.map(|image| format!("--image={}", image.display())));
    let labels = node
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let labels: Vec<_> = labels.collect();
    arguments.extend([
        "--".to_owned(),
        format!("--config={}", subfolder("kubelet.json").display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", subfolder("kubelet").display()),
        format!("--cert-dir={}", subfolder("pki").display()),
        "--cloud-provider=external".to_owned(),
        format!("--node-ip={ADDRESS}"),
        format!("--node-labels={}", labels.join(",")),
    ]);
    Ok(arguments)
}

/// Returns the kubeconfig of a kubelet with its own user, which the admin impersonates.
fn as_kubelet(admin: &str, node: &str) -> String {
    let user = format!("  user:\n    as: system:node:{node}\n    as-groups: [system:nodes]\n");
    admin.replace("  user:\n", &user)
}

/// Returns the folder of a node in which its kubelet looks for static Pods.
pub(super) fn static_pods(folder: &Path) -> PathBuf {
    folder.join("manifests")
}

/// Returns the folder with containerd, runc and network plugins.
fn tools() -> Result<PathBuf, Error> {
    debian_tools(REVISION, &PACKAGES, &UNNEEDED)
}

/// Returns the configuration of containerd.
fn containerd(folder: &Path, tools: &Path) -> String {
    let (folder, tools) = (folder.display(), tools.display());
    format!(
        r#"version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{tools}/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    BinaryName = "{tools}/usr/sbin/runc"
    SystemdCgroup = false
"#
    )
}

/// Returns the configuration of the kubelet, in which the flags are not. It knows the API server by
/// a certificate of this authority.
fn kubelet(node: &NodeSpec, folder: &Path, authority: &Path) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "x509": {"clientCAFile": authority.display().to_string()},
        },
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": format!("unix://{}/containerd.sock", folder.display()),
        "enforceNodeAllocatable": [],
        // The disk is shared with everything else on this machine.
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "failCgroupV1": false,
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false,
        // As for hollow nodes: a test waits until a node counts as dead.
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusReportFrequency": "2s",
        "nodeStatusUpdateFrequency": "2s",
        "podLogsDir": file("logs"),
        "providerID": node.provider_id.as_deref().unwrap_or_default(),
        "readOnlyPort": 0,
        "resolvConf": file("resolv.conf"),
        "serverTLSBootstrap": node.requests_certificate,
        "staticPodPath": static_pods(folder),
        "volumePluginDir": file("volume-plugins"),
    })
    .to_string()
}

/// Returns the configuration of the network of Pods, a bridge.
fn pod_network() -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "pods",
            "isGateway": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": POD_CIDR}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_is_told_its_provider_id() {
        let given = |node: &NodeSpec| {
            let text = kubelet(node, Path::new("/n"), Path::new("/ca.crt"));
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            value["providerID"].as_str().unwrap().to_owned()
        };
        assert_eq!(given(&NodeSpec::new("a")), "kubemark://a");
        assert_eq!(given(&NodeSpec::new("a").without_provider_id()), "");
    }

    #[test]
    fn a_kubelet_with_its_own_user_is_impersonated() {
        let admin = crate::real::command_line::kubeconfig(Path::new("/f"), 1, "secret");
        let own = as_kubelet(&admin, "a");
        let expected =
            "  user:\n    as: system:node:a\n    as-groups: [system:nodes]\n    token: secret\n";
        assert!(own.contains(expected), "{own}");
        assert_eq!(own.matches("as: ").count(), 1, "{own}");
    }
}
