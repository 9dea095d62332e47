//! Creates and changes the objects of a cluster, like kubelets and users.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Event, Node, Secret, Service};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use skydock_support::{Seen, eventually, kubernetes::UNINITIALIZED};

/// The objects of a cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
}

impl Cluster {
    /// Uses this client, which needs all permissions.
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

    /// Returns all nodes.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        Ok(self.nodes_api().list(&ListParams::default()).await?.items)
    }

    /// Returns all Services of type LoadBalancer.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn services(&self) -> Result<Vec<Service>> {
        let all = self
            .services_api()
            .list(&ListParams::default())
            .await?
            .items;
        let balanced = |service: &Service| {
            service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
        };
        Ok(all.into_iter().filter(balanced).collect())
    }

    /// Registers a ready node, like its kubelet.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn register(&self, name: &str) -> Result<()> {
        self.register_machine(name, "").await
    }

    /// Registers a ready node whose kubelet has read this UUID from the firmware.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn register_machine(&self, name: &str, system_uuid: &str) -> Result<()> {
        let taint = json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"});
        let status = json!({"nodeInfo": {"systemUUID": system_uuid}});
        let node =
            json!({"metadata": {"name": name}, "spec": {"taints": [taint]}, "status": status});
        self.nodes_api()
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        self.set_ready(name, true).await
    }

    /// Sets the `Ready` condition of a node to `True`, or to `Unknown` as for a kubelet that does
    /// not report.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn set_ready(&self, name: &str, ready: bool) -> Result<()> {
        let status = if ready { "True" } else { "Unknown" };
        let condition = json!({"type": "Ready", "status": status, "reason": "Test", "message": "", "lastHeartbeatTime": null, "lastTransitionTime": null});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        self.nodes_api()
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Returns whether a node has a provider ID.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn is_initialized(&self, name: &str) -> Result<bool> {
        let node = self.nodes_api().get_opt(name).await?;
        Ok(node
            .and_then(|node| node.spec)
            .is_some_and(|spec| spec.provider_id.is_some()))
    }

    /// Creates a Secret in `kube-system`.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn keep_secret(&self, name: &str, data: &BTreeMap<String, String>) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "kube-system");
        let secret = json!({"metadata": {"name": name}, "stringData": data});
        secrets
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
        Ok(())
    }

    /// Allows the deletion of a node, however many others are deleted.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn allow_deletion(&self, name: &str) -> Result<()> {
        let patch = Patch::Merge(
            json!({"metadata": {"annotations": {"skydock.dev/allow-deletion": "true"}}}),
        );
        match self
            .nodes_api()
            .patch(name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates or updates a Service of type LoadBalancer with these ports, for example `TCP/80`.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn serve(
        &self,
        name: &str,
        ports: &[&str],
        annotations: &BTreeMap<String, String>,
    ) -> Result<()> {
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
        self.services_api()
            .patch(name, &params, &Patch::Apply(service))
            .await?;
        Ok(())
    }

    /// Changes the type of a Service to ClusterIP.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn keep_inside(&self, name: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
        self.services_api()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Deletes a Service. Its finalizer may keep it for some time.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn withdraw(&self, name: &str) -> Result<()> {
        self.services_api()
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Returns whether a Service with this name is being deleted and waits for its finalizers.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn is_deleted(&self, name: &str) -> Result<bool> {
        let service = self.services_api().get_opt(name).await?;
        Ok(service.is_some_and(|service| service.metadata.deletion_timestamp.is_some()))
    }

    /// Deletes a node if it exists.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn remove(&self, name: &str) -> Result<()> {
        match self
            .nodes_api()
            .delete(name, &DeleteParams::default())
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for an event with this reason about an object with this name.
    ///
    /// # Errors
    /// Fails if there is none in time.
    pub async fn told(&self, name: &str, reason: &str, limit: Duration) -> Result<()> {
        let events: Api<Event> = Api::all(self.client.clone());
        let of_it = ListParams::default().fields(&format!("involvedObject.name={name}"));
        eventually(limit, || async {
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

    /// Returns all API objects that could contain a secret by mistake: nodes, Services and events,
    /// as JSON.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub async fn everything(&self) -> Result<String> {
        let events: Api<Event> = Api::all(self.client.clone());
        let events = events.list(&ListParams::default()).await?.items;
        Ok(serde_json::to_string(&(
            self.nodes().await?,
            self.services().await?,
            events,
        ))?)
    }
}
