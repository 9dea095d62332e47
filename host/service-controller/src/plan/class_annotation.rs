//! The class annotation: the class with which the load balancer of a Service was created, because
//! the API server drops the class when the type of a Service changes.
//!
//! | Value | Called | Meaning |
//! | --- | --- | --- |
//! | `CLASS@UID` | live | The load balancer was requested with this class, or without one if it is empty. |
//! | `left:CLASS@UID` | left | The finalizer was left to another implementation, which serves the Service. It is removed when the Service is deleted. |
//!
//! An annotation with the UID of another Service is ignored: annotations are copied with manifests.

use k8s_openapi::api::core::v1::Service;
use skydock_controller_base::objects::constants::ANNOTATION_CLASS;

use super::class;
use crate::Classes;

/// Begins the annotation of a finalizer that was left.
const LEFT: &str = "left:";

/// What the class annotation says.
pub(super) struct ClassAnnotation<'a> {
    /// The class with which the load balancer was created.
    pub(super) class: Option<&'a str>,
    /// The finalizer was left to another implementation.
    left: bool,
}

impl<'a> ClassAnnotation<'a> {
    /// Reads the annotation of a Service.
    pub(super) fn of(service: &'a Service) -> Option<Self> {
        let (class, uid) = service
            .metadata
            .annotations
            .as_ref()?
            .get(ANNOTATION_CLASS)?
            .rsplit_once('@')?;

        if service.metadata.uid.as_deref() != Some(uid) {
            return None;
        }

        let left = class.strip_prefix(LEFT);
        Some(Self {
            // The annotation of a Service without a class has an empty one.
            class: Some(left.unwrap_or(class)).filter(|class| !class.is_empty()),
            left: left.is_some(),
        })
    }
}

/// Returns true if the Service has the annotation, live or left.
pub(super) fn exists(service: &Service) -> bool {
    ClassAnnotation::of(service).is_some()
}

/// Returns true if the Service has the annotation of a load balancer that was requested.
pub(crate) fn is_live(service: &Service) -> bool {
    ClassAnnotation::of(service).is_some_and(|annotation| !annotation.left)
}

/// Returns true if the Service has the annotation of a finalizer that was left.
pub(super) fn is_left(service: &Service) -> bool {
    ClassAnnotation::of(service).is_some_and(|annotation| annotation.left)
}

/// Returns the live annotation, to be written on a Service that this host serves with a class;
/// `None` if the Service has it or no class. The annotation of another host stays until that host
/// has cleaned up. The annotation of a Service that has come back is replaced even if it has no
/// class.
#[must_use]
pub(crate) fn live_to_write(service: &Service) -> Option<String> {
    let class = class(service).or_else(|| is_left(service).then_some(""));
    let class = class.filter(|_| !is_live(service))?;
    Some(format!("{class}@{}", uid(service)))
}

/// Returns the annotation to be written with a finalizer that is left to another implementation:
/// this host then removes it when the Service is deleted, also after a restart.
pub(super) fn left_to_write(service: &Service, classes: &Classes) -> String {
    let annotation = ClassAnnotation::of(service);
    let created_with = annotation.map_or_else(|| class(service), |annotation| annotation.class);
    let created_with = created_with.filter(|class| classes.serve(Some(class)));
    format!(
        "{LEFT}{}@{}",
        created_with.unwrap_or_default(),
        uid(service)
    )
}

fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
}
