//! Divides a plugin's instances among its capabilities, so that one that hangs does not block the
//! others.

use std::collections::BTreeSet;

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

/// Permits for instances, by capability.
#[derive(Debug)]
pub(super) enum Shares {
    /// One semaphore for all.
    One(Semaphore),
    /// One semaphore for each kind.
    Each(PerKind<Semaphore>),
    /// One permit for each capability.
    OneEach(Box<[Semaphore; Capability::ALL.len()]>),
}

impl Shares {
    pub(super) fn new(
        instances: usize,
        capabilities: &BTreeSet<Capability>,
        overlap: Overlap,
    ) -> Self {
        match overlap {
            Overlap::Any => {}
            Overlap::PerInterface => {
                return Self::OneEach(Capability::ALL.map(|_| Semaphore::new(1)).into());
            }
            Overlap::None => return Self::One(Semaphore::new(1)),
        }

        match split(instances, capabilities) {
            None => Self::One(Semaphore::new(instances)),
            Some(split) => Self::Each(PerKind::of(|kind| Semaphore::new(*split.get(kind)))),
        }
    }

    /// Waits for a permit. The semaphores are never closed, so there is always one.
    pub(super) async fn acquire(&self, capability: Capability) -> Option<SemaphorePermit<'_>> {
        let permits = match self {
            Self::One(all) => all,
            Self::Each(each) => each.get(capability.into()),
            Self::OneEach(each) => each.get(capability as usize)?,
        };
        permits.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
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
}
