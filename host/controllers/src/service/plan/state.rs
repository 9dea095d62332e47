//! What is known about a Service and its load balancer.

use skydock_cloud::{LoadBalancerStatus, Looked};
use skydock_kube::queue::Priority;
use tokio::time::Instant;

use crate::service::selection::Fingerprint;

/// What is known about a Service. It changes only while the Service is worked on, as the
/// [`Attempt`](super::step::Attempt) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// What the cloud has.
    pub(crate) phase: Phase,
    /// Which nodes it has.
    pub(crate) sent: Sent,
    /// What the provider has looked at of them.
    pub(crate) looked: Looked,
    /// The last written status, if any: the cache may not contain it yet.
    pub(crate) written: Option<LoadBalancerStatus>,
    /// This process has added the finalizer.
    pub(crate) ours: bool,
    /// The current work; `None` if the last attempt to ensure the load balancer has succeeded, or
    /// if there was none.
    pub(crate) work: Option<Work>,
}

/// What the cloud has for a Service, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
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
    Elsewhere,
}

/// Which nodes were sent to the cloud last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is not known: only an earlier process may have sent nodes.
    Unknown,
    /// These nodes.
    Nodes(Fingerprint),
    /// It is not known, because the call that sent other nodes failed.
    Failed,
    /// It is not known either, and the cloud has asked to wait until this time.
    Postponed(Instant),
}

/// All attempts from the first one to success. What was reported about them is not reported again,
/// but success is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
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
}

/// What to do about nodes that differ from those that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Nothing.
    Nothing,
    /// Update the existing load balancer, even if the Service could not be ensured.
    Update,
    /// Retry the unfinished request soon: the load balancer may not exist because of the nodes.
    Retry,
}

impl Phase {
    /// Returns true if the cloud has a load balancer.
    pub(crate) fn exists(self) -> bool {
        match self {
            Self::Present => true,
            Self::Ensuring { exists } | Self::Rejected { exists, .. } => exists,
            Self::Absent | Self::Deleting | Self::Elsewhere => false,
        }
    }

    /// Returns true if the cloud has not finished a request.
    pub(crate) fn requested(self) -> bool {
        match self {
            Self::Ensuring { .. } | Self::Deleting => true,
            Self::Rejected { requested, .. } => requested,
            Self::Absent | Self::Present | Self::Elsewhere => false,
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
            Self::Deleting | Self::Elsewhere => self,
        }
    }
}

impl State {
    /// Returns what is known about a Service that this process has not worked on. `served` says
    /// whether its status contains a load balancer.
    pub(crate) fn new(served: bool) -> Self {
        let phase = if served {
            Phase::Present
        } else {
            Phase::Absent
        };

        Self {
            phase,
            sent: Sent::Unknown,
            looked: Looked::default(),
            written: None,
            ours: false,
            work: None,
        }
    }

    /// Returns what to do if these are the current nodes.
    pub(crate) fn follow(&self, current: Fingerprint, now: Instant) -> Follow {
        match self.sent {
            Sent::Nodes(sent) if sent.is_same(current, self.looked) => return Follow::Nothing,
            // The attempt that is scheduled for then includes them.
            Sent::Postponed(until) if now < until => return Follow::Nothing,
            _ => {}
        }

        match self.phase {
            Phase::Present | Phase::Ensuring { exists: true } | Phase::Rejected { .. } => {
                Follow::Update
            }
            Phase::Ensuring { exists: false } => Follow::Retry,
            // If the Service is wanted again, ensuring it includes the nodes.
            Phase::Absent | Phase::Deleting | Phase::Elsewhere => Follow::Nothing,
        }
    }

    /// Returns true if the nodes that were sent are these.
    pub(super) fn has_sent(&self, nodes: Sent) -> bool {
        match (self.sent, nodes) {
            (Sent::Nodes(sent), Sent::Nodes(nodes)) => sent.is_same(nodes, self.looked),
            (sent, nodes) => sent == nodes,
        }
    }

    /// Returns true if the Service has, or is to have, a load balancer of this host.
    pub(crate) fn kept(&self) -> bool {
        self.phase != Phase::Elsewhere
    }

    /// Returns with which priority the Service is checked after the plugin was replaced: the new
    /// plugin may fix what is not in the desired state, or what has failed before anything was
    /// requested.
    pub(crate) fn recheck(&self) -> Priority {
        let unfinished = self.work.is_some() || self.phase.requested() || self.phase.is_rejected();
        if unfinished {
            Priority::Change
        } else {
            Priority::Recheck
        }
    }

