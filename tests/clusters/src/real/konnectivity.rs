//! The tunnel through which the API server reaches kubelets, as in clusters whose control plane has
//! another network than the nodes: konnectivity (KEP-1281).
//!
//! Its server runs beside the API server, which reaches it at a Unix socket. Its agent is a static
//! Pod on a node with containers, and connects to the server. The server does not ask who the agent
//! is.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use skydock_image::{Image, Layer};
use skydock_support::{Process, free_address};

use super::binary::go_binary;
use super::process;
use crate::Error;

/// The folder of the Go module with the server and the agent.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/konnectivity");
const IMAGE: &str = "registry.example.com/konnectivity:1";
const SERVER: &str = "konnectivity-server";
const AGENT: &str = "konnectivity-agent";

/// The tunnel of a plane. Only one of its nodes can have containers, because all have the same
/// address.
pub(super) struct Tunnel {
    binary: PathBuf,
    /// Where the server waits for the agent, on the machine.
    address: String,
    authority: PathBuf,
}

impl Tunnel {
    /// Writes the configuration of the API server, and starts the server.
    pub(super) async fn start(folder: &Path) -> Result<(Self, Process), Error> {
        let binary = go_binary(Path::new(MODULE), "konnectivity").await?;
        let selector = json!({
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{
                "name": "cluster",
                "connection": {
                    "proxyProtocol": "GRPC",
                    "transport": {"uds": {"udsName": socket(folder)}},
                },
            }],
        });
        let file = egress_selector(folder);
        fs::write(&file, selector.to_string()).map_err(Error::io("write", &file))?;

        let free = || free_address().map_err(Error::setup("find a free port"));
        let (agents, health, admin) = (free()?, free()?, free()?);
        let file = |name: &str| folder.join(name).display().to_string();
        let arguments = [
            format!("--uds-name={}", socket(folder).display()),
            "--server-port=0".to_owned(),
            "--agent-bind-address=127.0.0.1".to_owned(),
            format!("--agent-port={}", agents.port()),
            "--health-bind-address=127.0.0.1".to_owned(),
            format!("--health-port={}", health.port()),
            format!("--admin-port={}", admin.port()),
            format!("--cluster-cert={}", file("apiserver.crt")),
            format!("--cluster-key={}", file("apiserver.key")),
        ];
        let process = process::start(&binary, SERVER, "server", &arguments, folder)?;
        let tunnel = Self {
            binary,
            address: agents.to_string(),
            authority: folder.join("ca.crt"),
        };
        Ok((tunnel, process))
    }

    /// Returns where the agent reaches the server, both on the machine and on the node.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Writes the image of the agent, and its static Pod.
    pub(super) fn prepare_agent(&self, image: &Path, static_pods: &Path) -> Result<(), Error> {
        let program = fs::read(&self.binary).map_err(Error::io("read", &self.binary))?;
        Image::of_program("/konnectivity", program)
            .and_then(|files| skydock_image::write(IMAGE, &[files], Layer::Plain, image))
            .map_err(Error::setup("write an image"))?;

        let file = static_pods.join(format!("{AGENT}.json"));
        fs::write(&file, self.agent().to_string()).map_err(Error::io("write", &file))
    }

    fn agent(&self) -> serde_json::Value {
        let (host, port) = self.address.rsplit_once(':').unwrap_or_default();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": AGENT, "namespace": "kube-system"},
            "spec": {
                "hostNetwork": true,
                "containers": [{
                    "name": AGENT,
                    "image": IMAGE,
                    "args": [
                        "agent",
                        format!("--proxy-server-host={host}"),
                        format!("--proxy-server-port={port}"),
                        "--ca-cert=/ca.crt",
                    ],
                    "volumeMounts": [{"name": "authority", "mountPath": "/ca.crt", "readOnly": true}],
                }],
                "volumes": [{
                    "name": "authority",
                    "hostPath": {"path": self.authority, "type": "File"},
                }],
            },
        })
    }
}

/// Returns the socket at which the API server reaches the server.
pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("konnectivity.sock")
}

/// Returns the file with the API server's `EgressSelectorConfiguration`.
pub(super) fn egress_selector(folder: &Path) -> PathBuf {
    folder.join("egress-selector.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_told_where_the_server_is() {
        let tunnel = Tunnel {
            binary: PathBuf::from("/konnectivity"),
            address: "127.0.0.1:20001".to_owned(),
            authority: PathBuf::from("/plane/ca.crt"),
        };
        let agent = tunnel.agent();
        let arguments = agent["spec"]["containers"][0]["args"].as_array().unwrap();
        let has = |argument: &str| arguments.iter().any(|it| it == argument);
        assert!(has("--proxy-server-host=127.0.0.1"), "{arguments:?}");
        assert!(has("--proxy-server-port=20001"), "{arguments:?}");
        let volume = &agent["spec"]["volumes"][0];
        assert_eq!(volume["hostPath"]["path"], "/plane/ca.crt");
    }
}
