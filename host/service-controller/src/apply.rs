//! Patches Services.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use skydock_cloud::LoadBalancerStatus;
use skydock_controller_base::objects::{
    constants::{ANNOTATION_CLASS, FINALIZER},
    convert::status_json,
    kinds::ServiceKind,
};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::Entry,
};

use super::ServiceController;

/// What is written to a Service.
pub(crate) enum Write {
    /// The finalizer and, if there is one, this annotation with the class, which later shows that
    /// this host has created the load balancer.
    AddFinalizer { note: Option<String> },
    /// The finalizer is removed, and with `note` the annotation with the class.
    RemoveFinalizer { note: bool },
    /// Only this annotation with the class: the finalizer is left to another implementation.
    LeaveFinalizer { note: String },
    /// The status of the load balancer.
    Status(LoadBalancerStatus),
}

impl Write {
    /// Returns a patch that fails if the Service with this UID was recreated.
    fn patch(&self, uid: &str) -> Patch {
        let finalizers = json!([FINALIZER]);
        let class = |note: Value| ("annotations", json!({ ANNOTATION_CLASS: note }));

        let fields = match self {
            // A strategic merge patch adds to the list: finalizers of others stay.
            Self::AddFinalizer { note } => [
                Some(("finalizers", finalizers)),
                note.as_ref().map(|note| class(json!(note))),
            ],
            // Without this directive, the patch would add to the list.
            Self::RemoveFinalizer { note } => [
                Some(("$deleteFromPrimitiveList/finalizers", finalizers)),
                note.then(|| class(Value::Null)),
            ],
            Self::LeaveFinalizer { note } => [Some(class(json!(note))), None],
            // A merge patch replaces the list of ingress points as a whole.
            Self::Status(status) => {
                let status = json!({ "loadBalancer": status_json(status) });
                return Patch::Merge(json!({ "metadata": { "uid": uid }, "status": status }));
            }
        };

        let uid = ("uid", json!(uid));
        let metadata: BTreeMap<_, _> = fields.into_iter().flatten().chain([uid]).collect();
        Patch::Strategic(json!({ "metadata": metadata }))
    }
}

impl ServiceController {
    /// Patches a Service. With the subresource, also for metadata: no other field of the Service
    /// can change, and fewer permissions are needed.
    pub(crate) async fn write(
        &self,
        entry: &Entry<ServiceKind>,
        write: &Write,
    ) -> Result<(), ApiError> {
        let namespace = entry.object.metadata.namespace.as_deref();
        let target = Target {
            namespace,
            name: entry.name(),
            subresource: Some("status"),
        };

        patch::<Service>(&self.client, &target, &write.patch(entry.uid()))
            .await
            .map(drop)
    }
}
