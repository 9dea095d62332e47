//! Updates the nodes behind a load balancer.

use std::time::Duration;

use skydock_cloud::{CloudError, LoadBalancerStatus, NodeSet};
use tokio::time::Instant;

use super::{
    Need,
    event::Event,
    need,
    state::{Follow, Phase, Sent, State},
    step::{Attempt, Failure, Next, Requeue, Step, Turn, Why},
};
use crate::{
    calls::retry::{self, Again},
    service::selection::Choice,
};

/// Time for which changes of nodes are gathered for a load balancer that does not exist yet: each
/// is another attempt to create it.
const GATHER_FOR_NEW: Duration = Duration::from_secs(1);

impl Attempt<'_> {
    /// If the first known version of the Service is invalid, its node selector or source ranges may
    /// be what is invalid. A guess would send clients to the wrong nodes, or allow all clients.
    pub(super) fn start_update(&self, state: State) -> Next {
        let understood = self.entry.view.problem.is_none();
        let wanted = need(&self.entry.object, self.classes, false) == Need::Ensure;
        if understood && wanted {
            state.then(Step::SelectNodes)
        } else {
            finished(state, Vec::new())
        }
    }

    /// Without a load balancer, a failure is no warning; so the cloud is asked whether there is
    /// one, unless it has asked to wait.
    pub(crate) fn after_update_nodes(
        &self,
        mut state: State,
        nodes: NodeSet,
        before: Sent,
        (updated, now): (Result<(), CloudError>, Instant),
    ) -> Next {
        match updated {
            Ok(()) => {
                let events = match before {
                    // After a start, it is not known which nodes the load balancer had.
                    Sent::Unknown => Vec::new(),
                    _ if nodes.is_empty() => vec![Event::NoNodes],
                    _ => vec![Event::Updated],
                };
                finished(state, events)
            }
            Err(CloudError::ImplementedElsewhere) => finished(state, Vec::new()),
            // There may be none, and recreating it would be rejected.
            Err(CloudError::NotFound(_)) if state.phase.is_rejected() => {
                finished(state, Vec::new())
            }
            Err(CloudError::NotFound(_)) => {
                // The load balancer was deleted by someone else: recreate it.
                state.phase = state.phase.vanished();
                state.then(Step::Done(vec![Requeue::Ensure(Duration::ZERO)]))
            }
            Err(error) => {
                let failure = Some(Failure::Nodes(error.clone()));

                if let again @ Again::After(delay) = Again::after(&error) {
                    state.sent = Sent::Postponed(now + delay);
                    let step = Step::Done(vec![resend(state.phase, again)]);
                    let warns = retry::warns(&error) && state.phase.exists();
                    let events = if warns {
                        vec![Event::UpdateFailed(nodes, error)]
                    } else {
                        Vec::new()
                    };

                    return (
                        state,
                        Turn {
                            failure,
                            events,
                            step,
                        },
                    );
                }

                if retry::warns(&error) {
                    let step = Step::Look(Why::NotUpdated { nodes, error });
                    return (
                        state,
                        Turn {
                            failure,
                            events: Vec::new(),
                            step,
                        },
                    );
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
        let Why::NotUpdated { nodes, error } = why else {
            return self.found(state, found);
        };

        let (state, turn) = not_updated(state, &error);

        // Without an answer there may be a load balancer.
        let exists = !matches!(found, Ok(None) | Err(CloudError::NotFound(_)));
        let events = if exists {
            vec![Event::UpdateFailed(nodes, error)]
        } else {
            Vec::new()
        };
        let failure = found.err().filter(|_| exists).map(Failure::Look);

        (
            state,
            Turn {
                failure,
                events,
                ..turn
            },
        )
    }
}

/// Sends these nodes, if they differ from those that were sent.
pub(super) fn update(
    mut state: State,
    Choice { nodes, fingerprint }: Choice,
    now: Instant,
) -> Next {
    match (state.follow(fingerprint, now), state.sent) {
        (Follow::Nothing, Sent::Postponed(until)) if now < until => {
            // The scheduled attempt may be this one, which something else has started.
            let step = Step::Done(vec![resend(state.phase, Again::After(until - now))]);
            state.then(step)
        }
        (Follow::Nothing, _) => finished(state, Vec::new()),
        (Follow::Retry, _) => state.then(Step::Done(vec![Requeue::Ensure(GATHER_FOR_NEW)])),
        (Follow::Update, before) => {
            state.sent = Sent::Nodes(fingerprint);
            state.then(Step::UpdateNodes { nodes, before })
        }
    }
}

/// Ends an attempt after which nothing is to be done.
fn finished(state: State, events: Vec<Event>) -> Next {
    // Also if nothing was sent: an earlier failure does not matter then.
    state.report(events, Step::Done(vec![Requeue::Reset]))
}

/// Ends an attempt that failed.
fn not_updated(mut state: State, error: &CloudError) -> Next {
    let again = Again::after(error);
    if again == Again::OnChange {
        return finished(state, Vec::new());
    }
    state.sent = Sent::Failed;
    let step = Step::Done(vec![resend(state.phase, again)]);
    state.then(step)
}

/// Returns how to retry. Ensuring the load balancer includes its nodes.
fn resend(phase: Phase, again: Again) -> Requeue {
    match again {
        // It is already being ensured, which may fail before the nodes are updated; or ensuring it
        // would be rejected.
        again if phase.requested() || phase.is_rejected() => Requeue::Retry(again),
        Again::After(delay) => Requeue::Ensure(delay),
        _ => Requeue::Ensure(Duration::ZERO),
    }
}

#[cfg(test)]
mod tests;
