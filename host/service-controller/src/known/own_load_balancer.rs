//! Whether a Service that is handed over has a load balancer of Skydock.
//!
//! Nothing is deleted in the cloud at a hand-over. An event tells whether a load balancer of
//! Skydock stays there:
//!
//! | Load balancer | Finalizer, class annotation | Own load balancer |
//! | --- | --- | --- |
//! | not known to exist | | none |
//! | whose status this process has written | | known |
//! | other | live annotation, unless it was written over a finalizer that was there | known |
//! | other | finalizer in the cache, added by this process | known |
//! | other | finalizer in the cache | possible |
//! | other | no finalizer | none |

use k8s_openapi::api::core::v1::Service;

use super::state::State;
use crate::plan::{class_annotation, finalizer::AddedBy, has_finalizer};

/// Whether Skydock has a load balancer for a Service that it hands over, which stays in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnLoadBalancer {
    None,
    /// There is a load balancer, but it is not known who has created it: maybe an earlier process.
    Possible,
    /// One has been created here.
    Known,
}

impl OwnLoadBalancer {
    /// Returns what is known about the load balancer of a Service before it is handed over.
    pub(crate) fn of(service: &Service, state: &State) -> Self {
        let (added_by, has_finalizer) = (state.finalizer_added_by, has_finalizer(service));
        let over_others = matches!(
            added_by,
            AddedBy::MaybeOthers | AddedBy::ThisProcessAfterOthers
        );

        let was_created = state.written_status.is_some()
            || (class_annotation::is_live(service) && !over_others)
            || (has_finalizer && added_by.is_this_process());

        if !state.phase.exists() {
            Self::None
        } else if was_created {
            Self::Known
        } else if has_finalizer {
            Self::Possible
        } else {
            Self::None
        }
    }
}

#[cfg(test)]
mod tests;
