//! Divides a plugin's instances among its capabilities, so that one that hangs does not block the
//! others.

use std::collections::BTreeSet;

use crate::answers::overlap::Overlap;
use skydock_cloud::{CallKind, Capability, PerKind};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Minimum number of instances that can be divided: one for each kind.
const FEWEST: usize = 3;

/// Divides all instances among the plugin's capabilities; none if there are too few. Clouds are
/// slowest with load balancers, which therefore get the most.
fn split(instances: usize, capabilities: &BTreeSet<Capability>) -> Option<PerKind<usize>> {
    if instances < FEWEST {
        return None;
    }

    let has = |kind| {
        capabilities
            .iter()
            .any(|capability| CallKind::from(*capability) == kind)
    };

    let share = CallKind::reserved(instances);
    let mut split = PerKind {
        nodes: if has(CallKind::Nodes) { share } else { 0 },
        routes: if has(CallKind::Routes) { share } else { 0 },
        load_balancers: 0,
    };

    let rest = instances - split.nodes - split.routes;
    if has(CallKind::LoadBalancers) {
        split.load_balancers = rest;
    } else if split.nodes > 0 {
        split.nodes += rest;
    } else {
        split.routes += rest;
    }

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
    OneEach([Semaphore; Capability::ALL.len()]),
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
                return Self::OneEach(Capability::ALL.map(|_| Semaphore::new(1)));
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
    use Capability::{Instances, LoadBalancers, Routes, Zones};

    // Holds: SEC-10
    #[test]
    fn instances_are_split_among_exported_capabilities() {
        let all: &[Capability] = &[Instances, LoadBalancers, Routes, Zones];
        let table = [
            (36, all, Some((8, 8, 20))),
            (116, all, Some((8, 8, 100))),
            (24, all, Some((6, 6, 12))),
            (3, all, Some((1, 1, 1))),
            (2, all, None),
            (1, all, None),
            (36, &[Instances, LoadBalancers], Some((8, 0, 28))),
            (36, &[LoadBalancers, Routes], Some((0, 8, 28))),
            (36, &[Zones, Routes], Some((28, 8, 0))),
            (36, &[Zones], Some((36, 0, 0))),
            (36, &[Routes], Some((0, 36, 0))),
        ];
        for (instances, capabilities, expected) in table {
            let found = split(instances, &capabilities.iter().copied().collect());
            let found = found.map(|it| (it.nodes, it.routes, it.load_balancers));
            assert_eq!(found, expected, "{instances} for {capabilities:?}");
        }
    }
}
