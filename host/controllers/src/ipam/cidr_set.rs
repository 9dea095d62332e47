//! The Pod CIDRs of one range, and which of them are in use.

use std::{net::IpAddr, ops::RangeInclusive};

use ipnet::IpNet;

use super::{metrics::CidrSetMetrics, range::NodeRange};

/// The Pod CIDRs of one range.
///
/// The holders of each CIDR are counted, and it is free when it has none: if two nodes share one by
/// mistake, it does not become free for a third when one of them is deleted.
pub(crate) struct CidrSet {
    range: NodeRange,
    /// Number of holders of each Pod CIDR, in the order of addresses.
    holders: Vec<u32>,
    used: usize,
    /// Index at which the next search starts: a CIDR that was just released is the last one to be
    /// allocated again.
    next: usize,
    metrics: CidrSetMetrics,
}

impl CidrSet {
    pub(super) fn new(range: NodeRange, metrics: CidrSetMetrics) -> Self {
        metrics
            .max
            .set(i64::try_from(range.len()).unwrap_or(i64::MAX));
        Self {
            range,
            holders: vec![0; range.len()],
            used: 0,
            next: 0,
            metrics,
        }
    }

    pub(crate) fn range(&self) -> NodeRange {
        self.range
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used == self.holders.len()
    }

    /// Returns true if any part of the CIDR is in the range.
    pub(crate) fn overlaps(&self, cidr: IpNet) -> bool {
        self.span(cidr).is_some()
    }

    /// Returns true if any part of the CIDR has two or more holders.
    pub(crate) fn is_shared(&self, cidr: IpNet) -> bool {
        self.span(cidr)
            .and_then(|span| self.holders.get(span))
            .is_some_and(|held| held.iter().any(|&held| held > 1))
    }

    /// Allocates the next free CIDR: searches from the one after the last allocated, and wraps
    /// around.
    pub(crate) fn allocate(&mut self) -> Option<IpNet> {
        if self.is_full() {
            return None;
        }

        let (before, after) = self.holders.split_at(self.next.min(self.holders.len()));
        let steps = after.iter().chain(before).position(|&held| held == 0)?;
        let index = (self.next + steps) % self.holders.len();

        let cidr = self.cidr(index)?;
        self.hold(cidr);
        self.next = (index + 1) % self.holders.len();
        self.metrics.tries.observe(steps as f64 + 1.0);
        Some(cidr)
    }

    /// Adds a holder to all Pod CIDRs that overlap with this one.
    pub(crate) fn hold(&mut self, cidr: IpNet) {
        let Some(span) = self.span(cidr) else { return };
        for held in self.holders.get_mut(span).into_iter().flatten() {
            if *held == 0 {
                self.used += 1;
                self.metrics.allocations.inc();
            }
            *held += 1;
        }
        self.measure();
    }

    /// Removes a holder from all Pod CIDRs that overlap with this one. The holder must have been
    /// added by [`CidrSet::hold`] or [`CidrSet::allocate`].
    pub(crate) fn release(&mut self, cidr: IpNet) {
        let Some(span) = self.span(cidr) else { return };
        for held in self.holders.get_mut(span).into_iter().flatten() {
            if *held == 1 {
                self.used -= 1;
                self.metrics.releases.inc();
            }
            *held = held.saturating_sub(1);
        }
        self.measure();
    }

    fn measure(&self) {
        self.metrics
            .usage
            .set(self.used as f64 / self.holders.len() as f64);
    }

    /// Returns the number of address bits after the prefix of a Pod CIDR.
    fn shift(&self) -> u32 {
        u32::from(self.range.cluster().max_prefix_len() - self.range.mask())
    }

    fn cidr(&self, index: usize) -> Option<IpNet> {
        let offset = (index as u128).checked_shl(self.shift()).unwrap_or(0);
        let address: IpAddr = match self.range.cluster().network() {
            IpAddr::V4(base) => (base.to_bits() | u32::try_from(offset).ok()?)
                .to_be_bytes()
                .into(),
            IpAddr::V6(base) => (base.to_bits() | offset).to_be_bytes().into(),
        };
        IpNet::new(address, self.range.mask()).ok()
    }

    /// Returns the indices of all Pod CIDRs that overlap with this one; `None` if there are none.
    fn span(&self, cidr: IpNet) -> Option<RangeInclusive<usize>> {
        let cluster = self.range.cluster();

        // Two CIDRs are either disjoint, or one contains the other.
        let common = if cluster.contains(&cidr) {
            cidr
        } else if cidr.contains(&cluster) {
            cluster
        } else {
            return None;
        };

        let index = |address: IpAddr| {
            let offset = bits(address) - bits(cluster.network());
            usize::try_from(offset.checked_shr(self.shift()).unwrap_or(0)).ok()
        };

        Some(index(common.network())?..=index(common.broadcast())?)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests;
