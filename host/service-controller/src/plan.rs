//! Rules about the object: whether a change matters, what a Service needs, and who serves it. All
//! functions are pure.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use skydock_cloud::{Ingress, IpMode, LoadBalancerStatus};
use skydock_controller_base::objects::constants::{ANNOTATION_CLASS, FINALIZER};
use skydock_kube::queue::Priority;

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
        Need::Ensure if has_finalizer(service) && served(service) => Some(Priority::Recheck),
        Need::Ensure | Need::Cleanup => Some(Priority::Change),
    }
}

/// Returns true if a changed Service is processed immediately. `kept` says whether this process
/// keeps a load balancer for it, which is then deleted with it, whatever the object says.
/// `elsewhere` says whether the provider has left it to another implementation.
pub(crate) fn matters(
    old: &Service,
    new: &Service,
    classes: &Classes,
    echo: impl Fn(&str, Option<&str>) -> bool,
    kept: impl FnOnce() -> bool,
    elsewhere: impl FnOnce() -> bool,
) -> bool {
    needs_update(old, new, classes, echo)
        || (needs_cleanup(new, classes) && (deleting(new) || !elsewhere()))
        || (deleting(new) && !deleting(old) && kept())
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
    let dropped = !spec(service).is_some_and(is_load_balancer) && !is_left(service);
    let unwanted = deleting(service) || dropped;
    let moved = is_noted(service) && !classes.serve(class(service));
    has_finalizer(service) && (unwanted || moved) && is_ours(service, classes)
}

/// Returns true if this host has to remove what the load balancer of a Service has left on it.
///
/// The class with which it was created decides: the API server drops the class when the type of a
/// Service changes.
#[must_use]
pub(crate) fn is_ours(service: &Service, classes: &Classes) -> bool {
    made(service).map_or_else(
        || classes.clean_up(class(service)),
        |made| classes.serve(made.class),
    )
}

/// Returns true for Services of type LoadBalancer that another implementation serves.
pub(crate) fn is_others(service: &Service, classes: &Classes) -> bool {
    spec(service).is_some_and(is_load_balancer) && !classes.serve(class(service))
}

/// Returns the value of the annotation with the class, to be written on a Service that this host
/// serves with a class; `None` if the Service has the annotation or no class. The annotation of
/// another host stays until that host has cleaned up. The annotation of a Service that has come
/// back is replaced even if it has no class.
#[must_use]
pub(crate) fn note_to_write(service: &Service) -> Option<String> {
    let class = class(service).or_else(|| is_left(service).then_some(""));
    let class = class.filter(|_| !is_noted(service))?;
    Some(format!("{class}@{}", uid(service)))
}

/// Returns the value of the annotation with the class, to be written on a Service that has moved to
/// another implementation: this host then removes the finalizer when the Service is deleted, also
/// after a restart.
pub(crate) fn note_of_left(service: &Service, classes: &Classes) -> String {
    let made_as = made(service).map_or_else(|| class(service), |made| made.class);
    let made_as = made_as.filter(|class| classes.serve(Some(class)));
    format!("{LEFT}{}@{}", made_as.unwrap_or_default(), uid(service))
}

/// Returns true if the class with which the load balancer was created is recorded on the Service.
#[must_use]
pub(crate) fn is_noted(service: &Service) -> bool {
    made(service).is_some_and(|made| !made.left)
}

/// Returns true if the Service has the annotation with the class, also if its load balancer was
/// deleted.
pub(crate) fn has_note(service: &Service) -> bool {
    made(service).is_some()
}

/// Returns true if the load balancer was deleted and the finalizer left to another implementation.
fn is_left(service: &Service) -> bool {
    made(service).is_some_and(|made| made.left)
}

/// Begins the annotation with the class of a load balancer that was deleted.
const LEFT: &str = "left:";

/// What the annotation with the class says.
struct Made<'a> {
    /// The class with which the load balancer was created.
    class: Option<&'a str>,
    /// It was deleted, and the finalizer left for another implementation.
    left: bool,
}

/// Reads the annotation with the class. One with the UID of another Service is ignored: annotations
/// are copied with manifests.
fn made(service: &Service) -> Option<Made<'_>> {
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
    Some(Made {
        // The annotation of a Service without a class has an empty one.
        class: Some(left.unwrap_or(class)).filter(|class| !class.is_empty()),
        left: left.is_some(),
    })
}

fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
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

/// Returns true if a change of a Service affects its load balancer. `echo` returns true for an
/// annotation, or its removal, that Skydock wrote for the provider, and that is therefore not a
/// change.
#[must_use]
pub(crate) fn needs_update(
    old: &Service,
    new: &Service,
    classes: &Classes,
    echo: impl Fn(&str, Option<&str>) -> bool,
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
        || annotations_differ(old, new, echo)
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

/// Returns true if a Service that wants its load balancer has lost the finalizer, the annotation
/// with its class or the status.
///
/// If the type is changed back during a cleanup, the cleanup removes them, and this appears in the
/// cache only after the Service was ensured again. Upstream does not restore them, and forgets such
/// a load balancer when the Service is deleted.
#[must_use]
pub(crate) fn needs_mending(old: &Service, new: &Service, classes: &Classes) -> bool {
    let lost = |has: fn(&Service) -> bool| has(old) && !has(new);
    let lost = lost(has_finalizer) || lost(served) || lost(is_noted);
    wants_load_balancer(new, classes) && !deleting(new) && lost
}

/// Returns true if someone else has changed the status: it is neither as before nor as this process
/// has `written` it.
pub(crate) fn status_taken(
    old: &LoadBalancerStatus,
    new: &LoadBalancerStatus,
    written: Option<&LoadBalancerStatus>,
) -> bool {
    !same_status(old, new) && !written.is_some_and(|written| same_status(written, new))
}

/// Returns true if the status contains a load balancer.
#[must_use]
pub(crate) fn served(service: &Service) -> bool {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    status.is_some_and(|ingress| !ingress.is_empty())
}

/// Returns true if two statuses are equivalent. The API server sets mode VIP for an address without
/// a mode.
#[must_use]
pub(crate) fn same_status(a: &LoadBalancerStatus, b: &LoadBalancerStatus) -> bool {
    let meaning = |ingress: &Ingress| Ingress {
        ip_mode: if ingress.ip.is_some() {
            Some(ingress.ip_mode.unwrap_or(IpMode::Vip))
        } else {
            None
        },
        ..ingress.clone()
    };

    a.ingress
        .iter()
        .map(meaning)
        .eq(b.ingress.iter().map(meaning))
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

/// Compares annotations. A missing map equals an empty one, and the annotation with the class is
/// ignored, because Skydock writes it.
fn annotations_differ(
    old: &Service,
    new: &Service,
    echo: impl Fn(&str, Option<&str>) -> bool,
) -> bool {
    let value = |of: &Service, key: &str| of.metadata.annotations.as_ref()?.get(key).cloned();
    let keys = [old, new]
        .into_iter()
        .flat_map(|it| it.metadata.annotations.iter().flatten().map(|(key, _)| key));

    keys.filter(|key| *key != ANNOTATION_CLASS).any(|key| {
        let now = value(new, key);
        value(old, key) != now && !echo(key, now.as_deref())
    })
}

#[cfg(test)]
mod tests;
