//! The node of a cluster in Azure, with the official provider. Azure is a stub with one virtual machine.

mod stub;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use skydock_clusters::Plane;
use skydock_story::narrator::Narrator;
use skydock_support::Host;

use self::stub::{ADDRESS, GROUP, MACHINE, Power, SECRET, Stub, TOKEN};
use crate::{
    cluster::Cluster,
    hosts::Hosts,
    nodes::{self, Wanted},
    secrets,
    site::Plugin,
};

/// The provider's name.
pub const PROVIDER: &str = "azure";
/// How long a step may take.
const LIMIT: Duration = Duration::from_secs(120);
const LABELS: [(&str, &str); 3] = [
    ("topology.kubernetes.io/region", "westeurope"),
    ("topology.kubernetes.io/zone", "westeurope-2"),
    ("node.kubernetes.io/instance-type", "Standard_D2s_v5"),
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
    stub: Stub,
    cluster: Cluster,
    hosts: Hosts,
}

/// Runs the story on a plane without nodes.
///
/// # Errors
/// Returns the first step that failed. The logs are kept in this case.
pub async fn tell(plane: &dyn Plane, narrator: &mut Narrator) -> Result<()> {
    let stub = Stub::start().await?;
    let plugin = Plugin::Go.file(PROVIDER)?;
    let hosts = Hosts::with(PROVIDER, plane.kubeconfig_path(), &FLAGS, |dir| configuration(&stub, &plugin, dir))?;
    let mut story = Story { stub, cluster: Cluster::new(plane.client()), hosts };
    let told = story.chapters(narrator).await;
    told.with_context(|| {
        format!("the logs are in {}; requests: {:#?}", story.hosts.keep().display(), story.stub.requests())
    })
}

/// Returns the configuration of the host, which has the secret and logs in.
fn configuration(stub: &Stub, plugin: &Path, dir: &Path) -> Result<Value> {
    let conf = json!({
        // The login of a directory with this name needs no other servers.
        "resourceManagerEndpoint": stub.url(), "tenantId": "adfs", "aadClientId": "client", "subscriptionId": "sub",
        "resourceGroup": "group", "location": "westeurope", "vmType": "standard", "vmCacheTTLInSeconds": 1,
    });
    let [file, authority, secret] = ["cloud.conf", "ca.pem", "secret"].map(|name| dir.join(name));
    fs::write(&file, serde_json::to_vec_pretty(&conf)?)?;
    fs::write(&authority, stub.authority())?;
    fs::write(&secret, SECRET)?;
    let scope = format!("{}/.default", stub.url());
    let body = format!(
        "grant_type=client_credentials&client_id=client&scope={scope}&client_secret={{{{{}}}}}",
        secret.display()
    );
    let login = json!({
        "url": format!("{}/adfs/oauth2/token", stub.url()), "headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "body": body, "escape": "form", "capture": {"json": "/access_token"}, "expires": "/expires_in",
        "attach": {"header": {"name": "Authorization", "prefix": "Bearer "}},
    });
    let rule = json!({
        "name": "azure", "to": stub.url(), "addresses": ["127.0.0.1/32"], "tls": {"caFile": authority}, "credential": "azure",
    });
    Ok(json!({
        "apiVersion": "skydock.dev/v1alpha1",
        "kind": "SkydockConfiguration",
        "plugins": [{
            "name": PROVIDER, "file": plugin, "cloudConfig": file, "limits": Plugin::Go.limits(), "egress": [rule],
        }],
        "credentials": [{
            "name": "azure", "type": "session", "for": {"plugin": PROVIDER, "digest": "any"}, "masked": true,
            "login": {"template": login},
        }],
    }))
}

impl Story {
    async fn chapters(&mut self, narrator: &mut Narrator) -> Result<()> {
        let mut host = None;
        narrator.chapter("Nodes");
        narrator
            .step("a virtual machine runs, and Skydock initializes its node", async {
                self.cluster.register(MACHINE).await?;
                host = Some(self.hosts.start().await?);
                self.as_wanted(true).await
            })
            .await?;
        let host = host.context("a host")?;
        narrator.chapter("Machines");
        for (step, power) in
            [("it is stopped: taint", Power::Deallocated), ("it starts again: no taint", Power::Running)]
        {
            narrator
                .step(step, async {
                    self.stub.set_power(power);
                    self.cluster.set_ready(MACHINE, power == Power::Running).await?;
                    self.as_wanted(power == Power::Running).await
                })
                .await?;
        }
        narrator
            .step("it is deleted: no Node", async {
                self.stub.set_power(Power::Gone);
                self.cluster.allow_deletion(MACHINE).await?;
                self.cluster.set_ready(MACHINE, false).await?;
                nodes::seen(&[], &self.cluster, LIMIT).await
            })
            .await?;
        narrator.step("nobody has seen a secret", self.search(host)).await
    }

    async fn as_wanted(&self, runs: bool) -> Result<String> {
        let wanted = Wanted {
            name: MACHINE.to_owned(),
            provider_id: format!("azure://{GROUP}/providers/Microsoft.Compute/virtualMachines/{MACHINE}"),
            addresses: BTreeSet::from([("Hostname", MACHINE.to_owned()), ("InternalIP", ADDRESS.to_owned())]),
            labels: LABELS,
            runs,
        };
        nodes::seen(&[wanted], &self.cluster, LIMIT).await
    }

    /// Searches for secrets in all that the host has shown. Returns its requests and memory.
    async fn search(&self, host: Host) -> Result<String> {
        let secrets = [SECRET.to_owned(), TOKEN.to_owned()];
        let told = secrets::shown_nowhere(host, &self.hosts, &self.cluster, &secrets).await?;
        let mut counts = BTreeMap::new();
        for request in self.stub.requests() {
            *counts.entry(request).or_insert(0) += 1;
        }
        Ok(format!("{counts:?}; {told}"))
    }
}
