//! Address pools: what may be given to services of type LoadBalancer.

use std::net::IpAddr;

use crate::range::{Family, Range};

/// A named set of ranges. No address is in two pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Name, as in the annotation `static.skydock.dev/address-pool`.
    pub name: String,
    /// In the order of the inventory.
    pub ranges: Vec<Range>,
    /// False if only services that ask for this pool, or for an address in it, get one.
    pub auto_assign: bool,
}

impl Pool {
    /// True if the address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// True if it has addresses of this family.
    #[must_use]
    pub fn has(&self, family: Family) -> bool {
        self.ranges.iter().any(|range| range.family() == family)
    }

    /// Its addresses of this family, in the order of the inventory, one at a time.
    pub fn addresses(&self, family: Family) -> impl Iterator<Item = IpAddr> + '_ {
        self.ranges.iter().filter(move |range| range.family() == family).flat_map(|range| range.addresses())
    }
}

/// All pools, in the order of the inventory, which is the order they are used in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools(pub Vec<Pool>);

impl Pools {
    /// The pool of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Pool> {
        self.0.iter().find(|pool| pool.name == name)
    }

    /// The pool this address is in.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> Option<&Pool> {
        self.0.iter().find(|pool| pool.contains(address))
    }

    /// The pools' names for a message: `a, b`, or `none`.
    #[must_use]
    pub fn names(&self) -> String {
        if self.0.is_empty() {
            return "none".to_owned();
        }
        self.0.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_family_by_family_in_the_order_of_the_inventory() {
        let ranges = ["192.0.2.8/31", "2001:db8::/127", "192.0.2.1"].map(|text| text.parse().unwrap()).to_vec();
        let pool = Pool { name: "default".into(), ranges, auto_assign: true };
        let texts = |family| pool.addresses(family).map(|address| address.to_string()).collect::<Vec<_>>();
        assert_eq!(texts(Family::V4), ["192.0.2.8", "192.0.2.9", "192.0.2.1"]);
        assert_eq!(texts(Family::V6), ["2001:db8::", "2001:db8::1"]);
    }
}
