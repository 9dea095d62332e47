//! Patches Services: finalizer, class annotation, and status.

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

use crate::ServiceController;

/// What is written to a Service.
pub(crate) enum Write {
    /// The finalizer and, if there is one, this class annotation, which later shows that Skydock
    /// has created the load balancer.
    AddFinalizer { class_annotation: Option<String> },
    /// The finalizer is removed, and with `class_annotation` the annotation.
    RemoveFinalizer { class_annotation: bool },
    /// Only this class annotation: the finalizer is left to another implementation.
    LeaveFinalizer { class_annotation: String },
    /// The status of the load balancer.
    Status(LoadBalancerStatus),
}

impl Write {
    /// Returns a patch that fails if the Service with this UID was recreated.
    fn patch(&self, uid: &str) -> Patch {
        let finalizers = json!([FINALIZER]);
        let annotate = |value: Value| ("annotations", json!({ ANNOTATION_CLASS: value }));

        let fields = match self {
            // A strategic merge patch adds to the list: finalizers of others stay.
            Self::AddFinalizer { class_annotation } => [
                Some(("finalizers", finalizers)),
                class_annotation
                    .as_ref()
                    .map(|value| annotate(json!(value))),
            ],
            // Without this directive, the patch would add to the list.
            Self::RemoveFinalizer { class_annotation } => [
                Some(("$deleteFromPrimitiveList/finalizers", finalizers)),
                class_annotation.then(|| annotate(Value::Null)),
            ],
            Self::LeaveFinalizer { class_annotation } => {
                [Some(annotate(json!(class_annotation))), None]
            }
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
