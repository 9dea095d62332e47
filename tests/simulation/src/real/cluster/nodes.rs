//! Instances and simulated kubelets.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use skydock_controllers::constants::{
    ANNOTATION_ALLOW_DELETION, LABEL_EXCLUDE_FROM_LB, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE,
    LABEL_ZONE_BETA, TAINT_UNINITIALIZED,
};
use tokio::time::sleep;

use super::{Cluster, PLACE};
use crate::real::list_nodes;

/// An existing instance.
#[derive(Clone, Debug)]
pub(in crate::real) struct Machine {
    pub(in crate::real) address: String,
    /// The UID of its Node, or `None` if an operator has deleted the Node and no kubelet has
    /// registered it again.
    pub(in crate::real) uid: Option<String>,
    pub(in crate::real) running: bool,
    /// True if the kubelet runs.
    pub(in crate::real) ready: bool,
    with_id: bool,
}

impl Machine {
    pub(super) fn row(&self, name: &str) -> Value {
        let [zone, region, kind] = PLACE;
        json!({
            "name": name, "zone": zone, "region": region, "instanceType": kind,
            "addresses": [{"type": "InternalIP", "address": self.address}],
            "state": if self.running { "running" } else { "stopped" },
        })
    }
}

/// Returns the provider ID of the instance with this name.
pub(in crate::real) fn provider_id(name: &str) -> String {
    format!("static://{name}")
}

