//! Address pools for Services of type LoadBalancer.

use std::net::IpAddr;

use crate::pools::range::{Family, Range};

/// A named set of address ranges. An address is in one pool at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The name, as in the annotation `static.skydock.dev/address-pool`.
    pub name: String,
    /// The ranges, in the order of the inventory.
    pub ranges: Vec<Range>,
    /// False if only Services that request this pool, or an address in it, get its addresses.
    pub auto_assign: bool,
}

impl Pool {
    /// Returns true if the address is in the pool.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// Returns true if the pool has addresses of this family.
    #[must_use]
    pub fn has(&self, family: Family) -> bool {
        self.ranges.iter().any(|range| range.family() == family)
    }

    /// Iterates over the pool's addresses of this family, in the order of the inventory.
    pub fn addresses(&self, family: Family) -> impl Iterator<Item = IpAddr> + '_ {
        self.ranges
            .iter()
            .filter(move |range| range.family() == family)
            .flat_map(|range| range.addresses())
    }
}

/// All pools, in the order of the inventory, in which they are also used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools(pub Vec<Pool>);

impl Pools {
    /// Returns the pool with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Pool> {
        self.0.iter().find(|pool| pool.name == name)
    }

    /// Returns the pool that contains this address.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> Option<&Pool> {
        self.0.iter().find(|pool| pool.contains(address))
    }

    /// Returns the names of the pools for a message: `a, b`, or `none`.
    #[must_use]
    pub fn names(&self) -> String {
        if self.0.is_empty() {
            return "none".to_owned();
        }
        self.0
            .iter()
            .map(|pool| pool.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_inventory_order_within_each_family() {
        let ranges = ["192.0.2.8/31", "2001:db8::/127", "192.0.2.1"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        let pool = Pool {
            name: "default".into(),
            ranges,
            auto_assign: true,
        };
        let texts = |family| {
            pool.addresses(family)
                .map(|address| address.to_string())
                .collect::<Vec<_>>()
        };

        assert_eq!(texts(Family::V4), ["192.0.2.8", "192.0.2.9", "192.0.2.1"]);
        assert_eq!(texts(Family::V6), ["2001:db8::", "2001:db8::1"]);
    }
}
