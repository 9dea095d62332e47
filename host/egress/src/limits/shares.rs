//! Divides what the requests of a plugin share among the kinds of its calls, so that requests of a
//! kind that hang leave the others their part.

use std::{collections::BTreeSet, sync::Arc};

use skydock_cloud::{CallKind, Capability, PerKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::request_error::{Cause, Code, RequestError};

/// The kinds of calls that a plugin serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(PerKind<bool>);

impl Kinds {
    /// All kinds.
    pub(crate) const ALL: Self = Self(PerKind {
        nodes: true,
        routes: true,
        load_balancers: true,
        volumes: true,
    });

    /// Returns the kinds of these capabilities.
    pub(crate) fn of(capabilities: &BTreeSet<Capability>) -> Self {
        let served: BTreeSet<CallKind> = capabilities.iter().copied().map(Into::into).collect();
        Self(PerKind::of(|kind| served.contains(&kind)))
    }

    fn serves(self, kind: CallKind) -> bool {
        *self.0.get(kind)
    }

    fn count(self) -> usize {
        CallKind::ALL
            .into_iter()
            .filter(|kind| self.serves(*kind))
            .count()
    }
}

/// Permits for a limited quantity. A part is reserved for each kind, and all kinds use the rest.
#[derive(Debug)]
pub(crate) struct Shares {
    reserved: PerKind<Arc<Semaphore>>,
    common: Arc<Semaphore>,
}

impl Shares {
    /// Divides `all`: `part` for each of the kinds, if there are so many.
    pub(crate) fn new(all: usize, part: usize, kinds: Kinds) -> Self {
        let part = part.min(all / kinds.count().max(1));
        let of = |kind| if kinds.serves(kind) { part } else { 0 };

        Self {
            reserved: PerKind::of(|kind| Arc::new(Semaphore::new(of(kind)))),
            common: Arc::new(Semaphore::new(all - part * kinds.count())),
        }
    }

    /// Waits for a permit, in the order of arrival within the kind.
    ///
    /// # Errors
    /// None; the semaphores are never closed.
    pub(crate) async fn acquire(
        &self,
        kind: CallKind,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
        self.acquire_many(kind, 1).await
    }

    /// Waits for so many permits, which are all of the reserved part or all of the common one.
    ///
    /// # Errors
    /// None; the semaphores are never closed.
    pub(crate) async fn acquire_many(
        &self,
        kind: CallKind,
        number: u32,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
        // The reserved part first, so that the common one is left to others.
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(self.reserved.get(kind)).acquire_many_owned(number) => permit,
            permit = Arc::clone(&self.common).acquire_many_owned(number) => permit,
        };

        permit.map_err(|_| {
            RequestError::new(
                Code::InternalError,
                Cause::Internal,
                "the gateway is closed",
            )
        })
    }

    /// Returns a permit if there is one.
    pub(crate) fn try_acquire(&self, kind: CallKind) -> Option<OwnedSemaphorePermit> {
        self.try_acquire_many(kind, 1)
    }

    /// Returns so many permits, if there are as many in one of the parts.
    pub(crate) fn try_acquire_many(
        &self,
        kind: CallKind,
        number: u32,
    ) -> Option<OwnedSemaphorePermit> {
        [self.reserved.get(kind), &self.common]
            .into_iter()
            .find_map(|permits| Arc::clone(permits).try_acquire_many_owned(number).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(shares: &Shares, kind: CallKind) -> Vec<OwnedSemaphorePermit> {
        std::iter::from_fn(|| shares.try_acquire(kind)).collect()
    }

    #[test]
    fn each_kind_keeps_its_part() {
        use Capability::{Instances, LoadBalancers, Maintenance, Routes, Zones};
        let every: &[Capability] = &[Instances, LoadBalancers, Routes, Zones, Maintenance];
        // What load balancers can take first, and what is left for nodes and for routes.
        let table = [
            (64, 8, every, (48, 8, 8)),
            (36, 8, every, (20, 8, 8)),
            (3, 1, every, (1, 1, 1)),
            (2, 1, every, (2, 0, 0)),
            (64, 8, &[LoadBalancers, Zones], (56, 8, 0)),
            (64, 8, &[LoadBalancers], (64, 0, 0)),
        ];
        for (all, part, capabilities, expected) in table {
            let kinds = Kinds::of(&capabilities.iter().copied().collect());
            let shares = Shares::new(all, part, kinds);
            let held = [CallKind::LoadBalancers, CallKind::Nodes, CallKind::Routes]
                .map(|kind| taken(&shares, kind));
            let counts = (held[0].len(), held[1].len(), held[2].len());
            assert_eq!(counts, expected, "{all} for {capabilities:?}");
        }
    }

    #[tokio::test]
    async fn a_waiting_kind_takes_what_is_free_first() {
        let shares = Shares::new(5, 1, Kinds::ALL);
        let mut nodes = taken(&shares, CallKind::Nodes);
        assert_eq!(nodes.len(), 2);
        let waiting = shares.acquire(CallKind::Nodes);
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        // The common permit; the reserved one of another kind would not do.
        drop(taken(&shares, CallKind::Routes));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(nodes.pop());
        drop(waiting.await.unwrap());
    }
}
