//! What happens to the finalizer when Skydock has nothing more to do for a Service.
//!
//! All implementations use the same finalizer, and the API server does not say who has added it.
//! What this process knows is [`AddedBy`]; what an earlier process knew is in the
//! [class annotation](super::class_annotation), which is written together with the finalizer.
//!
//! After the load balancer was deleted, the first row that applies decides:
//!
//! | Service | Finalizer |
//! | --- | --- |
//! | without the finalizer | nothing to do |
//! | that another Skydock cleans up, by its class annotation or, without one, its class; unless this process has added the finalizer | kept |
//! | served by another implementation by now, and not being deleted | left: that implementation relies on it, as it may have found it |
//! | other | removed, with the class annotation |
//!
//! At a hand-over, when the provider answers that another implementation owns the Service:
//!
//! | Service | Finalizer added by | Finalizer |
//! | --- | --- | --- |
//! | without the finalizer | | nothing to do |
//! | being deleted | anyone | as after a deletion, so that the Service does not stay forever: an implementation that runs has seen the deletion as well |
//! | other | this process | as after a deletion |
//! | with a live class annotation | unknown: an earlier process | as after a deletion |
//! | with a live class annotation | maybe others | left: with a live annotation, it would look like that of an earlier process the next time |
//! | other | unknown or maybe others | kept |

use k8s_openapi::api::core::v1::Service;

use super::{
    class_annotation::{self, left_to_write, live_to_write},
    deleting, has_finalizer, is_cleaned_up_here, is_served_by_others,
};
use crate::Classes;

/// Who has added the finalizer, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddedBy {
    /// It is not known: this process has written neither the finalizer nor the class annotation.
    Unknown,
    /// Maybe another implementation: the finalizer was there when this process wrote the class
    /// annotation, which therefore does not say that Skydock has added it.
    MaybeOthers,
    /// This process.
    ThisProcess,
    /// This process, after one that was [maybe of others](Self::MaybeOthers) was removed.
    ThisProcessAfterOthers,
}

impl AddedBy {
    /// Applies after this process has written the finalizer, the class annotation or both. `before`
    /// says whether the Service had the finalizer before.
    pub(crate) fn after_write(self, before: bool) -> Self {
        match (self, before) {
            (Self::Unknown, true) => Self::MaybeOthers,
            (Self::Unknown, false) => Self::ThisProcess,
            (Self::MaybeOthers, false) => Self::ThisProcessAfterOthers,
            (known, _) => known,
        }
    }

    /// Returns true if this process has added it.
    pub(crate) fn is_this_process(self) -> bool {
        matches!(self, Self::ThisProcess | Self::ThisProcessAfterOthers)
    }
}

/// What to do about the finalizer and the class annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FinalizerAction {
    /// Nothing: the Service does not have the finalizer, or keeps it for others.
    Keep,
    /// The finalizer is removed, and with `class_annotation` the annotation.
    Remove { class_annotation: bool },
    /// The finalizer is left to another implementation, with this class annotation.
    Leave { class_annotation: String },
}

/// What decides on the finalizer at the end of an attempt.
pub(crate) struct Ending<'a> {
    /// The version of the Service for which the attempt is.
    pub(crate) service: &'a Service,
    /// The current version; `None` if it was deleted.
    pub(crate) present: Option<&'a Service>,
    pub(crate) classes: &'a Classes,
    pub(crate) added_by: AddedBy,
    /// The attempt was to ensure the load balancer. What this version of the Service lacks of
    /// finalizer and class annotation, the attempt has written.
    pub(crate) ensured: bool,
}

impl Ending<'_> {
    /// Returns what to do after the load balancer was deleted.
    pub(crate) fn after_deletion(&self) -> FinalizerAction {
        // The class annotation may have been edited.
        let is_own =
            self.added_by.is_this_process() || is_cleaned_up_here(self.service, self.classes);
        if !is_own || !self.has_finalizer() {
            return FinalizerAction::Keep;
        }

        let relied_on = self.present.is_some_and(|present| {
            is_served_by_others(present, self.classes)
                && !deleting(present)
                && has_finalizer(present)
        });

        if relied_on {
            self.leave()
        } else {
            FinalizerAction::Remove {
                class_annotation: class_annotation::exists(self.service)
                    || self.has_written_annotation(),
            }
        }
    }

    /// Returns what to do after the provider has left the Service to another implementation.
    pub(crate) fn at_hand_over(&self) -> FinalizerAction {
        let is_live = class_annotation::is_live(self.service) || self.has_written_annotation();
        match self.added_by {
            _ if !self.has_finalizer() => FinalizerAction::Keep,
            _ if deleting(self.service) => self.after_deletion(),
            AddedBy::ThisProcess | AddedBy::ThisProcessAfterOthers => self.after_deletion(),
            AddedBy::Unknown if is_live => self.after_deletion(),
            AddedBy::MaybeOthers if is_live => self.leave(),
            AddedBy::Unknown | AddedBy::MaybeOthers => FinalizerAction::Keep,
        }
    }

    fn leave(&self) -> FinalizerAction {
        FinalizerAction::Leave {
            class_annotation: left_to_write(self.service, self.classes),
        }
    }

    fn has_finalizer(&self) -> bool {
        self.ensured || has_finalizer(self.service)
    }

    fn has_written_annotation(&self) -> bool {
        self.ensured && live_to_write(self.service).is_some()
    }
}

#[cfg(test)]
mod tests;
