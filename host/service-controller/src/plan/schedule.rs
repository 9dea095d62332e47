//! Whether and how soon a change of a Service matters.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use skydock_cloud::LoadBalancerStatus;
use skydock_controller_base::objects::{constants::ANNOTATION_CLASS, kinds::ServiceKind};
use skydock_kube::{informer::Entry, queue::Priority};

use super::{
    class, class_annotation, deleting,
    goal::{Need, need},
    has_finalizer, needs_cleanup, spec, status, wants_load_balancer,
};
use crate::Classes;

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
pub(crate) struct Facts<'a> {
    /// Returns true for an annotation, or its removal, that Skydock wrote for the provider.
    pub(crate) written_by_skydock: &'a dyn Fn(&str, Option<&str>) -> bool,
    /// This process has worked on it, or found its load balancer, and does not leave it to others.
    pub(crate) is_ours: bool,
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
    facts: &Facts<'_>,
) -> Option<Schedule> {
    let [old_status, new_status] = [old, new].map(|entry| &entry.view.service.status);
    let written = facts.written_status.as_ref();

    if matters(&old.object, &new.object, classes, facts) {
        Some(Schedule::Now)
    } else if !facts.is_ours {
        None
    } else if needs_restore(&old.object, &new.object, classes) {
        Some(Schedule::Restore)
    } else if status::was_taken(old_status, new_status, written) {
        Some(Schedule::ReplaceStatus)
    } else {
        None
    }
}

/// Returns true if a changed Service is processed immediately. A load balancer of this
/// process is deleted with its Service, whatever the object says.
pub(super) fn matters(old: &Service, new: &Service, classes: &Classes, facts: &Facts<'_>) -> bool {
    needs_update(old, new, classes, facts.written_by_skydock)
        || (needs_cleanup(new, classes) && (deleting(new) || !facts.left_to_others))
        || (deleting(new) && !deleting(old) && facts.is_ours)
}

/// Returns true if a change of a Service affects its load balancer. `written_by_skydock` is that
/// of [`Facts`]: what Skydock has written is not a change.
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
