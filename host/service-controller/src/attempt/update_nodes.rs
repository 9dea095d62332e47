//! Updates the nodes behind a load balancer.

use std::time::Duration;

use skydock_cloud::{CloudError, NodeSet};
use skydock_controller_base::calls::retry::{self, RetryWhen};
use tokio::time::Instant;

use super::{Attempt, Failure, Requeue, event::Event, io::Io};
use crate::{
    known::state::{Follow, LoadBalancerPhase, SentNodes},
    nodes::selection::SelectedNodes,
    plan::goal::{Need, need},
};

/// Time for which changes of nodes are gathered for a load balancer that does not exist yet: each
/// is another attempt to create it.
const GATHER_FOR_NEW: Duration = Duration::from_secs(1);

impl Attempt<'_> {
    /// Sends the current nodes to the cloud, if they differ from those that were sent.
    pub(crate) async fn update_nodes(&self, io: &mut dyn Io) -> Vec<Requeue> {
        let known = self.known;
        // An earlier failure does not matter then, also if nothing was sent.
        let finished = vec![Requeue::Reset];

        // If the first known version of the Service is invalid, its node selector or source ranges
        // may be what is invalid. A guess would send clients to the wrong nodes, or allow all
        // clients.
        let understood = self.entry.view.problem.is_none();
        if !understood || need(&self.entry.object, self.classes, false) != Need::Ensure {
            return finished;
        }

        let SelectedNodes { nodes, fingerprint } = io.select_nodes().await;
        let now = Instant::now();
        let phase = known.read(|state| state.phase);
        let before = match known.update(|state| state.updating(fingerprint, now)) {
            // The scheduled attempt may be this one, which something else has started.
            (Follow::Nothing, SentNodes::Postponed(until)) if now < until => {
                return vec![resend(phase, RetryWhen::After(until - now))];
            }
            (Follow::Nothing, _) => return finished,
            (Follow::Retry, _) => return vec![Requeue::Ensure(GATHER_FOR_NEW)],
            (Follow::Update, before) => before,
        };

        match io.update_nodes(&nodes).await {
            Ok(()) => {
                match before {
                    // After a start, it is not known which nodes the load balancer had.
                    SentNodes::Unknown => {}
                    _ if nodes.is_empty() => io.publish(Event::NoNodes),
                    _ => io.publish(Event::Updated),
                }
                finished
            }
            Err(CloudError::ImplementedElsewhere) => finished,
            // There may be none, and recreating it would be rejected.
            Err(CloudError::NotFound(_)) if phase.is_rejected() => finished,
            Err(CloudError::NotFound(_)) => {
                // The load balancer was deleted by someone else: recreate it.
                known.update(|state| state.phase = phase.vanished());
                vec![Requeue::Ensure(Duration::ZERO)]
            }
            Err(error) => self.not_updated(io, nodes, error).await,
        }
    }

    /// Ends an attempt whose call failed. Without a load balancer, a failure is no warning; so the
    /// cloud is asked whether there is one, unless it has asked to wait.
    async fn not_updated(
        &self,
        io: &mut dyn Io,
        nodes: NodeSet,
        error: CloudError,
    ) -> Vec<Requeue> {
        let now = Instant::now();
        let again = RetryWhen::after(&error);
        let phase = self.known.read(|state| state.phase);
        io.log_and_count(&Failure::Nodes(error.clone()));

        let warns = retry::warns(&error)
            && match again {
                RetryWhen::After(_) => phase.exists(),
                _ => may_exist(io).await,
            };
        if warns {
            io.publish(Event::UpdateFailed(nodes, error));
        }

        self.known.update(|state| state.not_updated(again, now));
        match again {
            RetryWhen::OnChange => vec![Requeue::Reset],
            again => vec![resend(phase, again)],
        }
    }
}

/// Asks the cloud whether there is a load balancer. Without an answer, there may be one.
async fn may_exist(io: &mut dyn Io) -> bool {
    match io.get_load_balancer().await {
        Ok(found) => found.is_some(),
        Err(CloudError::NotFound(_)) => false,
        Err(error) => {
            io.log_and_count(&Failure::GetLoadBalancer(error));
            true
        }
    }
}

/// Returns how to retry. Ensuring the load balancer includes its nodes.
fn resend(phase: LoadBalancerPhase, again: RetryWhen) -> Requeue {
    match again {
        // It is already being ensured, which may fail before the nodes are updated; or ensuring it
        // would be rejected.
        again if phase.requested() || phase.is_rejected() => Requeue::Retry(again),
        RetryWhen::After(delay) => Requeue::Ensure(delay),
        _ => Requeue::Ensure(Duration::ZERO),
    }
}

#[cfg(test)]
mod tests;
