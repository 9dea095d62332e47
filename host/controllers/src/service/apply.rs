//! Patches Services.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use skydock_cloud::LoadBalancerStatus;
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::Entry,
};

use super::ServiceController;
use crate::objects::{
    constants::{ANNOTATION_CLASS, FINALIZER},
    convert::status_json,
    kinds::ServiceKind,
};

impl ServiceController {
    /// Adds the finalizer, and the annotation with the class, which later shows that this host has
    /// created the load balancer.
    pub(super) async fn add_finalizer(
        &self,
        entry: &Entry<ServiceKind>,
        note: Option<&str>,
    ) -> Result<(), ApiError> {
        // A strategic merge patch adds to the list: finalizers of others stay.
        let mut metadata = vec![("finalizers", json!([FINALIZER]))];
        if let Some(note) = note {
            metadata.push(("annotations", json!({ ANNOTATION_CLASS: note })));
        }
        self.patch(entry, &Patch::Strategic(with_metadata(entry, metadata)))
            .await
    }

    /// Removes the finalizer, and with `note` the annotation with the class.
    pub(super) async fn remove_finalizer(
        &self,
        entry: &Entry<ServiceKind>,
        note: bool,
    ) -> Result<(), ApiError> {
        // Without this directive, the patch would add to the list.
        let mut metadata = vec![("$deleteFromPrimitiveList/finalizers", json!([FINALIZER]))];
        if note {
            metadata.push(("annotations", json!({ ANNOTATION_CLASS: null })));
        }
        self.patch(entry, &Patch::Strategic(with_metadata(entry, metadata)))
            .await
    }

    /// Writes only the annotation with the class.
    pub(super) async fn leave_finalizer(
        &self,
        entry: &Entry<ServiceKind>,
        note: &str,
    ) -> Result<(), ApiError> {
        let annotations = vec![("annotations", json!({ ANNOTATION_CLASS: note }))];
        self.patch(entry, &Patch::Strategic(with_metadata(entry, annotations)))
            .await
    }

    /// Writes the status of the load balancer.
    pub(super) async fn write_status(
        &self,
        entry: &Entry<ServiceKind>,
        status: &LoadBalancerStatus,
    ) -> Result<(), ApiError> {
        // A merge patch replaces the list of ingress points as a whole.
        let status = json!({ "loadBalancer": status_json(status) });
        self.patch(
            entry,
            &Patch::Merge(json!({ "metadata": { "uid": entry.uid() }, "status": status })),
        )
        .await
    }

    /// Also used for metadata: with the subresource, no other field of the Service can change, and
    /// fewer permissions are needed.
    async fn patch(&self, entry: &Entry<ServiceKind>, body: &Patch) -> Result<(), ApiError> {
        let namespace = entry.object.metadata.namespace.as_deref();
        let target = Target {
            namespace,
            name: entry.name(),
            subresource: Some("status"),
        };

        patch::<Service>(&self.client, &target, body)
            .await
            .map(drop)
    }
}

/// Returns the body of a patch of these metadata fields, which fails if the Service was recreated.
fn with_metadata(entry: &Entry<ServiceKind>, fields: Vec<(&str, Value)>) -> Value {
    let uid = ("uid", json!(entry.uid()));
    json!({ "metadata": fields.into_iter().chain([uid]).collect::<BTreeMap<_, _>>() })
}
