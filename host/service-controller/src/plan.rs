//! Rules about a Service: who serves it; in its modules, whether and how soon a change matters
//! (`schedule`), what a Service needs (`goal`), what its class annotation says, what happens to its
//! finalizer, and whether statuses differ. All functions are pure.
//!
//! A rule belongs in the module of the question that it answers; a further step for a Service is a
//! case of `Goal`, which `attempt.rs` carries out. `known/state.rs` has the rules about what was
//! done before.

pub(crate) mod class_annotation;
pub(crate) mod finalizer;
pub(crate) mod goal;
pub(crate) mod schedule;
pub(crate) mod status;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use skydock_controller_base::objects::constants::FINALIZER;

use self::class_annotation::ClassAnnotation;
use super::Classes;

/// Returns true for Services of type LoadBalancer with a class that is served; others belong to
/// other implementations.
#[must_use]
pub fn wants_load_balancer(service: &Service, classes: &Classes) -> bool {
    spec(service).is_some_and(is_load_balancer) && classes.serve(class(service))
}

/// Returns true for Services that have the finalizer and are being deleted or are not of type
/// LoadBalancer, and for those whose load balancer was created here but whose class now belongs to
/// another implementation. A finalizer that was left to another implementation is removed only
/// when the Service is deleted.
#[must_use]
pub fn needs_cleanup(service: &Service, classes: &Classes) -> bool {
    let dropped =
        !spec(service).is_some_and(is_load_balancer) && !class_annotation::is_left(service);
    let unwanted = deleting(service) || dropped;
    let moved = class_annotation::is_live(service) && !classes.serve(class(service));
    has_finalizer(service) && (unwanted || moved) && is_cleaned_up_here(service, classes)
}

/// Returns true if Skydock has to remove what the load balancer of a Service has left on it.
///
/// The class with which it was created decides: the API server drops the class when the type of a
/// Service changes.
#[must_use]
pub(crate) fn is_cleaned_up_here(service: &Service, classes: &Classes) -> bool {
    ClassAnnotation::of(service).map_or_else(
        || classes.clean_up(class(service)),
        |annotation| classes.serve(annotation.class),
    )
}

/// Returns true for Services of type LoadBalancer that another implementation serves.
pub(crate) fn is_served_by_others(service: &Service, classes: &Classes) -> bool {
    spec(service).is_some_and(is_load_balancer) && !classes.serve(class(service))
}

/// Returns true if the Service has the finalizer.
#[must_use]
pub fn has_finalizer(service: &Service) -> bool {
    service
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER)
}

fn spec(service: &Service) -> Option<&ServiceSpec> {
    service.spec.as_ref()
}

fn class(service: &Service) -> Option<&str> {
    spec(service)?.load_balancer_class.as_deref()
}

fn is_load_balancer(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("LoadBalancer")
}

pub(crate) fn deleting(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests;
