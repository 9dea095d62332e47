//! The nodes of a cluster in a simulated vSphere, with the official provider.

mod simulator;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};
use skydock_clusters::Plane;
use skydock_story::narrator::Narrator;
use skydock_support::{
    Host, Seen, eventually,
    kubernetes::{SHUTDOWN, UNINITIALIZED},
};

use self::simulator::{Machine, PASSWORD, Simulator, USER};
use crate::{cluster::Cluster, hosts::Hosts, site::Plugin};

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
    ("node.kubernetes.io/instance-type", "vsphere-vm.cpu-1.mem-0gb.os-unknown"),
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
        "name": "vcenter", "to": format!("https://{server}"), "addresses": ["127.0.0.1/32"], "tls": {"caFile": authority},
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
        eventually(LIMIT, || async {
            let nodes = self.cluster.nodes().await?;
            let wrongs = wrongs(&self.machines, &nodes);
            Ok(Seen::when(wrongs.is_empty(), wrongs.join("\n")))
        })
        .await?;
        Ok(format!("{} nodes", self.machines.len()))
    }

    /// Searches for the password in all places where it could have leaked. The provider has it, and must not write it to its log.
    async fn search(&self, host: Host) -> Result<String> {
        let scrape = host.scrape().await?;
        let requests = scrape.sum("skydock_egress_requests_total", &[]);
        let peak = scrape.sum("skydock_plugin_memory_peak_bytes", &[]) / f64::from(1 << 20);
        let resident = host.resident()? >> 20;
        Hosts::stop(host).await?;
        for text in [self.hosts.logs()?, scrape.text().to_owned(), self.cluster.everything().await?] {
            ensure!(text.len() > 1000 && !text.contains(PASSWORD), "a log, the metrics or the API have the password");
        }
        Ok(format!("{requests} requests; instance {peak:.1} MiB, host {resident} MiB"))
    }
}

/// Returns all differences from the expected state, in sentences.
fn wrongs(machines: &[(Machine, bool)], nodes: &[Node]) -> Vec<String> {
    let names: BTreeSet<_> = nodes.iter().map(ResourceExt::name_any).collect();
    let wanted: BTreeSet<_> = machines.iter().map(|(machine, _)| machine.name.clone()).collect();
    let mut wrongs = Vec::new();
    if names != wanted {
        wrongs.push(format!("nodes are {names:?} and not {wanted:?}"));
    }
    for (machine, runs) in machines {
        for node in nodes.iter().filter(|node| node.name_any() == machine.name) {
            wrongs.extend(of_node(machine, *runs, node).into_iter().map(|wrong| format!("{}: {wrong}", machine.name)));
        }
    }
    wrongs
}

fn of_node(machine: &Machine, runs: bool, node: &Node) -> Vec<String> {
    let mut wrongs = Vec::new();
    let spec = node.spec.clone().unwrap_or_default();
    if spec.provider_id.as_deref() != Some(&format!("vsphere://{}", machine.uuid)) {
        wrongs.push(format!("its provider ID is {:?}, its UUID {}", spec.provider_id, machine.uuid));
    }
    let taints: BTreeSet<_> = spec.taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
    if taints.contains(UNINITIALIZED) || taints.contains(SHUTDOWN) == runs {
        wrongs.push(format!("it runs: {runs}, its taints: {taints:?}"));
    }
    let addresses = node.status.iter().filter_map(|status| status.addresses.as_ref()).flatten();
    let addresses: BTreeSet<_> = addresses.map(|it| (it.type_.as_str(), it.address.as_str())).collect();
    if addresses != BTreeSet::from([("Hostname", machine.name.as_str()), ("InternalIP", machine.address.as_str())]) {
        wrongs.push(format!("its addresses are {addresses:?}"));
    }
    for (label, value) in LABELS {
        if node.labels().get(label).map(String::as_str) != Some(value) {
            wrongs.push(format!("label {label} is {:?} and not {value}", node.labels().get(label)));
        }
    }
    wrongs
}
