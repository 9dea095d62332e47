//! The state of a Service and its load balancer, as far as it is known, and what that decides. All
//! functions are pure.

use skydock_cloud::{CloudError, LoadBalancerStatus, NodeFields};
use skydock_controller_base::calls::retry::RetryWhen;
use skydock_kube::queue::Priority;
use tokio::time::Instant;

use super::fingerprint::Fingerprint;
use crate::plan::{finalizer::AddedBy, status};

/// What is known about a Service. After it is restored from the record of an earlier process, it
/// changes only while the Service is worked on, in an [`Attempt`](crate::attempt::Attempt).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// What the cloud has.
    pub(crate) phase: LoadBalancerPhase,
    /// Which nodes it has.
    pub(crate) sent: SentNodes,
    /// The fields of them that the provider has read.
    pub(crate) node_fields: NodeFields,
    /// The status that was last written, or is being written, if any: the cache may not contain it
    /// yet.
    pub(crate) written_status: Option<LoadBalancerStatus>,
    /// Who has added the finalizer.
    pub(crate) finalizer_added_by: AddedBy,
    /// The sync that has not succeeded yet; `None` if the last attempt to ensure the load balancer
    /// has succeeded, or if there was none.
    pub(crate) unfinished_sync: Option<UnfinishedSync>,
}

/// What the cloud has for a Service, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadBalancerPhase {
    /// No load balancer, and none was requested.
    Absent,
    /// A load balancer, and no request about it is unfinished.
    Present,
    /// Creating or changing it was requested, and the cloud has not reported that this is finished.
    Ensuring {
        /// There was a load balancer before.
        exists: bool,
    },
    /// The Service is invalid, or was rejected by the cloud: it is not ensured again before it
    /// changes.
    Rejected {
        /// There is a load balancer for an earlier version.
        exists: bool,
        /// A request is unfinished, so that there may be a part of a load balancer.
        requested: bool,
    },
    /// Deleting it was requested, and the cloud has not reported that this is finished.
    Deleting,
    /// The provider has answered that another implementation owns the Service.
    LeftToOthers,
}

/// Which nodes were sent to the cloud last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentNodes {
    /// It is not known: only an earlier process may have sent nodes.
    Unknown,
    Nodes(Fingerprint),
    /// It is not known, because the call that sent other nodes failed.
    Failed,
    /// It is not known either, and the cloud has asked to wait until this time.
    Postponed(Instant),
}

/// A sync that has not succeeded: all attempts since the first. What was reported about them is not
/// reported again, but success is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnfinishedSync {
    /// An event announced this.
    pub(crate) announced: Option<Announced>,
    /// An event said that there are no nodes.
    pub(crate) no_nodes: bool,
    /// An event said that an attempt failed.
    pub(crate) failed: bool,
}

/// What an event announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// That the load balancer is being created or changed.
    Ensuring,
    /// That it is being deleted.
    Deleting,
    /// That it was deleted.
    Deleted,
}

/// What metrics tell about a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It is as the Service wants it, as far as is known.
    Ready,
    /// It is being created or changed, and no attempt has failed.
    Pending,
    /// The last attempt has failed, or the Service was rejected.
    Failing,
    /// It is being deleted, and no attempt has failed.
    Deleting,
}

/// What to do about nodes that differ from those that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Nothing,
    /// Update the existing load balancer, even if the Service could not be ensured.
    Update,
    /// Retry the unfinished request soon: the load balancer may not exist because of the nodes.
    Retry,
}

impl LoadBalancerPhase {
    /// Returns true if the cloud has a load balancer.
    pub(crate) fn exists(self) -> bool {
        match self {
            Self::Present => true,
            Self::Ensuring { exists } | Self::Rejected { exists, .. } => exists,
            Self::Absent | Self::Deleting | Self::LeftToOthers => false,
        }
    }

    /// Returns true if the cloud has not finished a request.
    pub(crate) fn requested(self) -> bool {
        match self {
            Self::Ensuring { .. } | Self::Deleting => true,
            Self::Rejected { requested, .. } => requested,
            Self::Absent | Self::Present | Self::LeftToOthers => false,
        }
    }

