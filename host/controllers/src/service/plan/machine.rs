//! One attempt at what a Service needs, as a machine.
//!
//! ```text
//! Ensure       AddFinalizer? → SelectNodes → Ensure → WriteStatus? → Done
//! CleanUp      Look? → Delete? → RemoveFinalizer? → ClearStatus? → Forget → Done
//! Forget       Delete → Forget → Done; or, if it blocks a successor, Delete → SetAside → Done
//! UpdateNodes  SelectNodes → UpdateNodes → Look? → Done
//! ```
//!
//! If another implementation owns the Service, `Ensure` and `CleanUp` continue with
//! `RemoveFinalizer? → Forget → Done`.
//!
//! [`Attempt::start`] returns the first step. For each step there is a function `after_…` from its
//! outcome to the state, what to report, and the next step: in `ensure.rs`, `cleanup.rs` and
//! `nodes.rs`, or here if it depends on the goal. After a failure, the next step is `Done`. The
//! state that comes with a step applies while the step is performed: its answer may never arrive.

use tokio::time::Instant;

use super::{
    cleanup::delete,
    nodes::update,
    state::State,
    step::{Attempt, Goal, Next},
};
use crate::service::selection::Choice;

impl Attempt<'_> {
    /// Returns the first step.
    pub(crate) fn start(&self, state: State) -> Next {
        match self.goal {
            Goal::Ensure => self.start_ensure(state),
            Goal::CleanUp => self.start_cleanup(state),
            Goal::Forget { .. } => delete(state, true),
            Goal::UpdateNodes => self.start_update(state),
        }
    }

    /// Sends the selected nodes to the cloud.
    pub(crate) fn after_select_nodes(&self, state: State, choice: Choice, now: Instant) -> Next {
        if self.goal == Goal::UpdateNodes {
            update(state, choice, now)
        } else {
            self.ensure(state, choice)
        }
    }
}

#[cfg(test)]
mod tests;