impl Cluster {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Starts an instance whose kubelet registers. A Node of a previous instance is deleted first.
    pub(in crate::real) async fn register(
        &mut self,
        name: &'static str,
        with_id: bool,
    ) -> Result<()> {
        if self.machines.contains_key(name) {
            return Ok(());
        }
        self.remove(name).await?;
        self.made += 1;
        let address = format!("10.0.0.{}", self.made);
        self.machines.insert(
            name,
            Machine {
                address,
                uid: None,
                running: true,
                ready: true,
                with_id,
            },
        );
        self.touch()?;
        self.start_kubelet(name).await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        match self.nodes().delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// Starts the kubelet, which registers its Node if it does not exist.
    async fn start_kubelet(&mut self, name: &'static str) -> Result<()> {
        let Some(machine) = self.machines.get_mut(name) else {
            return Ok(());
        };
        (machine.running, machine.ready) = (true, true);
        let with_id = machine.with_id;
        let nodes = self.nodes();
        let node = match nodes.get_opt(name).await? {
            Some(node) => node,
            None => {
                let id = if with_id {
                    json!(provider_id(name))
                } else {
                    json!(null)
                };
                let taints =
                    json!([{"key": TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]);
                let node = json!({"metadata": {"name": name}, "spec": {"taints": taints, "providerID": id}});
                nodes
                    .create(&PostParams::default(), &serde_json::from_value(node)?)
                    .await?
            }
        };
        if let Some(machine) = self.machines.get_mut(name) {
            machine.uid = node.uid();
        }
        self.say_ready(name, "True").await
    }

    /// Sets the `Ready` condition, like a kubelet, or like the node lifecycle controller if the
    /// kubelet does not report.
    async fn say_ready(&self, name: &str, status: &str) -> Result<()> {
        let conditions = json!([{"type": "Ready", "status": status, "reason": "Pretended"}]);
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        match self
            .nodes()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
        {
            // The cloud controller has deleted the Node.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            patched => Ok(patched.map(drop)?),
        }
    }

    pub(in crate::real) async fn power_off(&mut self, name: &'static str) -> Result<()> {
        let Some(machine) = self.machines.get_mut(name) else {
            return Ok(());
        };
        (machine.running, machine.ready) = (false, false);
        self.touch()?;
        self.say_ready(name, "Unknown").await
    }

    pub(in crate::real) async fn power_on(&mut self, name: &'static str) -> Result<()> {
        let Some(machine) = self
            .machines
            .get_mut(name)
            .filter(|machine| !machine.running)
        else {
            return Ok(());
        };
        machine.running = true;
        self.touch()?;
        self.start_kubelet(name).await
    }

    pub(in crate::real) async fn silence(&mut self, name: &'static str) -> Result<()> {
        let Some(machine) = self.machines.get_mut(name) else {
            return Ok(());
        };
        machine.ready = false;
        self.say_ready(name, "Unknown").await
    }

    pub(in crate::real) async fn wake(&mut self, name: &'static str) -> Result<()> {
        if self
            .machines
            .get(name)
            .is_some_and(|machine| machine.running)
        {
            self.start_kubelet(name).await?;
        }
        Ok(())
    }

    /// Deletes the instance permanently. Its Node remains.
    pub(in crate::real) async fn vanish(&mut self, name: &'static str) -> Result<()> {
        let Some(machine) = self.machines.remove(name) else {
            return Ok(());
        };
        self.vanished.extend(machine.uid);
        self.touch()?;
        self.say_ready(name, "Unknown").await
    }

    pub(in crate::real) async fn delete_node(&mut self, name: &'static str) -> Result<()> {
        let Some(machine) = self.machines.get_mut(name) else {
            return Ok(());
        };
        machine.uid = None;
        let ready = machine.ready;
        self.remove(name).await?;
        if ready {
            self.start_kubelet(name).await
        } else {
            Ok(())
        }
    }

    pub(in crate::real) async fn exclude(&self, name: &str, out: bool) -> Result<()> {
        self.label(
            name,
            json!({LABEL_EXCLUDE_FROM_LB: if out { json!("") } else { json!(null) }}),
        )
        .await
    }

    pub(in crate::real) async fn relabel(&self, name: &str) -> Result<()> {
        let elsewhere = "elsewhere";
        let labels = json!({
            LABEL_ZONE: elsewhere, LABEL_ZONE_BETA: elsewhere, LABEL_REGION: null, LABEL_REGION_BETA: null,
        });
        self.label(name, labels).await
    }

    async fn label(&self, name: &str, labels: Value) -> Result<()> {
        if self
            .machines
            .get(name)
            .is_none_or(|machine| machine.uid.is_none())
        {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        self.nodes()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    pub(in crate::real) fn readdress(&mut self, name: &str) -> Result<()> {
        let Some(machine) = self.machines.get_mut(name) else {
            return Ok(());
        };
        self.made += 1;
        machine.address = format!("10.0.0.{}", self.made);
        self.touch()
    }

    /// Stops all kubelets and empties the inventory, as after a mistake in an editor. Later
    /// everything is restored, and kubelets whose Node was deleted register again. The number of
    /// deleted Nodes is not checked, because a new leader does not know how many the previous one
    /// has deleted.
    pub(in crate::real) async fn outage(&mut self, time: Duration) -> Result<()> {
        let ready: Vec<_> = self
            .machines
            .iter()
            .filter(|(_, machine)| machine.ready)
            .map(|(name, _)| *name)
            .collect();
        self.write(&[])?;
        for name in &ready {
            self.say_ready(name, "Unknown").await?;
        }
        sleep(time).await;
        self.touch()?;
        // Decisions based on the empty inventory have been carried out or dropped by this time.
        sleep(Duration::from_secs(10)).await;
        let there = list_nodes(&self.client).await?;
        for (name, machine) in &mut self.machines {
            machine.uid.take_if(|_| !there.contains_key(*name));
        }
        for name in ready {
            self.start_kubelet(name).await?;
        }
        Ok(())
    }

    /// Allows deletions as an operator, because no node is deleted if more instances are gone than
    /// the brake allows.
    pub(in crate::real) async fn allow_deletions(&self) -> Result<()> {
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION_ALLOW_DELETION: "true"}}}));
        for (name, node) in list_nodes(&self.client).await? {
            if node.uid().is_some_and(|uid| self.vanished.contains(&uid)) {
                self.nodes()
                    .patch(&name, &PatchParams::default(), &patch)
                    .await?;
            }
        }
        Ok(())
    }
}