    /// Returns true if the Service is not ensured again before it changes.
    pub(crate) fn is_rejected(self) -> bool {
        matches!(self, Self::Rejected { .. })
    }

    /// Returns the phase while the load balancer is being ensured.
    pub(crate) fn ensuring(self) -> Self {
        Self::Ensuring {
            exists: self.exists(),
        }
    }

    /// Returns the phase after the Service was rejected.
    pub(crate) fn rejected(self) -> Self {
        Self::Rejected {
            exists: self.exists(),
            requested: self.requested(),
        }
    }

    /// Returns the phase after someone else has deleted the load balancer.
    pub(crate) fn vanished(self) -> Self {
        match self {
            Self::Absent | Self::Present => Self::Absent,
            Self::Ensuring { .. } => Self::Ensuring { exists: false },
            Self::Rejected { requested, .. } => Self::Rejected {
                exists: false,
                requested,
            },
            Self::Deleting | Self::LeftToOthers => self,
        }
    }
}

impl State {
    /// Returns what is known about a Service that this process has not worked on. `served` says
    /// whether its status contains a load balancer.
    pub(crate) fn new(served: bool) -> Self {
        let phase = if served {
            LoadBalancerPhase::Present
        } else {
            LoadBalancerPhase::Absent
        };

        Self {
            phase,
            sent: SentNodes::Unknown,
            node_fields: NodeFields::default(),
            written_status: None,
            finalizer_added_by: AddedBy::Unknown,
            unfinished_sync: None,
        }
    }

    /// Returns what to do if these are the current nodes.
    pub(crate) fn follow(&self, current: Fingerprint, now: Instant) -> Follow {
        match self.sent {
            SentNodes::Nodes(sent) if sent.is_same(current, self.node_fields) => {
                return Follow::Nothing;
            }
            // The attempt that is scheduled for then includes them.
            SentNodes::Postponed(until) if now < until => return Follow::Nothing,
            _ => {}
        }

        match self.phase {
            LoadBalancerPhase::Present
            | LoadBalancerPhase::Ensuring { exists: true }
            | LoadBalancerPhase::Rejected { .. } => Follow::Update,
            LoadBalancerPhase::Ensuring { exists: false } => Follow::Retry,
            // If the Service is wanted again, ensuring it includes the nodes.
            LoadBalancerPhase::Absent
            | LoadBalancerPhase::Deleting
            | LoadBalancerPhase::LeftToOthers => Follow::Nothing,
        }
    }

    /// Returns true if the nodes that were sent are these.
    pub(crate) fn has_sent(&self, nodes: SentNodes) -> bool {
        match (self.sent, nodes) {
            (SentNodes::Nodes(sent), SentNodes::Nodes(nodes)) => {
                sent.is_same(nodes, self.node_fields)
            }
            (sent, nodes) => sent == nodes,
        }
    }

    /// Returns true if the provider has left the Service to another implementation.
    pub(crate) fn is_left_to_others(&self) -> bool {
        self.phase == LoadBalancerPhase::LeftToOthers
    }

    /// Returns how the load balancer is; `None` if it is left to another implementation.
    pub(crate) fn health(&self) -> Option<Health> {
        let has_failed =
            self.unfinished_sync.is_some_and(|sync| sync.failed) || self.sent == SentNodes::Failed;

        match self.phase {
            LoadBalancerPhase::LeftToOthers => None,
            LoadBalancerPhase::Rejected { .. } => Some(Health::Failing),
            _ if has_failed => Some(Health::Failing),
            LoadBalancerPhase::Present => Some(Health::Ready),
            LoadBalancerPhase::Absent | LoadBalancerPhase::Ensuring { .. } => Some(Health::Pending),
            LoadBalancerPhase::Deleting => Some(Health::Deleting),
        }
    }

