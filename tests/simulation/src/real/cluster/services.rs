//! Services, and their changes by operators.

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::Cluster;

/// A service that exists and is not being deleted.
#[derive(Clone, Debug)]
pub(in crate::real) struct Wish {
    pub(in crate::real) uid: String,
    /// True if its type is LoadBalancer.
    pub(in crate::real) balanced: bool,
    /// True if it requests something that the provider does not support.
    pub(in crate::real) rejected: bool,
}

impl Cluster {
    fn api(&self) -> Api<Service> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a service unless one with the same name exists or is still being deleted.
    pub(in crate::real) async fn create(&mut self, name: &'static str) -> Result<()> {
        if self.services.contains_key(name) {
            return Ok(());
        }
        let body = json!({
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": 80}]},
        });
        match self
            .api()
            .create(&PostParams::default(), &serde_json::from_value(body)?)
            .await
        {
            Ok(service) => {
                let uid = service.metadata.uid.unwrap_or_default();
                self.services.insert(
                    name,
                    Wish {
                        uid,
                        balanced: true,
                        rejected: false,
                    },
                );
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn change(
        &mut self,
        name: &'static str,
        patch: Value,
        change: impl FnOnce(&mut Wish),
    ) -> Result<()> {
        let Some(wish) = self.services.get_mut(name) else {
            return Ok(());
        };
        change(wish);
        self.api()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(in crate::real) async fn port(&mut self, name: &'static str, port: u16) -> Result<()> {
        self.change(name, json!({"spec": {"ports": [{"port": port}]}}), |_| {})
            .await
    }

    pub(in crate::real) async fn note(&mut self, name: &'static str, note: u8) -> Result<()> {
        self.change(
            name,
            json!({"metadata": {"annotations": {"example.com/note": note.to_string()}}}),
            |_| {},
        )
        .await
    }

    pub(in crate::real) async fn reject(&mut self, name: &'static str, reject: bool) -> Result<()> {
        let pool = if reject {
            json!("nowhere")
        } else {
            json!(null)
        };
        let patch = json!({"metadata": {"annotations": {"static.skydock.dev/address-pool": pool}}});
        self.change(name, patch, |wish| wish.rejected = reject)
            .await
    }

    pub(in crate::real) async fn set_type(
        &mut self,
        name: &'static str,
        balanced: bool,
    ) -> Result<()> {
        let kind = if balanced {
            "LoadBalancer"
        } else {
            "ClusterIP"
        };
        self.change(name, json!({"spec": {"type": kind}}), |wish| {
            wish.balanced = balanced;
        })
        .await
    }

    pub(in crate::real) async fn delete(&mut self, name: &'static str) -> Result<()> {
        if self.services.remove(name).is_some() {
            self.api().delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }
}
