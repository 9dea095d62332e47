//! Nodes and their instances.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use skydock_controllers::constants::{
    LABEL_EXCLUDE_FROM_LB, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA,
};
use skydock_devplane::NodeSpec;

use super::World;
use crate::Cloud;

/// An existing instance and its node.
#[derive(Clone, Debug)]
pub(super) struct NodeModel {
    /// The provider ID.
    pub(super) machine: String,
    /// The UID of the Node, or `None` if an operator has deleted it and no kubelet has registered
    /// it again.
    pub(super) uid: Option<String>,
    /// True if the instance runs.
    pub(super) running: bool,
    /// True if the kubelet runs.
    pub(super) ready: bool,
    /// True if the address differs from the one that the kubelet registers with, so that the routes
    /// have to be updated.
    moved: bool,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl World {
    pub(super) async fn list_nodes(&self) -> Result<Vec<Node>, String> {
        let nodes = Api::<Node>::all(self.operator.clone())
            .list(&ListParams::default())
            .await;
        nodes.map(|list| list.items).map_err(text)
    }

    pub(super) async fn register(
        &mut self,
        name: &'static str,
        with_id: bool,
    ) -> Result<(), String> {
        if self.nodes.contains_key(name) {
            return Ok(());
        }
        let kubelets = self.plane.kubelets();
        if kubelets.list().iter().any(|(known, _)| known == name) {
            kubelets.remove(name).map_err(text)?;
        }
        let machine = self.cloud.add_machine(name);
        let address = self
            .cloud
            .machine(&machine)
            .map(|machine| machine.address)
            .unwrap_or_default();
        let spec = NodeSpec {
            provider_id: with_id.then(|| machine.clone()),
            ..NodeSpec::new(name, address.parse().map_err(text)?)
        };
        kubelets.register(spec).map_err(text)?;
        self.nodes.insert(
            name,
            NodeModel {
                machine,
                uid: None,
                running: true,
                ready: true,
                moved: false,
            },
        );
        self.look_up(name).await
    }

    /// Starts the kubelet, which registers its node if it does not exist.
    async fn start_kubelet(&mut self, name: &'static str) -> Result<(), String> {
        self.plane.kubelets().start(name).map_err(text)?;
        if let Some(model) = self.nodes.get_mut(name) {
            (model.ready, model.running) = (true, true);
        }
        self.look_up(name).await
    }

    async fn look_up(&mut self, name: &'static str) -> Result<(), String> {
        let node = Api::<Node>::all(self.operator.clone())
            .get(name)
            .await
            .map_err(text)?;
        if let Some(model) = self.nodes.get_mut(name) {
            if model.uid.is_some() && model.uid != node.metadata.uid {
                self.wrongs
                    .push(format!("Node {name} was deleted, and its machine is there"));
            }
            model.uid = node.metadata.uid;
            model.allow_new_routes(&self.cloud);
        }
        Ok(())
    }

    pub(super) fn power_off(&mut self, name: &'static str) -> Result<(), String> {
        let Some(model) = self.nodes.get_mut(name) else {
            return Ok(());
        };
        self.cloud.power(&model.machine, false);
        (model.running, model.ready) = (false, false);
        self.plane.kubelets().stop(name).map_err(text)
    }

    pub(super) async fn power_on(&mut self, name: &'static str) -> Result<(), String> {
        let Some(model) = self.nodes.get(name).filter(|model| !model.running) else {
            return Ok(());
        };
        self.cloud.power(&model.machine, true);
        self.start_kubelet(name).await
    }

    pub(super) fn silence(&mut self, name: &'static str) -> Result<(), String> {
        let Some(model) = self.nodes.get_mut(name) else {
            return Ok(());
        };
        model.ready = false;
        self.plane.kubelets().stop(name).map_err(text)
    }

    pub(super) async fn wake(&mut self, name: &'static str) -> Result<(), String> {
        if self
            .nodes
            .get(name)
            .is_some_and(|model| model.running && !model.ready)
        {
            return self.start_kubelet(name).await;
        }
        Ok(())
    }

    pub(super) fn vanish(&mut self, name: &'static str) -> Result<(), String> {
        let Some(model) = self.nodes.remove(name) else {
            return Ok(());
        };
        self.plane.kubelets().stop(name).map_err(text)?;
        self.cloud.remove_machine(&model.machine);
        if let Some(uid) = model.uid {
            self.cloud.release(&uid);
            self.vanished.insert(uid);
        }
        Ok(())
    }

    pub(super) async fn delete_node(&mut self, name: &'static str) -> Result<(), String> {
        let Some(model) = self.nodes.get_mut(name) else {
            return Ok(());
        };
        let Some(uid) = model.uid.take() else {
            return Ok(());
        };
        self.cloud.release(&uid);
        let ready = model.ready;
        let nodes = Api::<Node>::all(self.operator.clone());
        nodes
            .delete(name, &DeleteParams::default())
            .await
            .map_err(text)?;
        if ready {
            self.plane.kubelets().stop(name).map_err(text)?;
            self.start_kubelet(name).await?;
        }
        Ok(())
    }

    pub(super) async fn exclude(&self, name: &'static str, out: bool) -> Result<(), String> {
        let value = if out { json!("true") } else { json!(null) };
        self.label(name, json!({LABEL_EXCLUDE_FROM_LB: value}))
            .await
    }

    pub(super) async fn relabel(&self, name: &'static str) -> Result<(), String> {
        self.label(
            name,
            json!({
                LABEL_ZONE: "elsewhere",
                LABEL_ZONE_BETA: "elsewhere",
                LABEL_REGION: null,
                LABEL_REGION_BETA: null,
            }),
        )
        .await
    }

    async fn label(&self, name: &'static str, labels: Value) -> Result<(), String> {
        if self.nodes.get(name).is_none_or(|model| model.uid.is_none()) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let nodes = Api::<Node>::all(self.operator.clone());
        nodes
            .patch(name, &PatchParams::default(), &patch)
            .await
            .map(drop)
            .map_err(text)
    }

    pub(super) fn readdress(&mut self, name: &'static str) {
        if let Some(model) = self.nodes.get_mut(name) {
            self.cloud.readdress(&model.machine);
            model.moved = true;
            model.allow_new_routes(&self.cloud);
        }
    }
}

impl NodeModel {
    fn allow_new_routes(&self, cloud: &Cloud) {
        if let Some(uid) = self.uid.as_ref().filter(|_| self.moved) {
            cloud.release(uid);
        }
    }
}
