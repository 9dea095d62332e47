//! What an attempt at a goal consists of: its goal, steps and failures, and what follows from a
//! failure.

use std::time::Duration;

use skydock_cloud::{CloudError, LoadBalancerStatus, NodeSet};
use skydock_kube::{api::ApiError, informer::Entry, queue::Priority};

use super::{
    event::Event,
    state::{Sent, State},
};
use crate::{
    calls::retry::{self, Again},
    objects::{convert::ConvertError, kinds::ServiceKind},
    service::Classes,
};

/// One attempt at a goal, for one version of a Service.
pub(crate) struct Attempt<'a> {
    pub(crate) goal: Goal,
    /// The version of the Service.
    pub(crate) entry: &'a Entry<ServiceKind>,
    /// A re-check reports only what it changes.
    pub(crate) priority: Priority,
    pub(crate) classes: &'a Classes,
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

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Add the finalizer and, if there is one, this annotation with the class.
    AddFinalizer { note: Option<String> },
    /// Select the nodes for the load balancer.
    SelectNodes,
    /// Have the cloud create or change the load balancer. `before` is what was sent before these
    /// nodes.
    Ensure { nodes: NodeSet, before: Sent },
    /// Have the cloud change the nodes of the load balancer.
    UpdateNodes { nodes: NodeSet, before: Sent },
    /// Ask the cloud whether there is a load balancer.
    Look(Why),
    /// Have the cloud delete the load balancer.
    Delete,
    /// Write this status.
    WriteStatus(LoadBalancerStatus),
    /// Remove the status.
    ClearStatus,
    /// Remove the finalizer and, if there is one, the annotation with the class.
    RemoveFinalizer { note: bool },
    /// Leave the finalizer to another implementation, and write this annotation with the class.
    LeaveFinalizer { note: String },
    /// Remove the Service from memory.
    Forget,
    /// Remember the Service under a different key, so that its successor can use its key.
    SetAside,
    /// The attempt has ended.
    Done(Vec<Requeue>),
}

/// Why the cloud is asked whether there is a load balancer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is to be deleted.
    CleanUp,
    /// Its nodes could not be updated. Without a load balancer, this is not worth a warning.
    NotUpdated { nodes: NodeSet, error: CloudError },
}

/// What to put into which queue after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// Reset the back-off of this attempt.
    Reset,
    /// Retry this attempt.
    Retry(Again),
    /// Check the load balancer after the period of checks.
    Check,
    /// Ensure the load balancer after this delay.
    Ensure(Duration),
    /// Update the nodes of the load balancer.
    UpdateNodes,
}

/// What to report, and what to do next.
#[derive(Debug)]
pub(crate) struct Turn {
    /// To be logged and counted.
    pub(crate) failure: Option<Failure>,
    /// To be published.
    pub(crate) events: Vec<Event>,
    /// To be performed.
    pub(crate) step: Step,
}

/// The state after a step, and what follows.
pub(crate) type Next = (State, Turn);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A call to the cloud.
    #[error("{0}: {1}")]
    Cloud(&'static str, #[source] CloudError),
    /// A request to the API server.
    #[error("{0}: {1}")]
    Api(&'static str, #[source] ApiError),
    /// The Service is invalid.
    #[error("{0}")]
    Invalid(ConvertError),
    /// The load balancer of a Service that does not exist could not be deleted.
    #[error("{0}")]
    Gone(#[source] CloudError),
    /// The nodes of a load balancer could not be updated.
    #[error("{0}")]
    Nodes(#[source] CloudError),
    /// The cloud could not say whether there is a load balancer whose nodes could not be updated.
    #[error("{0}")]
    Look(#[source] CloudError),
}

impl Failure {
    /// Returns when to retry.
    fn again(&self) -> Again {
        match self {
            Self::Cloud(_, error) | Self::Gone(error) | Self::Nodes(error) | Self::Look(error) => {
                Again::after(error)
            }
            Self::Api(_, ApiError::Changed(_)) => Again::Soon,
            Self::Api(..) => Again::BackOff,
            Self::Invalid(_) => Again::OnChange,
        }
    }

    /// Returns true if it is reported by an event.
    fn warns(&self) -> bool {
        match self {
            Self::Cloud(_, error) | Self::Gone(error) | Self::Nodes(error) | Self::Look(error) => {
                retry::warns(error)
            }
            Self::Api(..) | Self::Invalid(_) => true,
        }
    }
}

impl State {
    /// Continues with a step, without a report.
    pub(super) fn then(self, step: Step) -> Next {
        self.report(Vec::new(), step)
    }

    /// Publishes events, and continues with a step.
    pub(super) fn report(self, events: Vec<Event>, step: Step) -> Next {
        (
            self,
            Turn {
                failure: None,
                events,
                step,
            },
        )
    }
}

impl Attempt<'_> {
    /// Ends an attempt that failed.
    ///
    /// An invalid or rejected Service is checked later: the cloud and the plugin can change, and
    /// events expire. This also applies to a Service that does not exist.
    pub(super) fn failed(&self, mut state: State, failure: Failure) -> Next {
        let mut events = Vec::new();
        if failure.warns() {
            let gone = matches!(failure, Failure::Gone(_));
            events.push((if gone {
                Event::DeleteFailed
            } else {
                Event::SyncFailed
            })(failure.to_string()));
            state.work().failed = true;
        }

        let requeue = match failure.again() {
            Again::OnChange => vec![Requeue::Reset, Requeue::Check],
            again => vec![Requeue::Retry(again)],
        };

        (
            state,
            Turn {
                failure: Some(failure),
                events,
                step: Step::Done(requeue),
            },
        )
    }
}