    /// Returns the current work, which begins if there is none.
    pub(super) fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Returns true if the start of this work has not been announced yet.
    pub(super) fn announce(&mut self, what: Announced) -> bool {
        self.work().announced.replace(what) != Some(what)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Fingerprint = Fingerprint::of(1);

    /// All phases, with: a load balancer exists, a request is unfinished, what to do about other
    /// nodes.
    const PHASES: &[(Phase, bool, bool, Follow)] = &[
        (Phase::Absent, false, false, Follow::Nothing),
        (Phase::Present, true, false, Follow::Update),
        (
            Phase::Ensuring { exists: false },
            false,
            true,
            Follow::Retry,
        ),
        (Phase::Ensuring { exists: true }, true, true, Follow::Update),
        (
            Phase::Rejected {
                exists: false,
                requested: false,
            },
            false,
            false,
            Follow::Update,
        ),
        (
            Phase::Rejected {
                exists: false,
                requested: true,
            },
            false,
            true,
            Follow::Update,
        ),
        (
            Phase::Rejected {
                exists: true,
                requested: false,
            },
            true,
            false,
            Follow::Update,
        ),
        (
            Phase::Rejected {
                exists: true,
                requested: true,
            },
            true,
            true,
            Follow::Update,
        ),
        (Phase::Deleting, false, true, Follow::Nothing),
        (Phase::Elsewhere, false, false, Follow::Nothing),
    ];

    // Holds: S-46, S-48
    #[test]
    fn the_phase_decides_what_other_nodes_need() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for &(phase, _, _, follow) in PHASES {
            for (sent, expected) in [
                (Sent::Unknown, follow),
                (Sent::Failed, follow),
                (Sent::Nodes(Fingerprint::of(2)), follow),
                (Sent::Nodes(NOW), Follow::Nothing),
                (Sent::Postponed(now + second), Follow::Nothing),
                (Sent::Postponed(now), follow),
            ] {
                let state = State {
                    phase,
                    sent,
                    ..State::new(false)
                };
                assert_eq!(state.follow(NOW, now), expected, "{state:?}");
            }
        }
    }

    #[test]
    fn what_the_provider_looks_at_decides_which_nodes_are_others() {
        const LABELED: Fingerprint = Fingerprint::with(1, 2);
        const MOVED: Fingerprint = Fingerprint::with(2, 2);
        for (current, looked, expected) in [
            (NOW, Looked::Nodes, Follow::Nothing),
            (LABELED, Looked::Targets, Follow::Nothing),
            (LABELED, Looked::Nodes, Follow::Update),
            (MOVED, Looked::Targets, Follow::Update),
            (MOVED, Looked::Nodes, Follow::Update),
        ] {
            let state = State {
                sent: Sent::Nodes(NOW),
                looked,
                ..State::new(true)
            };
            assert_eq!(state.follow(current, Instant::now()), expected, "{state:?}");
            let same = state.has_sent(Sent::Nodes(current));
            assert_eq!(same, expected == Follow::Nothing, "{state:?}");
        }
    }

    #[test]
    fn each_phase_knows_what_the_cloud_has() {
        for &(phase, exists, requested, _) in PHASES {
            assert_eq!(
                (phase.exists(), phase.requested()),
                (exists, requested),
                "{phase:?}"
            );
            assert_eq!(
                phase.rejected(),
                Phase::Rejected { exists, requested },
                "{phase:?}"
            );
            assert_eq!(phase.ensuring(), Phase::Ensuring { exists }, "{phase:?}");
            let vanished = phase.vanished();
            assert_eq!(
                (vanished.exists(), vanished.requested()),
                (false, requested),
                "{phase:?}"
            );
            assert_eq!(vanished.is_rejected(), phase.is_rejected(), "{phase:?}");
        }
    }

    #[test]
    fn a_new_plugin_checks_unfinished_and_rejected_services_first() {
        for &(phase, _, requested, _) in PHASES {
            let settled = !requested && !matches!(phase, Phase::Rejected { .. });
            let expected = if settled {
                Priority::Recheck
            } else {
                Priority::Change
            };
            let state = State {
                phase,
                ..State::new(false)
            };
            assert_eq!(state.recheck(), expected, "{phase:?}");
            let failed = State {
                work: Some(Work::default()),
                ..state
            };
            assert_eq!(failed.recheck(), Priority::Change, "{phase:?}");
        }
    }

    #[test]
    fn a_service_with_an_address_has_a_load_balancer() {
        assert_eq!(
            (State::new(true).phase, State::new(false).phase),
            (Phase::Present, Phase::Absent)
        );
    }

    #[test]
    fn each_start_is_announced_once_per_work() {
        let mut state = State::new(false);
        assert!(state.announce(Announced::Ensuring) && !state.announce(Announced::Ensuring));
        assert!(state.announce(Announced::Deleting) && state.announce(Announced::Ensuring));
        state.work = None;
        assert!(state.announce(Announced::Ensuring));
    }
}