    /// Returns with which priority the Service is checked after the plugin was replaced: the new
    /// plugin may fix what is not in the desired state, or what has failed before anything was
    /// requested.
    pub(crate) fn recheck(&self) -> Priority {
        let unfinished =
            self.unfinished_sync.is_some() || self.phase.requested() || self.phase.is_rejected();
        if unfinished {
            Priority::Change
        } else {
            Priority::Recheck
        }
    }

    /// Returns the unfinished sync, which begins if there is none.
    pub(crate) fn unfinished_sync(&mut self) -> &mut UnfinishedSync {
        self.unfinished_sync.get_or_insert_default()
    }

    /// Begins the sync, or continues it. Returns true if this is to be announced: it has not been
    /// announced yet.
    pub(crate) fn begin(&mut self, announce: Option<Announced>) -> bool {
        let sync = self.unfinished_sync();
        announce.is_some_and(|what| sync.announced.replace(what) != Some(what))
    }

    /// Returns true if it is to be reported that there are no nodes: not again by a retry.
    pub(crate) fn report_no_nodes(&mut self) -> bool {
        !std::mem::replace(&mut self.unfinished_sync().no_nodes, true)
    }

    /// Applies while the cloud ensures the load balancer with these nodes, and also if that fails:
    /// the cloud may have applied a part of it. Returns what was sent before.
    pub(crate) fn ensuring(&mut self, nodes: Fingerprint) -> SentNodes {
        self.phase = self.phase.ensuring();
        std::mem::replace(&mut self.sent, SentNodes::Nodes(nodes))
    }

    /// Applies after the cloud has ensured the load balancer. Returns true if its status is to be
    /// written. The cache may not contain the last written one yet.
    pub(crate) fn ensured(
        &mut self,
        cached: &LoadBalancerStatus,
        ensured: &LoadBalancerStatus,
    ) -> bool {
        self.phase = LoadBalancerPhase::Present;

        let other = |before: &LoadBalancerStatus| !status::is_same(before, ensured);
        let differs = other(cached) || self.written_status.as_ref().is_some_and(other);
        if differs {
            self.written_status = Some(ensured.clone());
        }
        differs
    }

    /// Applies after the cloud has failed to ensure the load balancer. `before` is what was sent
    /// before. Returns true if the nodes of an existing load balancer may not have been updated.
    pub(crate) fn not_ensured(&mut self, before: SentNodes, error: &CloudError) -> bool {
        if matches!(error, CloudError::Invalid(_)) {
            self.phase = self.phase.rejected();
        }

        let missed = self.phase.exists() && !self.has_sent(before);
        if missed {
            // A wait that the cloud has asked for goes on, and the first update after a start still
            // emits no event.
            self.sent = match before {
                SentNodes::Unknown | SentNodes::Postponed(_) => before,
                SentNodes::Nodes(_) | SentNodes::Failed => SentNodes::Failed,
            };
        }
        missed
    }

    /// Ends the sync. Returns true if success is reported: the status was written, or something was
    /// reported before.
    pub(crate) fn finished(&mut self, written: bool) -> bool {
        let sync = self.unfinished_sync.take().unwrap_or_default();
        written || sync.announced.is_some() || sync.failed
    }

    /// Returns what to do about these nodes, and what was sent before. If it is to update them,
    /// this applies while the cloud does that.
    pub(crate) fn updating(&mut self, nodes: Fingerprint, now: Instant) -> (Follow, SentNodes) {
        let (follow, before) = (self.follow(nodes, now), self.sent);
        if follow == Follow::Update {
            self.sent = SentNodes::Nodes(nodes);
        }
        (follow, before)
    }

    /// Applies after the cloud has failed to update the nodes. `again` says when it may succeed.
    pub(crate) fn not_updated(&mut self, again: RetryWhen, now: Instant) {
        self.sent = match again {
            // Other nodes.
            RetryWhen::OnChange => self.sent,
            RetryWhen::After(delay) => SentNodes::Postponed(now + delay),
            RetryWhen::Soon | RetryWhen::BackOff => SentNodes::Failed,
        };
    }
}

#[cfg(test)]
mod tests;
