//! An API server and etcd with Nodes and Services, without kubelets.

use std::path::Path;

use anyhow::Result;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Node, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use skydock_clusters::{Plane as _, RealPlane};
use skydock_support::kubernetes::UNINITIALIZED;

pub(crate) struct Cluster {
    plane: RealPlane,
}

impl Cluster {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self {
            plane: RealPlane::start_without_controllers().await?,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.plane.folder()
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig_path()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.plane.client())
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.plane.client(), "default")
    }

    /// Registers Nodes like kubelets that wait for their cloud.
    pub(crate) async fn create_nodes(&self, names: &[String]) -> Result<()> {
        for (number, name) in names.iter().enumerate() {
            let pods = format!("10.244.{number}.0/24");
            let node = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {"podCIDR": pods, "podCIDRs": [pods], "taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
            }))?;
            self.nodes().create(&PostParams::default(), &node).await?;
        }
        Ok(())
    }

    /// Returns the nodes when all of them are initialized.
    pub(crate) async fn initialized(&self) -> Result<Option<Vec<Node>>> {
        let nodes = self.nodes().list(&ListParams::default()).await?.items;
        let taints = nodes
            .iter()
            .filter_map(|node| node.spec.as_ref()?.taints.as_ref())
            .flatten();
        let waits = taints.into_iter().any(|taint| taint.key == UNINITIALIZED);
        Ok((!waits).then_some(nodes))
    }

    /// Sets the nodes' `Ready` condition to `Unknown`.
    pub(crate) async fn silence_nodes(&self, names: &[String]) -> Result<()> {
        let ready = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"});
        let patch = Patch::Strategic(json!({"status": {"conditions": [ready]}}));
        for name in names {
            self.nodes()
                .patch_status(name, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn no_nodes(&self) -> Result<Option<()>> {
        Ok(self
            .nodes()
            .list(&ListParams::default())
            .await?
            .items
            .is_empty()
            .then_some(()))
    }

    pub(crate) async fn create_service(&self, name: &str, annotations: &Value) -> Result<()> {
        let service = serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": 80, "protocol": "TCP"}]},
        }))?;
        self.services()
            .create(&PostParams::default(), &service)
            .await?;
        Ok(())
    }

    /// Changes the port of a Service.
    pub(crate) async fn touch_service(&self, name: &str) -> Result<()> {
        let patch = json!({"spec": {"ports": [{"port": 81, "protocol": "TCP"}]}});
        self.services()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(crate) async fn ingress(&self, name: &str) -> Result<Option<LoadBalancerIngress>> {
        let status = self
            .services()
            .get(name)
            .await?
            .status
            .and_then(|status| status.load_balancer);
        Ok(status.and_then(|status| status.ingress?.into_iter().next()))
    }

    pub(crate) async fn delete_service(&self, name: &str) -> Result<()> {
        self.services()
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    pub(crate) async fn gone(&self, name: &str) -> Result<Option<()>> {
        Ok(self.services().get_opt(name).await?.is_none().then_some(()))
    }
}
