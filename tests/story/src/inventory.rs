//! The inventory file of the static provider, with the changes of the story.

use std::{fmt::Write, path::PathBuf};

/// A machine of the inventory.
#[derive(Clone)]
struct Machine {
    name: String,
    provider_id: String,
    number: u8,
    state: &'static str,
    zone: &'static str,
    labels: &'static [(&'static str, &'static str)],
}

/// The machines and addresses. They are visible to the hosts after they are written.
#[derive(Clone)]
pub(crate) struct Inventory {
    path: PathBuf,
    machines: Vec<Machine>,
    /// The number of machines created so far: addresses are not reused.
    made: u8,
}

/// The initial type, zone, region and additional labels of all machines.
pub(crate) const INSTANCE_TYPE: &str = "metal-8";
pub(crate) const ZONE: &str = "rack-1";
pub(crate) const REGION: &str = "hall-a";
pub(crate) const LABELS: &[(&str, &str)] = &[("example.com/rack", "17")];

/// The internal and external networks of the machines, which are reserved for benchmarks and
/// documentation.
const INTERNAL: [u8; 2] = [198, 19];
const EXTERNAL: &str = "203.0.113";

impl Inventory {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            machines: Vec::new(),
            made: 0,
        }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(crate) fn add(&mut self, name: &str, provider_id: String) {
        self.made += 1;
        self.machines.push(Machine {
            name: name.to_owned(),
            provider_id,
            number: self.made,
            state: "running",
            zone: ZONE,
            labels: LABELS,
        });
    }

    /// Returns the internal and the external address of a machine.
    pub(crate) fn addresses(&self, name: &str) -> Option<[String; 2]> {
        let number = self
            .machines
            .iter()
            .find(|machine| machine.name == name)?
            .number;
        let [high, low] = INTERNAL;
        Some([
            format!("{high}.{low}.0.{number}"),
            format!("{EXTERNAL}.{number}"),
        ])
    }

    pub(crate) fn stop(&mut self, name: &str) {
        for machine in self
            .machines
            .iter_mut()
            .filter(|machine| machine.name == name)
        {
            machine.state = "stopped";
        }
    }

    /// Moves a machine to another zone, with other addresses.
    pub(crate) fn relocate(&mut self, name: &str, zone: &'static str) {
        self.made += 1;
        for machine in self
            .machines
            .iter_mut()
            .filter(|machine| machine.name == name)
        {
            (machine.zone, machine.number) = (zone, self.made);
        }
    }

    pub(crate) fn label(&mut self, name: &str, labels: &'static [(&'static str, &'static str)]) {
        for machine in self
            .machines
            .iter_mut()
            .filter(|machine| machine.name == name)
        {
            machine.labels = labels;
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.machines.retain(|machine| machine.name != name);
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let mut yaml = String::from(
            "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nproviderIDPrefixes: [\"kubemark://\"]\nmachines:\n",
        );
        let [high, low] = INTERNAL;
        for Machine {
            name,
            provider_id,
            number,
            state,
            zone,
            labels,
        } in &self.machines
        {
            let labels: Vec<_> = labels
                .iter()
                .map(|(key, value)| format!("{key}: \"{value}\""))
                .collect();
            write!(
                yaml,
                "  - name: {name}\n    match: {{nodeName: {name}}}\n    providerID: {provider_id}\n    \
                 instanceType: {INSTANCE_TYPE}\n    zone: {zone}\n    region: {REGION}\n    state: {state}\n    \
                 labels: {{{}}}\n    addresses:\n      - {{type: InternalIP, address: {high}.{low}.0.{number}}}\n      \
                 - {{type: ExternalIP, address: {EXTERNAL}.{number}}}\n",
                labels.join(", ")
            )?;
        }
        yaml.push_str(
            "addressPools:\n  - name: default\n    addresses: [\"192.0.2.10-192.0.2.250\", \"2001:db8::/120\"]\n  \
             - name: tiny\n    addresses: [\"198.51.100.7/32\"]\n    autoAssign: false\n",
        );
        let new = self.path.with_extension("new");
        std::fs::write(&new, yaml)?;
        std::fs::rename(&new, &self.path)?;
        Ok(())
    }
}
