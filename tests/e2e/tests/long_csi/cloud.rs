//! The clouds with the volumes of a cluster.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skydock_clouds::{OpenStack, Service};
use skydock_e2e::{Hosts, OpenStackSite, Site as _};
use skydock_simcloud::{Options, Settings, Simcloud};
use skydock_support::Paths;

/// Which cloud.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Simcloud,
    Cinder,
}

/// A cloud with two servers.
pub(crate) struct Cloud {
    backend: Backend,
    /// The name of the driver.
    pub(crate) driver: &'static str,
    /// The key of its topology.
    pub(crate) zone: &'static str,
    /// The key of the name of a device, for the node part of the driver.
    pub(crate) device: &'static str,
    /// The servers.
    pub(crate) servers: [Server; 2],
}

/// A server for a node.
pub(crate) struct Server {
    /// The name of the node.
    pub(crate) node: String,
    pub(crate) id: String,
    pub(crate) zone: &'static str,
}

enum Backend {
    Simcloud(Box<Simcloud>),
    Cinder(Box<Cinder>),
}

struct Cinder {
    // The proxy of the site ends before the cloud behind it.
    site: OpenStackSite,
    _cloud: OpenStack,
}

impl Cloud {
    pub(crate) async fn start(kind: Kind) -> Result<Self> {
        match kind {
            Kind::Simcloud => Self::simcloud(),
            Kind::Cinder => Box::pin(Self::cinder()).await,
        }
    }

    fn simcloud() -> Result<Self> {
        let cloud = Simcloud::start(Options {
            servers: 2,
            token: "a-secret-token".to_owned(),
            settings: Settings {
                latency_ms: 5,
                lag_ms: 500,
                volume_delay_ms: 1000,
                ..Settings::default()
            },
            ..Options::default()
        })?;
        let server = |node: &str, id: &str, zone| Server {
            node: node.to_owned(),
            id: id.to_owned(),
            zone,
        };
        Ok(Self {
            backend: Backend::Simcloud(Box::new(cloud)),
            driver: "csi.simcloud.example",
            zone: "topology.csi.simcloud.example/zone",
            device: "devicePath",
            servers: [
                server("node-1", "srv-1", "zone-a"),
                server("node-2", "srv-2", "zone-b"),
            ],
        })
    }

    async fn cinder() -> Result<Self> {
        let cloud = OpenStack::start().await?;
        let mut site = OpenStackSite::new(&cloud, "volumes", 1).await?;
        let machines = site.add(2).await?.into_iter();
        let servers: Vec<_> = machines
            .map(|machine| Server {
                node: machine.node,
                id: machine.id,
                zone: "nova",
            })
            .collect();
        let Ok(servers) = <[Server; 2]>::try_from(servers) else {
            anyhow::bail!("not two servers")
        };
        let cinder = Cinder {
            site,
            _cloud: cloud,
        };
        Ok(Self {
            backend: Backend::Cinder(Box::new(cinder)),
            driver: "cinder.csi.openstack.org",
            zone: "topology.cinder.csi.openstack.org/zone",
            device: "DevicePath",
            servers,
        })
    }

    /// Returns whether volumes have attributes that can change.
    pub(crate) fn has_attributes(&self) -> bool {
        matches!(self.backend, Backend::Simcloud(_))
    }

    /// Configures a host with the plugin of this cloud.
    pub(crate) fn hosts(&self, kubeconfig: &Path, flags: &[&str]) -> Result<Hosts> {
        match &self.backend {
            Backend::Simcloud(cloud) => Hosts::with("simcloud", kubeconfig, flags, |dir| {
                configuration(cloud, dir)
            }),
            Backend::Cinder(cinder) => {
                let hosts = Hosts::of_site(&cinder.site, "volumes", kubeconfig, flags)?;
                hosts.edit(|document| {
                    document["plugins"][0]["options"]["volumes"] = json!("true");
                })?;
                Ok(hosts)
            }
        }
    }

    /// Uses a hook of simcloud, or its API.
    pub(crate) fn hook(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let Backend::Simcloud(cloud) = &self.backend else {
            anyhow::bail!("only simcloud has hooks")
        };
        let (status, answer) = cloud.request(method, path, body);
        ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer}"
        );
        Ok(answer)
    }

    /// Returns all volumes or all snapshots, in the form of simcloud.
    pub(crate) async fn has(&self, kind: &str) -> Result<Vec<Value>> {
        match &self.backend {
            Backend::Simcloud(_) => {
                let state = self.hook("GET", "/_sim/state", &Value::Null)?;
                Ok(state[kind].as_array().cloned().unwrap_or_default())
            }
            Backend::Cinder(cinder) => {
                let session = &cinder.site.project().session;
                let path = format!("/v3/{kind}/detail");
                let all = session.list(Service::BlockStorage, &path, kind).await;
                let all = all.context("cannot list them in Cinder")?;
                let one = if kind == "volumes" { volume } else { snapshot };
                Ok(all.iter().map(one).collect())
            }
        }
    }
}

/// Returns the configuration of a host whose only way to simcloud is a rule, and to its token a
/// file.
fn configuration(cloud: &Simcloud, dir: &Path) -> Result<Value> {
    let config = json!({"url": cloud.url(), "region": "sim"});
    fs::write(dir.join("cloud.json"), config.to_string())?;
    fs::write(dir.join("token"), cloud.token())?;
    let rule = json!({
        "name": "api", "to": cloud.url(), "addresses": ["127.0.0.1/32"], "paths": ["/v1"], "credential": "token",
        "limits": {"rate": 1000, "burst": 1000},
    });
    let plugin = Paths::of_checkout()?.plugins.join("simcloud.wasm");
    Ok(json!({
        "apiVersion": "skydock.dev/v1alpha1", "kind": "SkydockConfiguration",
        "plugins": [{"name": "simcloud", "file": plugin, "cloudConfig": dir.join("cloud.json"), "egress": [rule]}],
        "credentials": [{
            "name": "token", "type": "header", "for": {"plugin": "simcloud", "digest": "any"},
            "prefix": "Bearer ", "valueFile": dir.join("token"),
        }],
    }))
}

/// Returns a volume of Cinder in the form of simcloud.
fn volume(it: &Value) -> Value {
    let attachment = &it["attachments"][0];
    json!({
        "id": it["id"], "name": it["name"], "status": it["status"], "size_gib": it["size"],
        "zone": it["availability_zone"], "server": attachment["server_id"], "device": attachment["device"],
        "snapshot": it["snapshot_id"], "original": it["source_volid"],
        "labels": {"claim": owner(it, "csi.storage.k8s.io/pvc")},
    })
}

/// Returns a snapshot of Cinder in the form of simcloud.
fn snapshot(it: &Value) -> Value {
    json!({
        "id": it["id"], "name": it["name"], "volume": it["volume_id"], "ready": it["status"] == "available",
        "labels": {"snapshot": owner(it, "csi.storage.k8s.io/volumesnapshot")},
    })
}

/// Returns namespace and name of what something was created for, from its metadata.
fn owner(it: &Value, key: &str) -> String {
    let metadata = &it["metadata"];
    let of = |field: &str| metadata[format!("{key}/{field}")].as_str();
    let [namespace, name] = ["namespace", "name"].map(|field| of(field).unwrap_or_default());
    format!("{namespace}/{name}")
}
