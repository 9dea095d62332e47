//! Divides a plugin's instances among its capabilities, so that one that hangs does not block the
//! others.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
};

use crate::answers::overlap::Overlap;
use skydock_cloud::{CallKind, Capability, PerKind};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The kinds of calls, the slowest in clouds first.
const SLOWEST: [CallKind; CallKind::ALL.len()] = [
    CallKind::LoadBalancers,
    CallKind::Volumes,
    CallKind::Nodes,
    CallKind::Routes,
];

/// Divides all instances among the plugin's capabilities; none if there are too few. The slowest
/// kind gets the most.
fn split(instances: usize, capabilities: &BTreeSet<Capability>) -> Option<PerKind<usize>> {
    let served: BTreeSet<CallKind> = capabilities.iter().copied().map(Into::into).collect();
    if instances < served.len() {
        return None;
    }

    let share = CallKind::reserved(instances);
    let mut split = PerKind::of(|kind| if served.contains(&kind) { share } else { 0 });

    let slowest = SLOWEST.into_iter().find(|kind| served.contains(kind))?;
    *split.get_mut(slowest) += instances - served.len() * share;

    Some(split)
}

/// Permits for instances.
#[derive(Debug)]
pub(super) enum InstanceShares {
    /// All calls share them.
    Common(Semaphore),
    /// Each kind of calls has its own.
    PerKind(PerKind<Semaphore>),
    /// Each capability has one.
    PerCapability(BTreeMap<Capability, Semaphore>),
}

impl InstanceShares {
    pub(super) fn new(
        instances: usize,
        capabilities: &BTreeSet<Capability>,
        overlap: Overlap,
    ) -> Self {
        match overlap {
            Overlap::Any => {}
            Overlap::PerInterface => {
                let one = |capability: &Capability| (*capability, Semaphore::new(1));
                return Self::PerCapability(capabilities.iter().map(one).collect());
            }
            Overlap::None => return Self::Common(Semaphore::new(1)),
        }

        match split(instances, capabilities) {
            None => Self::Common(Semaphore::new(instances)),
            Some(split) => Self::PerKind(PerKind::of(|kind| Semaphore::new(*split.get(kind)))),
        }
    }

    /// Waits for a permit: forever, if the plugin does not have the capability.
    pub(super) async fn acquire(&self, capability: Capability) -> SemaphorePermit<'_> {
        let permits = match self {
            Self::Common(common) => Some(common),
            Self::PerKind(kinds) => Some(kinds.get(capability.into())),
            Self::PerCapability(capabilities) => capabilities.get(&capability),
        };
        if let Some(permits) = permits
            && let Ok(permit) = permits.acquire().await
        {
            return permit;
        }

        // Without a permit, there must be no instance.
        pending().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use Capability::{Attachments, Instances, LoadBalancers, Routes, Volumes, Zones};

    // Holds: SEC-10
    #[test]
    fn instances_are_split_among_exported_capabilities() {
        let all: &[Capability] = &[Instances, LoadBalancers, Routes, Zones];
        let with_volumes: &[Capability] = &[Instances, LoadBalancers, Routes, Volumes, Attachments];
        let table = [
            (36, all, Some((8, 8, 20, 0))),
            (116, all, Some((8, 8, 100, 0))),
            (24, all, Some((6, 6, 12, 0))),
            (3, all, Some((1, 1, 1, 0))),
            (2, all, None),
            (1, all, None),
            (36, with_volumes, Some((8, 8, 12, 8))),
            (4, with_volumes, Some((1, 1, 1, 1))),
            (3, with_volumes, None),
            (36, &[Instances, LoadBalancers], Some((8, 0, 28, 0))),
            (36, &[LoadBalancers, Routes], Some((0, 8, 28, 0))),
            (36, &[Zones, Routes], Some((28, 8, 0, 0))),
            (36, &[Zones], Some((36, 0, 0, 0))),
            (36, &[Routes], Some((0, 36, 0, 0))),
            (36, &[Instances, Volumes], Some((8, 0, 0, 28))),
            (36, &[], None),
        ];
        for (instances, capabilities, expected) in table {
            let found = split(instances, &capabilities.iter().copied().collect());
            let found = found.map(|it| (it.nodes, it.routes, it.load_balancers, it.volumes));
            assert_eq!(found, expected, "{instances} for {capabilities:?}");
        }
    }

    // Holds: SEC-10
    #[test]
    fn no_capability_gets_more_than_its_permits() {
        let exported = BTreeSet::from([Instances, Zones, LoadBalancers]);
        // How many are held at the same time, by capability, in this order.
        let table = [
            (
                Overlap::Any,
                [(Instances, 8), (Zones, 0), (LoadBalancers, 28), (Routes, 0)],
            ),
            (
                Overlap::PerInterface,
                [(Instances, 1), (Zones, 1), (LoadBalancers, 1), (Routes, 0)],
            ),
            (
                Overlap::None,
                [(Instances, 1), (Zones, 0), (LoadBalancers, 0), (Routes, 0)],
            ),
        ];
        for (overlap, expected) in table {
            let shares = InstanceShares::new(36, &exported, overlap);
            let mut held = Vec::new();
            for (capability, count) in expected {
                let free = std::iter::from_fn(|| shares.acquire(capability).now_or_never());
                let permits: Vec<_> = free.collect();
                assert_eq!(permits.len(), count, "{capability:?} with {overlap:?}");
                held.push(permits);
            }
        }
    }
}
