//! Services, and their changes by operators.

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::World;
use crate::cloud::{NOTE, REJECT};

/// A service that exists and is not being deleted.
#[derive(Clone, Debug)]
pub(super) struct ServiceModel {
    pub(super) uid: String,
    /// True if its type is LoadBalancer.
    pub(super) balanced: bool,
    pub(super) port: u16,
    pub(super) note: String,
    /// True if it requests something that the cloud does not support.
    pub(super) rejected: bool,
}

impl World {
    fn api(&self) -> Api<Service> {
        Api::default_namespaced(self.operator.clone())
    }

    /// Creates a service unless one with the same name exists or is still being deleted.
    pub(super) async fn create(&mut self, name: &'static str) -> Result<(), String> {
        if self.services.contains_key(name) {
            return Ok(());
        }
        let body = json!({
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": 80}]},
        });
        let service = serde_json::from_value(body).map_err(|error| error.to_string())?;
        match self.api().create(&PostParams::default(), &service).await {
            Ok(service) => {
                let uid = service.metadata.uid.unwrap_or_default();
                let model = ServiceModel {
                    uid,
                    balanced: true,
                    port: 80,
                    note: String::new(),
                    rejected: false,
                };
                self.services.insert(name, model);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn change(
        &mut self,
        name: &'static str,
        patch: Value,
        change: impl FnOnce(&mut ServiceModel),
    ) -> Result<(), String> {
        let Some(model) = self.services.get_mut(name) else {
            return Ok(());
        };
        change(model);
        let patch = Patch::Merge(patch);
        self.api()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    pub(super) async fn port(&mut self, name: &'static str, port: u16) -> Result<(), String> {
        self.change(
            name,
            json!({"spec": {"ports": [{"port": port}]}}),
            |model| model.port = port,
        )
        .await
    }

    pub(super) async fn note(&mut self, name: &'static str, note: u8) -> Result<(), String> {
        let note = note.to_string();
        let patch = json!({"metadata": {"annotations": {NOTE: note}}});
        self.change(name, patch, |model| model.note = note).await
    }

    pub(super) async fn reject(&mut self, name: &'static str, reject: bool) -> Result<(), String> {
        let value = if reject { json!("true") } else { json!(null) };
        let patch = json!({"metadata": {"annotations": {REJECT: value}}});
        self.change(name, patch, |model| model.rejected = reject)
            .await
    }

    pub(super) async fn set_type(
        &mut self,
        name: &'static str,
        balanced: bool,
    ) -> Result<(), String> {
        if !balanced && let Some(model) = self.services.get(name) {
            self.cloud.release(&model.uid);
        }
        let kind = if balanced {
            "LoadBalancer"
        } else {
            "ClusterIP"
        };
        self.change(name, json!({"spec": {"type": kind}}), |model| {
            model.balanced = balanced;
        })
        .await
    }

    pub(super) async fn delete(&mut self, name: &'static str) -> Result<(), String> {
        let Some(model) = self.services.remove(name) else {
            return Ok(());
        };
        self.cloud.release(&model.uid);
        self.api()
            .delete(name, &DeleteParams::default())
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}
