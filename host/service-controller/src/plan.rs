//! Rules about the object: whether and how soon a change matters, what a Service needs, and who
//! serves it; in its modules, what its class annotation says, what happens to its finalizer, and
//! whether statuses differ. All functions are pure.

pub(crate) mod class_annotation;
pub(crate) mod finalizer;
pub(crate) mod status;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use skydock_cloud::LoadBalancerStatus;
use skydock_controller_base::objects::{
    constants::{ANNOTATION_CLASS, FINALIZER},
    kinds::ServiceKind,
};
use skydock_kube::{informer::Entry, queue::Priority};

use self::class_annotation::ClassAnnotation;
use super::Classes;

/// What a Service needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it is not served by this host.
    Nothing,
    /// A load balancer that corresponds to its specification.
    Ensure,
    /// Its load balancer must be deleted, and finalizer and status removed.
    Cleanup,
}

/// What an attempt is to achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The load balancer corresponds to the Service.
    Ensure,
    /// The Service exists and does not want its load balancer: it is deleted, and what it has left
    /// on the object is removed.
    CleanUp,
    /// The load balancer of a Service that has disappeared is deleted: someone else has removed its
    /// finalizer, or it was recreated with the same name.
    Forget {
        /// It was recreated; the new Service waits for this.
        recreated: bool,
    },
    /// The load balancer has the current nodes.
    UpdateNodes,
}

/// Returns what this Service needs. `known` says whether this process has processed it before, or
/// found its load balancer.
#[must_use]
pub(crate) fn need(service: &Service, classes: &Classes, known: bool) -> Need {
    if needs_cleanup(service, classes) {
        Need::Cleanup
    } else if wants_load_balancer(service, classes) && !deleting(service) {
        Need::Ensure
    } else if known {
        // It does not want a load balancer, and someone else has removed the finalizer.
        Need::Cleanup
    } else {
        Need::Nothing
    }
}

/// Returns the goal for a Service in the cache; `None` if nothing is to be done. `known` says the
/// same as for [`need`].
pub(crate) fn goal(present: &Service, classes: &Classes, known: bool) -> Option<Goal> {
    match need(present, classes, known) {
        Need::Nothing => None,
        Need::Ensure => Some(Goal::Ensure),
        Need::Cleanup => Some(Goal::CleanUp),
    }
}

/// Returns the goal for a known Service that has disappeared, maybe because it was deleted and
/// recreated unnoticed: its load balancer is deleted first. `present` is what the cache has under
/// its name.
pub(crate) fn goal_if_gone(known: &Service, present: Option<&Service>) -> Option<Goal> {
    let same = present.is_some_and(|present| present.metadata.uid == known.metadata.uid);
    (!same).then_some(Goal::Forget {
        recreated: present.is_some(),
    })
}

/// Returns whether and with which priority a Service that appears in the cache is processed: one
/// that has its load balancer can wait.
pub(crate) fn appeared(service: &Service, classes: &Classes) -> Option<Priority> {
    match need(service, classes, false) {
        Need::Nothing => None,
        Need::Ensure if has_finalizer(service) && status::has_load_balancer(service) => {
            Some(Priority::Recheck)
        }
        Need::Ensure | Need::Cleanup => Some(Priority::Change),
    }
}

/// What is known about a Service that changes.
pub(crate) struct Known<'a> {
    /// Returns true for an annotation, or its removal, that Skydock wrote for the provider.
    pub(crate) written_by_skydock: &'a dyn Fn(&str, Option<&str>) -> bool,
    /// This process keeps a load balancer for it.
    pub(crate) kept: bool,
    /// The provider has left it to another implementation.
    pub(crate) left_to_others: bool,
    /// The status that this process has written last.
    pub(crate) written_status: Option<LoadBalancerStatus>,
}

/// When a Service that has changed is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Immediately.
    Now,
    /// At the pace of restores: someone else has removed something, and may remove it again each
    /// time.
    Restore,
    /// After a while: someone else has written a status, and may write it again each time.
    ReplaceStatus,
}

