//! Updates the nodes behind a load balancer.

use std::time::Duration;

use skydock_cloud::{CloudError, LoadBalancerStatus, NodeSet};

use super::{
    Need,
    event::Event,
    need,
    state::{Follow, Sent, State},
    step::{Attempt, Failure, Next, Requeue, Step, Turn, Why},
};
use crate::{
    retry::{self, Again},
    service::selection::Choice,
};

/// Time for which changes of nodes are gathered for a load balancer that does not exist yet: each is another attempt to create
/// it.
const GATHER_FOR_NEW: Duration = Duration::from_secs(1);
/// The end of an attempt after which nothing is to be done.
const NOTHING: Step = Step::Done(Vec::new());

impl Attempt<'_> {
    /// If the first known version of the Service is invalid, its node selector or source ranges may be what is invalid. A guess
    /// would send clients to the wrong nodes, or allow all clients.
    pub(super) fn start_update(&self, state: State) -> Next {
        let understood = self.entry.view.problem.is_none();
        let wanted = need(&self.entry.object, self.classes, false) == Need::Ensure;
        state.then(if understood && wanted { Step::SelectNodes } else { NOTHING })
    }

    /// Without a load balancer, a failure is no warning; so the cloud is asked whether there is one.
    pub(crate) fn after_update_nodes(
        &self,
        mut state: State,
        nodes: NodeSet,
        before: Sent,
        updated: Result<(), CloudError>,
    ) -> Next {
        match updated {
            Ok(()) => {
                let events = match before {
                    // After a start, it is not known which nodes the load balancer had.
                    Sent::Unknown => Vec::new(),
                    _ if nodes.is_empty() => vec![Event::NoNodes],
                    _ => vec![Event::Updated],
                };
                state.report(events, Step::Done(vec![Requeue::Reset]))
            }
            Err(CloudError::ImplementedElsewhere) => state.then(NOTHING),
            Err(CloudError::NotFound(_)) if state.phase.is_rejected() => state.then(NOTHING),
            Err(CloudError::NotFound(_)) => {
                // The load balancer was deleted by someone else: recreate it.
                state.phase = state.phase.vanished();
                state.then(Step::Done(vec![Requeue::Ensure(Duration::ZERO)]))
            }
            Err(error) => {
                let failure = Some(Failure::Nodes(error.clone()));
                if retry::warns(&error) {
                    let step = Step::Look(Why::NotUpdated { nodes, error });
                    return (state, Turn { failure, events: Vec::new(), step });
                }
                let (state, turn) = not_updated(state, &error);
                (state, Turn { failure, ..turn })
            }
        }
    }

    /// Ends an attempt that failed, or continues a cleanup.
    pub(crate) fn after_look(
        &self,
        state: State,
        why: Why,
        found: Result<Option<LoadBalancerStatus>, CloudError>,
    ) -> Next {
        let Why::NotUpdated { nodes, error } = why else { return self.found(state, found) };
        let (state, turn) = not_updated(state, &error);
        // Without an answer there may be a load balancer.
        let exists = !matches!(found, Ok(None) | Err(CloudError::NotFound(_)));
        let events = if exists { vec![Event::UpdateFailed(nodes, error)] } else { Vec::new() };
        let failure = found.err().filter(|_| exists).map(Failure::Look);
        (state, Turn { failure, events, ..turn })
    }
}

/// Sends these nodes, if they differ from those that were sent.
pub(super) fn update(mut state: State, Choice { nodes, fingerprint }: Choice) -> Next {
    match state.follow(fingerprint) {
        Follow::Nothing => state.then(NOTHING),
        Follow::Retry => state.then(Step::Done(vec![Requeue::Ensure(GATHER_FOR_NEW)])),
        Follow::Update => {
            let before = std::mem::replace(&mut state.sent, Sent::Nodes(fingerprint));
            state.then(Step::UpdateNodes { nodes, before })
        }
    }
}

/// Ends an attempt that failed. Ensuring the load balancer includes its nodes.
fn not_updated(mut state: State, error: &CloudError) -> Next {
    let again = Again::after(error);
    if again == Again::OnChange {
        return state.then(NOTHING);
    }
    state.sent = Sent::Failed;
    let requeue = match again {
        // It is already being ensured, which may fail before the nodes are updated; or ensuring it would be rejected.
        again if state.phase.requested() || state.phase.is_rejected() => Requeue::Retry(again),
        Again::After(delay) => Requeue::Ensure(delay),
        _ => Requeue::Ensure(Duration::ZERO),
    };
    state.then(Step::Done(vec![requeue]))
}

#[cfg(test)]
mod tests;
