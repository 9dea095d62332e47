//! A vCenter, by govmomi's simulator.

mod simulator;

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::json;
use skydock_clouds::Proxy;

use self::simulator::{PASSWORD, Simulator, USER};
use super::{Configuration, Machine, Plugin, Site, add, gate::Gate};
use crate::cluster::Cluster;

/// The name of the Secret with the login, in `kube-system`.
const LOGIN: &str = "vsphere-login";

/// A vCenter with a proxy in front of it, and TLS in front of that. The official provider serves
/// it.
pub struct VsphereSite {
    simulator: Simulator,
    gate: Gate,
    made: usize,
}

impl VsphereSite {
    /// Starts a vCenter. The first start on a machine builds the simulator, which takes a minute.
    ///
    /// # Errors
    /// Fails if it cannot be built, or does not answer.
    pub async fn new(seed: u64) -> Result<Self> {
        let simulator = Simulator::start().await?;
        let gate = Gate::before(simulator.url(), seed).await?;
        Ok(Self {
            simulator,
            gate,
            made: 0,
        })
    }

    /// Returns the host and the port of the vCenter for clients.
    fn server(&self) -> Result<(String, u16)> {
        let url = self.gate.url();
        let (host, port) = url
            .trim_start_matches("https://")
            .split_once(':')
            .context("HOST:PORT")?;
        Ok((host.to_owned(), port.parse()?))
    }
}

#[async_trait]
impl Site for VsphereSite {
    fn provider(&self) -> &'static str {
        "vsphere"
    }

    fn plugin(&self) -> Plugin {
        Plugin::Go
    }

    fn labels(&self) -> [(&'static str, &'static str); 3] {
        // The simulator's tags. The type of an instance is what the provider derives from its size.
        [
            ("topology.kubernetes.io/zone", "zone-a"),
            ("topology.kubernetes.io/region", "region-a"),
            (
                "node.kubernetes.io/instance-type",
                "vsphere-vm.cpu-1.mem-0gb.os-other",
            ),
        ]
    }

    fn has_only_nodes(&self) -> bool {
        true
    }

    fn proxy(&self) -> &Proxy {
        self.gate.proxy()
    }

    fn secrets(&self) -> Vec<String> {
        // The provider has it, and must not write it to its log.
        vec![PASSWORD.to_owned()]
    }

    /// Creates the Secret with the login in the form that the provider expects.
    async fn prepare(&self, cluster: &Cluster) -> Result<()> {
        let (host, _) = self.server()?;
        let data = [("username", USER), ("password", PASSWORD)];
        let data = data.map(|(key, value)| (format!("{host}.{key}"), value.to_owned()));
        cluster.keep_secret(LOGIN, &BTreeMap::from(data)).await
    }

    async fn register(&self, cluster: &Cluster, machine: &Machine) -> Result<()> {
        cluster.register_machine(&machine.node, &machine.id).await
    }

    fn configure(&self, dir: &Path, _: &str) -> Result<Configuration> {
        let (host, port) = self.server()?;
        let conf = json!({
            "global": {"port": port, "secretName": LOGIN, "secretNamespace": "kube-system"},
            "vcenter": {"one": {"server": host, "datacenters": ["DC0"]}},
            "labels": {"region": "k8s-region", "zone": "k8s-zone"},
        });
        // JSON is valid YAML.
        fs::write(dir.join("cloud.conf"), serde_json::to_vec_pretty(&conf)?)?;
        let mut rule = self.gate.rule(dir)?;
        add(&mut rule, json!({"guestAuth": "allowed"}));
        Ok(Configuration {
            options: json!({}),
            credential: None,
            rule,
            permissions: json!({"objects": [{"kind": "v1/Secret", "namespace": "kube-system", "name": LOGIN}]}),
        })
    }

    async fn add(&mut self, count: usize) -> Result<Vec<Machine>> {
        let mut machines = Vec::new();
        for _ in 0..count {
            self.made += 1;
            let made = self.simulator.create(self.made).await?;
            machines.push(Machine {
                provider_id: format!("vsphere://{}", made.uuid),
                id: made.uuid,
                // Without settings for subnets, the provider takes an address for both.
                others: Some(vec![
                    ("Hostname", made.name.clone()),
                    ("ExternalIP", made.address.clone()),
                ]),
                node: made.name,
                address: made.address,
            });
        }
        Ok(machines)
    }

    async fn stop(&self, machine: &Machine) -> Result<()> {
        self.simulator.change("power-off", machine).await
    }

    async fn start(&self, machine: &Machine) -> Result<()> {
        self.simulator.change("power-on", machine).await
    }

    async fn delete(&self, machine: &Machine) -> Result<()> {
        self.simulator.change("destroy", machine).await
    }
}
