//! Acts like operators and kubelets in a real cluster, and writes the inventory of the static
//! provider.

mod nodes;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};

pub(super) use self::{
    nodes::{Machine, provider_id},
    services::Wish,
};

/// The prefix of the addresses of load balancers. There are more addresses than services.
pub(super) const POOL: &str = "192.0.2.";
/// Zone, region and type of all instances.
pub(super) const PLACE: [&str; 3] = ["rack-1", "basement", "small"];

/// The expected state of the cluster, and the means to change it.
pub(super) struct Cluster {
    pub(super) client: Client,
    inventory: PathBuf,
    pub(super) machines: BTreeMap<&'static str, Machine>,
    /// The UIDs of Nodes whose instance is gone.
    pub(super) vanished: BTreeSet<String>,
    pub(super) services: BTreeMap<&'static str, Wish>,
    /// The number of instances created so far, for addresses that were never used before.
    made: u8,
    /// The number of changes of the inventory.
    changes: u32,
}

impl Cluster {
    pub(super) fn new(client: Client, inventory: PathBuf) -> Result<Self> {
        let mut cluster = Self {
            client,
            inventory,
            machines: BTreeMap::new(),
            vanished: BTreeSet::new(),
            services: BTreeMap::new(),
            made: 0,
            changes: 0,
        };
        cluster.touch()?;
        Ok(cluster)
    }

    /// Writes the inventory again, so that the hosts read it again.
    pub(super) fn touch(&mut self) -> Result<()> {
        let machines: Vec<Value> = self
            .machines
            .iter()
            .map(|(name, machine)| machine.row(name))
            .collect();
        self.write(&machines)
    }

    /// Writes only half of the inventory.
    pub(super) fn tear(&self) -> Result<()> {
        let whole = std::fs::read_to_string(&self.inventory)?;
        let half = whole
            .chars()
            .take(whole.chars().count() / 2)
            .collect::<String>();
        super::replace(&self.inventory, &half)
    }

    fn write(&mut self, machines: &[Value]) -> Result<()> {
        self.changes += 1;
        let inventory = json!({
            "apiVersion": "static.skydock.dev/v1alpha1",
            "kind": "Inventory",
            "machines": machines,
            "addressPools": [{"name": "all", "addresses": [format!("{POOL}10-{POOL}60")]}],
        });
        // JSON is valid YAML, and the comment makes the file different.
        super::replace(
            &self.inventory,
            &format!("# change {}\n{inventory}\n", self.changes),
        )
    }
}
