//! The nodes of a cluster in a simulated vSphere, with the official provider.

mod simulator;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skydock_clusters::Plane;
use skydock_story::narrator::Narrator;
use skydock_support::Host;

use self::simulator::{Machine, PASSWORD, Simulator, USER};
use crate::{
    cluster::Cluster,
    hosts::Hosts,
    nodes::{self, Wanted},
    secrets,
    site::Plugin,
};

/// The provider's name.
pub const PROVIDER: &str = "vsphere";
/// The name of the Secret with the login, in `kube-system`.
const LOGIN: &str = "vsphere-login";
/// How long a step may take.
const LIMIT: Duration = Duration::from_secs(120);
/// The simulator's tags. The type of an instance is what the provider derives from its size.
const LABELS: [(&str, &str); 3] = [
    ("topology.kubernetes.io/region", "region-a"),
    ("topology.kubernetes.io/zone", "zone-a"),
    ("node.kubernetes.io/instance-type", "vsphere-vm.cpu-1.mem-0gb.os-other"),
];
const FLAGS: [&str; 5] = [
    "--leader-elect=false",
    "--controllers=cloud-node,cloud-node-lifecycle",
    "--configure-cloud-routes=false",
    "--node-monitor-period=1s",
    "--v=4",
];

/// The environment of the story.
struct Story {
    simulator: Simulator,
    cluster: Cluster,
    hosts: Hosts,
    /// The instances of nodes, and whether each runs.
    machines: Vec<(Machine, bool)>,
}

/// Runs the story on a plane without nodes.
///
/// # Errors
/// Returns the first step that failed. The logs are kept in this case.
pub async fn tell(plane: &dyn Plane, narrator: &mut Narrator) -> Result<()> {
    let simulator = Simulator::start(4).await?;
    let plugin = Plugin::Go.file(PROVIDER)?;
    let hosts = Hosts::with(PROVIDER, plane.kubeconfig_path(), &FLAGS, |dir| configuration(&simulator, &plugin, dir))?;
    let mut story = Story { simulator, cluster: Cluster::new(plane.client()), hosts, machines: Vec::new() };
    let told = story.chapters(narrator).await;
    told.with_context(|| format!("the logs are in {}", story.hosts.keep().display()))
}

/// Returns the configuration of the host. The provider logs in itself, with the Secret.
fn configuration(simulator: &Simulator, plugin: &Path, dir: &Path) -> Result<Value> {
    let server = simulator.server();
    let (host, port) = server.split_once(':').context("HOST:PORT")?;
    let conf = json!({
        "global": {"port": port.parse::<u16>()?, "secretName": LOGIN, "secretNamespace": "kube-system"},
        "vcenter": {"one": {"server": host, "datacenters": ["DC0"]}},
        "labels": {"region": "k8s-region", "zone": "k8s-zone"},
    });
    let file = dir.join("cloud.conf");
    // JSON is valid YAML.
    fs::write(&file, serde_json::to_vec_pretty(&conf)?)?;
    let authority = dir.join("ca.pem");
    fs::write(&authority, simulator.authority())?;
    let rule = json!({
        "name": "vcenter", "to": format!("https://{server}"), "addresses": ["127.0.0.1/32"], "guestAuth": "allowed", "tls": {"caFile": authority},
    });
    Ok(json!({
        "apiVersion": "skydock.dev/v1alpha1",
        "kind": "SkydockConfiguration",
        "plugins": [{
            "name": PROVIDER, "file": plugin, "cloudConfig": file, "limits": Plugin::Go.limits(), "egress": [rule],
            "grants": {"objects": [{"kind": "v1/Secret", "namespace": "kube-system", "name": LOGIN}]},
        }],
    }))
}

impl Story {
    async fn chapters(&mut self, narrator: &mut Narrator) -> Result<()> {
        let mut host = None;
        narrator.chapter("Nodes");
        narrator
            .step("virtual machines run, and Skydock initializes their nodes", async {
                self.log_in().await?;
                self.join(3).await?;
                host = Some(self.hosts.start().await?);
                self.as_wanted().await
            })
            .await?;
        let host = host.context("a host")?;
        narrator
            .step("a node joins later", async {
                self.join(1).await?;
                self.as_wanted().await
            })
            .await?;
        narrator.chapter("Machines");
        for (step, action, runs) in
            [("one is powered off: taint", "power-off", false), ("it is powered on: no taint", "power-on", true)]
        {
            narrator.step(step, self.switch(action, runs)).await?;
        }
        narrator.step("it is destroyed: no Node", self.destroy()).await?;
        narrator.step("nobody has seen the password", self.search(host)).await
    }

    /// Creates the Secret in the form that the provider expects.
    async fn log_in(&self) -> Result<()> {
        let (host, _) = self.simulator.server().split_once(':').context("HOST:PORT")?;
        let data = [("username", USER), ("password", PASSWORD)];
        let data = data.map(|(key, value)| (format!("{host}.{key}"), value.to_owned()));
        self.cluster.keep_secret(LOGIN, &BTreeMap::from(data)).await
    }

    async fn join(&mut self, count: usize) -> Result<()> {
        let joining: Vec<_> = self.simulator.machines().iter().skip(self.machines.len()).take(count).collect();
        ensure!(joining.len() == count, "the simulator has too few virtual machines");
        for machine in joining {
            self.cluster.register_machine(&machine.name, &machine.uuid).await?;
            self.machines.push((machine.clone(), true));
        }
        Ok(())
    }

    async fn switch(&mut self, action: &str, runs: bool) -> Result<String> {
        let (machine, seen) = self.machines.last_mut().context("a machine")?;
        *seen = runs;
        self.simulator.change(action, machine).await?;
        self.cluster.set_ready(&machine.name, runs).await?;
        self.as_wanted().await
    }

    async fn destroy(&mut self) -> Result<String> {
        let (machine, _) = self.machines.pop().context("a machine")?;
        self.simulator.change("power-off", &machine).await?;
        self.simulator.change("destroy", &machine).await?;
        self.cluster.set_ready(&machine.name, false).await?;
        self.as_wanted().await
    }

    /// Waits until the nodes are as expected.
    async fn as_wanted(&self) -> Result<String> {
        let wanted = self.machines.iter().map(|(machine, runs)| Wanted {
            name: machine.name.clone(),
            provider_id: format!("vsphere://{}", machine.uuid),
            // Without settings for subnets, the provider takes an address for both.
            addresses: BTreeSet::from([
                ("Hostname", machine.name.clone()),
                ("InternalIP", machine.address.clone()),
                ("ExternalIP", machine.address.clone()),
            ]),
            labels: LABELS,
            runs: *runs,
        });
        nodes::seen(&wanted.collect::<Vec<_>>(), &self.cluster, LIMIT).await
    }

    /// Searches for the password in all places where it could have leaked. The provider has it, and must not write it to its log.
    async fn search(&self, host: Host) -> Result<String> {
        let requests = host.scrape().await?.sum("skydock_egress_requests_total", &[]);
        let told = secrets::shown_nowhere(host, &self.hosts, &self.cluster, &[PASSWORD.to_owned()]).await?;
        Ok(format!("{requests} requests; {told}"))
    }
}
