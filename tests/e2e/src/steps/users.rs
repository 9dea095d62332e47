//! The users and operators of a cluster: what they change is expected of cluster and cloud.

use std::time::Duration;

use anyhow::Result;
use skydock_clusters::Plane;

use crate::{
    cluster::Cluster,
    site::{Machine, Site},
    steps::expect::Wanted,
};

/// Those who change a cluster and its cloud.
pub(crate) struct Users<'a> {
    pub(crate) site: &'a mut dyn Site,
    pub(crate) cluster: Cluster,
    pub(crate) wanted: Wanted,
}

impl<'a> Users<'a> {
    /// Prepares an empty site and a plane without nodes.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub(crate) async fn of(site: &'a mut dyn Site, plane: &dyn Plane) -> Result<Self> {
        let cluster = Cluster::new(plane.client());
        site.prepare(&cluster).await?;
        Ok(Self {
            wanted: Wanted::of(site),
            cluster,
            site,
        })
    }

    /// Launches instances and registers their nodes.
    ///
    /// # Errors
    /// Fails if a request to the cloud or to the API server fails.
    pub(crate) async fn join(&mut self, count: usize) -> Result<()> {
        for machine in self.site.add(count).await? {
            // AWS reuses addresses, and therefore names. The Node of the deleted instance may still
            // be there.
            self.cluster.remove(&machine.node).await?;
            self.site.register(&self.cluster, &machine).await?;
            self.wanted.machines.push((machine, true));
        }
        Ok(())
    }

    /// Stops or starts an instance.
    ///
    /// # Errors
    /// Fails if a request to the cloud or to the API server fails.
    pub(crate) async fn switch(&mut self, machine: &Machine, on: bool) -> Result<()> {
        if on {
            self.site.start(machine).await?;
        } else {
            self.site.stop(machine).await?;
        }
        self.cluster.set_ready(&machine.node, on).await?;
        for (one, runs) in &mut self.wanted.machines {
            if one == machine {
                *runs = on;
            }
        }
        Ok(())
    }

    /// Deletes an instance. The host has to delete its Node.
    ///
    /// # Errors
    /// Fails if a request to the cloud or to the API server fails.
    pub(crate) async fn delete(&mut self, machine: &Machine) -> Result<()> {
        self.site.delete(machine).await?;
        self.cluster.set_ready(&machine.node, false).await?;
        if self.cluster.is_initialized(&machine.node).await? {
            // With so few nodes, the brake would prevent the deletion.
            self.cluster.allow_deletion(&machine.node).await?;
        } else {
            // The host would delete it only after ten minutes.
            self.cluster.remove(&machine.node).await?;
        }
        self.wanted.machines.retain(|(one, _)| one != machine);
        Ok(())
    }

    /// Creates a Service or changes its ports.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub(crate) async fn serve(&mut self, name: &str, ports: &[&str]) -> Result<()> {
        self.cluster
            .serve(name, ports, &self.site.annotations())
            .await?;
        self.wanted.services.insert(
            name.to_owned(),
            ports.iter().map(|&port| port.to_owned()).collect(),
        );
        Ok(())
    }

    /// Changes the type of a Service to ClusterIP.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub(crate) async fn keep_inside(&mut self, name: &str) -> Result<()> {
        self.cluster.keep_inside(name).await?;
        self.wanted.services.remove(name);
        Ok(())
    }

    /// Deletes a Service.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub(crate) async fn withdraw(&mut self, name: &str) -> Result<()> {
        self.cluster.withdraw(name).await?;
        self.wanted.services.remove(name);
        Ok(())
    }

    /// Deletes all Services.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub(crate) async fn withdraw_all(&mut self) -> Result<()> {
        for service in std::mem::take(&mut self.wanted.services).into_keys() {
            self.cluster.withdraw(&service).await?;
        }
        Ok(())
    }

    /// Deletes all instances and their Nodes.
    ///
    /// # Errors
    /// Fails if a request to the cloud or to the API server fails.
    pub(crate) async fn delete_all(&mut self) -> Result<()> {
        for (machine, _) in std::mem::take(&mut self.wanted.machines) {
            self.site.delete(&machine).await?;
            // Only an operator deletes all nodes of a cluster: the host assumes that the cloud
            // reports wrong states.
            self.cluster.remove(&machine.node).await?;
        }
        Ok(())
    }

    /// Waits until cluster and cloud have the expected state.
    ///
    /// # Errors
    /// Returns the differences at the end of the time limit.
    pub(crate) async fn settle(&self, limit: Duration) -> Result<()> {
        self.wanted.seen(self.site, &self.cluster, limit).await
    }
}
