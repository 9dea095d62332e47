//! A cluster's objects, made as kubelets and users make them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use skydock_story::observe::{Seen, until};

/// Kubelets with `--cloud-provider=external` register with this taint.
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// What a cluster has.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
}

impl Cluster {
    /// The one that this client reaches, with all rights.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn nodes_api(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn services_api(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// All nodes.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        Ok(self.nodes_api().list(&ListParams::default()).await?.items)
    }

    /// All Services of type LoadBalancer.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn services(&self) -> Result<Vec<Service>> {
        let all = self.services_api().list(&ListParams::default()).await?.items;
        let balanced =
            |service: &Service| service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
        Ok(all.into_iter().filter(balanced).collect())
    }

    /// Registers a node that is ready, as its kubelet would.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn register(&self, name: &str) -> Result<()> {
        let taint = json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"});
        let node = json!({"metadata": {"name": name}, "spec": {"taints": [taint]}});
        self.nodes_api().create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        self.set_ready(name, true).await
    }

    /// Says of a node that it is ready, or that nobody hears of it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn set_ready(&self, name: &str, ready: bool) -> Result<()> {
        let status = if ready { "True" } else { "Unknown" };
        let condition = json!({"type": "Ready", "status": status, "reason": "Test", "message": "", "lastHeartbeatTime": null, "lastTransitionTime": null});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        self.nodes_api().patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Whether a node has a provider ID.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn is_initialised(&self, name: &str) -> Result<bool> {
        let node = self.nodes_api().get_opt(name).await?;
        Ok(node.and_then(|node| node.spec).is_some_and(|spec| spec.provider_id.is_some()))
    }

    /// Says of a node that it may be deleted however many others are.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn allow_deletion(&self, name: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"skydock.dev/allow-deletion": "true"}}}));
        match self.nodes_api().patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a Service of type LoadBalancer with these ports, such as `TCP/80`, or changes it to have them.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn serve(&self, name: &str, ports: &[&str], annotations: &BTreeMap<String, String>) -> Result<()> {
        let mut listed = Vec::new();
        for port in ports {
            let (protocol, number) = port.split_once('/').context("PROTOCOL/PORT")?;
            let number: u16 = number.parse()?;
            listed
                .push(json!({"name": format!("p{number}"), "protocol": protocol, "port": number, "targetPort": 8080}));
        }
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": listed},
        });
        let params = PatchParams::apply("user").force();
        self.services_api().patch(name, &params, &Patch::Apply(service)).await?;
        Ok(())
    }

    /// Makes a Service one of the cluster's inside only.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn keep_inside(&self, name: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
        self.services_api().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Deletes a Service; its finalizer may keep it for a while.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn withdraw(&self, name: &str) -> Result<()> {
        self.services_api().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Whether there is a Service of this name that waits for its finalizers.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn is_deleted(&self, name: &str) -> Result<bool> {
        let service = self.services_api().get_opt(name).await?;
        Ok(service.is_some_and(|service| service.metadata.deletion_timestamp.is_some()))
    }

    /// Deletes a node, if it is still there.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn remove(&self, name: &str) -> Result<()> {
        match self.nodes_api().delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for an event with these words about an object of this name.
    ///
    /// # Errors
    /// When none comes in time.
    pub async fn told(&self, name: &str, reason: &str, limit: Duration) -> Result<()> {
        let events: Api<Event> = Api::all(self.client.clone());
        let of_it = ListParams::default().fields(&format!("involvedObject.name={name}"));
        until(limit, || async {
            let all = events.list(&of_it).await?.items;
            let reasons: Vec<_> = all.into_iter().filter_map(|event| event.reason).collect();
            Ok(if reasons.iter().any(|told| told == reason) {
                Seen::Yes(())
            } else {
                Seen::NotYet(format!("{reasons:?}"))
            })
        })
        .await
        .with_context(|| format!("event {reason} about {name}"))
    }

    /// Everything the API server has that a secret could have come into: nodes, Services and events, as JSON.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn everything(&self) -> Result<String> {
        let events: Api<Event> = Api::all(self.client.clone());
        let events = events.list(&ListParams::default()).await?.items;
        Ok(serde_json::to_string(&(self.nodes().await?, self.services().await?, events))?)
    }
}
