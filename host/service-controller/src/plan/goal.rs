//! What a Service needs, and the goal of an attempt.

use k8s_openapi::api::core::v1::Service;

use super::{deleting, needs_cleanup, wants_load_balancer};
use crate::Classes;

/// What a Service needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it is not served by Skydock.
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
    DeleteOrphan {
        /// It was recreated; the new Service waits for this.
        recreated: bool,
    },
    /// The load balancer has the current nodes.
    UpdateNodes,
}

/// Returns what this Service needs. `was_processed` says whether this process has processed it
/// before, or found its load balancer.
#[must_use]
pub(crate) fn need(service: &Service, classes: &Classes, was_processed: bool) -> Need {
    if needs_cleanup(service, classes) {
        Need::Cleanup
    } else if wants_load_balancer(service, classes) && !deleting(service) {
        Need::Ensure
    } else if was_processed {
        // It does not want a load balancer, and someone else has removed the finalizer.
        Need::Cleanup
    } else {
        Need::Nothing
    }
}

/// Returns the goal for a Service in the cache; `None` if nothing is to be done.
/// `was_processed` says the same as for [`need`].
pub(crate) fn goal(present: &Service, classes: &Classes, was_processed: bool) -> Option<Goal> {
    match need(present, classes, was_processed) {
        Need::Nothing => None,
        Need::Ensure => Some(Goal::Ensure),
        Need::Cleanup => Some(Goal::CleanUp),
    }
}

/// Returns the goal for a known Service that has disappeared, maybe because it was deleted and
/// recreated unnoticed: its load balancer is deleted first. `present` is what the cache has under
/// its name.
pub(crate) fn goal_if_gone(before: &Service, present: Option<&Service>) -> Option<Goal> {
    let same = present.is_some_and(|present| present.metadata.uid == before.metadata.uid);
    (!same).then_some(Goal::DeleteOrphan {
        recreated: present.is_some(),
    })
}
