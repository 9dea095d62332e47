//! The cloud environments of clusters, with a common interface for the tests.

mod aws;
mod azure;
mod gate;
mod openstack;
mod plugin;
mod vsphere;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;
use async_trait::async_trait;
use serde_json::{Value, json};
use skydock_clouds::Proxy;

pub use self::{
    aws::AwsSite, azure::AzureSite, openstack::OpenStackSite, plugin::Plugin, vsphere::VsphereSite,
};
use crate::cluster::Cluster;

/// The address range of Pods.
pub(crate) const PODS: &str = "10.244.0.0/16";

/// An instance for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The ID in the cloud.
    pub id: String,
    /// The name of the node.
    pub node: String,
    /// The provider ID that the official cloud controller manager would set.
    pub provider_id: String,
    /// The internal address.
    pub address: String,
    /// Types and values of all other addresses, if they are known.
    pub others: Option<Vec<(&'static str, String)>>,
}

/// A load balancer in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// The name in the cloud.
    pub name: String,
    /// The addresses or the host name in the Service's status.
    pub addresses: BTreeSet<String>,
    /// Whether the cloud reports that it works.
    pub works: bool,
    /// The IDs of the instances behind each port, for example `TCP/80`. Unknown members are listed
    /// with the cloud's name for them.
    pub ports: BTreeMap<String, BTreeSet<String>>,
}

/// The resources of a cluster in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// All load balancers of the site.
    pub balancers: Vec<Balancer>,
    /// Instances by destination, for routes to Pods.
    pub routes: BTreeMap<String, String>,
}

/// The cloud environment of a cluster, with a proxy in front of the cloud.
#[async_trait]
pub trait Site: Send + Sync {
    /// Returns the provider's name.
    fn provider(&self) -> &'static str;

    /// Returns which plugin serves the cluster.
    fn plugin(&self) -> Plugin;

    /// Returns zone, region and type of all instances, as labels.
    fn labels(&self) -> [(&'static str, &'static str); 3];

    /// Returns whether the provider serves nodes only: no load balancers, no routes.
    fn has_only_nodes(&self) -> bool {
        false
    }

    /// Returns whether a Service may have ports of several protocols.
    fn mixes_protocols(&self) -> bool {
        true
    }

    /// Returns the kinds of resources that the provider may leave behind if it is interrupted.
    fn may_leave(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the annotations of all Services.
    fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns the proxy between the host and the cloud.
    fn proxy(&self) -> &Proxy;

    /// Returns secrets that only the host may know.
    fn secrets(&self) -> Vec<String>;

    /// Creates what the provider needs in an empty cluster.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    async fn prepare(&self, _: &Cluster) -> Result<()> {
        Ok(())
    }

    /// Registers the node of an instance, like its kubelet.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    async fn register(&self, cluster: &Cluster, machine: &Machine) -> Result<()> {
        cluster.register(&machine.node).await
    }

    /// Writes `cloud.conf` and the files with secrets to the directory. Returns what the
    /// configuration of the plugin has of its own.
    ///
    /// # Errors
    /// Fails if the directory cannot be written.
    fn configure(&self, dir: &Path, cluster: &str) -> Result<Configuration>;

    /// Launches running instances.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    async fn add(&mut self, count: usize) -> Result<Vec<Machine>>;

    /// Stops an instance.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    async fn stop(&self, machine: &Machine) -> Result<()>;

    /// Starts a stopped instance.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    async fn start(&self, machine: &Machine) -> Result<()>;

    /// Deletes an instance.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    async fn delete(&self, machine: &Machine) -> Result<()>;

    /// Returns the load balancers and routes.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    async fn view(&self) -> Result<View> {
        Ok(View::default())
    }

    /// Returns all resources that a provider creates, for comparison.
    ///
    /// # Errors
    /// Fails if a request to the cloud fails.
    async fn holdings(&self) -> Result<BTreeMap<&'static str, Vec<String>>> {
        Ok(BTreeMap::new())
    }
}

/// Returns the requests since the last time, in words.
pub(crate) fn requests(site: &dyn Site) -> String {
    let counts = site.proxy().counts();
    site.proxy().forget();
    let told: Vec<String> = counts
        .iter()
        .map(|(operation, count)| format!("{operation} {count}"))
        .collect();
    told.join(", ")
}

/// The part of the host's configuration that depends on the site.
#[derive(Debug)]
pub struct Configuration {
    /// The options of the plugin.
    pub(crate) options: Value,
    /// The only entry of `credentials`, without name and binding, unless the provider logs in
    /// itself.
    pub(crate) credential: Option<Value>,
    /// Fields of the egress rule.
    pub(crate) rule: Value,
    /// The permissions of the plugin.
    pub(crate) permissions: Value,
}

/// Returns a `SkydockConfiguration` for this plugin, which can connect only to the site's proxy.
/// The referenced files are written to the directory.
///
/// # Errors
/// Fails if the directory cannot be written.
pub fn configured(site: &dyn Site, plugin: &Path, dir: &Path, cluster: &str) -> Result<Value> {
    let said = site.configure(dir, cluster)?;
    Ok(document(site, plugin, dir, said))
}

fn document(site: &dyn Site, plugin: &Path, dir: &Path, said: Configuration) -> Value {
    let provider = site.provider();
    let mut rule = json!({
        "name": "cloud", "to": site.proxy().url(), "addresses": ["127.0.0.1/32"],
        "limits": {"rate": 1000.0, "burst": 1000, "concurrency": 32},
    });
    let mut credentials = Vec::new();
    if let Some(of_site) = said.credential {
        add(&mut rule, json!({"credential": "cloud"}));
        let mut credential = json!({"name": "cloud", "for": {"plugin": provider, "digest": "any"}});
        add(&mut credential, of_site);
        credentials.push(credential);
    }
    add(&mut rule, said.rule);
    json!({
        "apiVersion": "skydock.dev/v1alpha1",
        "kind": "SkydockConfiguration",
        "plugins": [{
            "name": provider, "file": plugin, "cloudConfig": dir.join("cloud.conf"), "options": said.options,
            "limits": site.plugin().limits(), "permissions": said.permissions, "egress": [rule],
        }],
        "credentials": credentials,
    })
}

/// Adds fields to an object.
fn add(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}