/// Returns when a changed Service is processed; `None` if the change does not matter.
pub(crate) fn schedule(
    old: &Entry<ServiceKind>,
    new: &Entry<ServiceKind>,
    classes: &Classes,
    known: &Known<'_>,
) -> Option<Schedule> {
    let [old_status, new_status] = [old, new].map(|entry| &entry.view.service.status);
    let written = known.written_status.as_ref();

    if matters(&old.object, &new.object, classes, known) {
        Some(Schedule::Now)
    } else if !known.kept {
        None
    } else if needs_restore(&old.object, &new.object, classes) {
        Some(Schedule::Restore)
    } else if status::was_taken(old_status, new_status, written) {
        Some(Schedule::ReplaceStatus)
    } else {
        None
    }
}

/// Returns true if a changed Service is processed immediately. A load balancer that is kept is
/// deleted with its Service, whatever the object says.
fn matters(old: &Service, new: &Service, classes: &Classes, known: &Known<'_>) -> bool {
    needs_update(old, new, classes, known.written_by_skydock)
        || (needs_cleanup(new, classes) && (deleting(new) || !known.left_to_others))
        || (deleting(new) && !deleting(old) && known.kept)
}

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

/// Returns true if this host has to remove what the load balancer of a Service has left on it.
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

/// Returns true if a change of a Service affects its load balancer. `written_by_skydock` is that
/// of [`Known`]: what Skydock has written is not a change.
#[must_use]
pub(crate) fn needs_update(
    old: &Service,
    new: &Service,
    classes: &Classes,
    written_by_skydock: impl Fn(&str, Option<&str>) -> bool,
) -> bool {
    let wanted = wants_load_balancer(old, classes);
    let wants = wants_load_balancer(new, classes);

    if !wanted && !wants {
        return false;
    }

    let empty = ServiceSpec::default();
    let a = spec(old).unwrap_or(&empty);
    let b = spec(new).unwrap_or(&empty);

    // The class is compared because it decides who serves the Service; all else is as in upstream.
    wanted != wants
        || old.metadata.uid != new.metadata.uid
        || class(old) != class(new)
        || annotations_differ(old, new, written_by_skydock)
        || list(a.load_balancer_source_ranges.as_ref())
            != list(b.load_balancer_source_ranges.as_ref())
        || list(a.ports.as_ref()) != list(b.ports.as_ref())
        || a.session_affinity != b.session_affinity
        || a.session_affinity_config != b.session_affinity_config
        || a.load_balancer_ip.as_deref().unwrap_or_default()
            != b.load_balancer_ip.as_deref().unwrap_or_default()
        || list(a.external_ips.as_ref()) != list(b.external_ips.as_ref())
        || a.external_traffic_policy != b.external_traffic_policy
        || a.health_check_node_port.unwrap_or(0) != b.health_check_node_port.unwrap_or(0)
        || list(a.ip_families.as_ref()).len() != list(b.ip_families.as_ref()).len()
}

/// Returns true if a Service that wants its load balancer has lost the finalizer, the class
/// annotation or the status.
///
/// If the type is changed back during a cleanup, the cleanup removes them, and this appears in the
/// cache only after the Service was ensured again. Upstream does not restore them, and forgets such
/// a load balancer when the Service is deleted.
#[must_use]
pub(crate) fn needs_restore(old: &Service, new: &Service, classes: &Classes) -> bool {
    let lost = |has: fn(&Service) -> bool| has(old) && !has(new);
    let lost =
        lost(has_finalizer) || lost(status::has_load_balancer) || lost(class_annotation::is_live);
    wants_load_balancer(new, classes) && !deleting(new) && lost
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

fn list<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}

/// Compares annotations. A missing map equals an empty one, and the class annotation is ignored,
/// because Skydock writes it.
fn annotations_differ(
    old: &Service,
    new: &Service,
    written_by_skydock: impl Fn(&str, Option<&str>) -> bool,
) -> bool {
    let value = |of: &Service, key: &str| of.metadata.annotations.as_ref()?.get(key).cloned();
    let keys = [old, new]
        .into_iter()
        .flat_map(|it| it.metadata.annotations.iter().flatten().map(|(key, _)| key));

    keys.filter(|key| *key != ANNOTATION_CLASS).any(|key| {
        let now = value(new, key);
        value(old, key) != now && !written_by_skydock(key, now.as_deref())
    })
}

#[cfg(test)]
mod tests;
