//! Where a cluster's machines stand: clouds, as much alike as their tests need.

mod aws;
mod openstack;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;
use async_trait::async_trait;
use serde_json::{Value, json};
use skydock_clouds::Proxy;

pub use self::{aws::AwsSite, openstack::OpenStackSite};

/// The Pods' addresses.
pub(crate) const PODS: &str = "10.244.0.0/16";

/// A machine that a node is to stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The cloud's ID.
    pub id: String,
    /// The node's name.
    pub node: String,
    /// What the official cloud controller manager would write into the Node.
    pub provider_id: String,
    /// Its internal address.
    pub address: String,
}

/// A load balancer of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// Its name in the cloud.
    pub name: String,
    /// What the Service's status says of it: addresses, or a host name.
    pub addresses: BTreeSet<String>,
    /// Whether the cloud says that it works.
    pub works: bool,
    /// The machines behind each port, such as `TCP/80`, by their IDs; those that are no machine of ours by what the cloud calls them.
    pub ports: BTreeMap<String, BTreeSet<String>>,
}

/// What the cloud shows of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// All load balancers of the site.
    pub balancers: Vec<Balancer>,
    /// Machine by destination, of those to Pods.
    pub routes: BTreeMap<String, String>,
}

/// A cluster's place in a cloud, with a proxy before it.
#[async_trait]
pub trait Site: Send + Sync {
    /// The provider's name.
    fn provider(&self) -> &'static str;

    /// Zone, region and type of every machine.
    fn labels(&self) -> [(&'static str, &'static str); 3];

    /// Annotations that every Service here has.
    fn annotations(&self) -> BTreeMap<String, String>;

    /// What stands between the host and the cloud.
    fn proxy(&self) -> &Proxy;

    /// Words that nobody but the host may ever see.
    fn secrets(&self) -> Vec<String>;

    /// Writes `cloud.conf` and the files with secrets into the directory; answers the credential and the options of the plugin.
    ///
    /// # Errors
    /// When the directory cannot be written.
    fn configure(&self, dir: &Path, cluster: &str) -> Result<Configuration>;

    /// New running machines.
    ///
    /// # Errors
    /// When the cloud refuses one.
    async fn add(&mut self, count: usize) -> Result<Vec<Machine>>;

    /// Stops a machine.
    ///
    /// # Errors
    /// When the cloud refuses it.
    async fn stop(&self, machine: &Machine) -> Result<()>;

    /// Starts a machine that was stopped.
    ///
    /// # Errors
    /// When the cloud refuses it.
    async fn start(&self, machine: &Machine) -> Result<()>;

    /// Deletes a machine.
    ///
    /// # Errors
    /// When the cloud refuses it.
    async fn delete(&self, machine: &Machine) -> Result<()>;

    /// Load balancers and routes.
    ///
    /// # Errors
    /// When the cloud refuses to tell.
    async fn view(&self) -> Result<View>;

    /// Everything there is, to compare.
    ///
    /// # Errors
    /// When the cloud refuses to tell.
    async fn holdings(&self) -> Result<BTreeMap<&'static str, Vec<String>>>;
}

/// What the host's configuration says of a site.
#[derive(Debug)]
pub struct Configuration {
    /// Options of the plugin.
    pub(crate) options: Value,
    /// The one entry of `credentials`, without its name and binding.
    pub(crate) credential: Value,
    /// Actions that only read.
    pub(crate) reads: Vec<&'static str>,
}

/// A `SkydockConfiguration` for this plugin whose only way out is the site's proxy. The files that it names are written into the directory.
///
/// # Errors
/// When the directory cannot be written.
pub fn configured(site: &dyn Site, plugin: &Path, dir: &Path, cluster: &str) -> Result<Value> {
    let said = site.configure(dir, cluster)?;
    Ok(document(site, plugin, dir, said))
}

fn document(site: &dyn Site, plugin: &Path, dir: &Path, said: Configuration) -> Value {
    let provider = site.provider();
    let mut credential = json!({"name": "cloud", "for": {"plugin": provider, "digest": "any"}});
    if let (Some(entry), Value::Object(fields)) = (credential.as_object_mut(), said.credential) {
        entry.extend(fields);
    }
    let rule = json!({
        "name": "cloud", "to": site.proxy().url(), "addresses": ["127.0.0.1/32"], "credential": "cloud", "reads": said.reads,
        "limits": {"rate": 1000.0, "burst": 1000, "concurrency": 32},
    });
    json!({
        "apiVersion": "skydock.dev/v1alpha1",
        "kind": "SkydockConfiguration",
        "plugins": [{
            "name": provider, "file": plugin, "cloudConfig": dir.join("cloud.conf"), "options": said.options, "egress": [rule],
        }],
        "credentials": [credential],
    })
}
