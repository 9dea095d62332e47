//! A cluster CIDR, and how it is cut into Pod CIDRs of nodes.

use ipnet::IpNet;

/// Bits between the two prefixes of an IPv6 range, at most; upstream's.
const MOST_BITS_IPV6: u8 = 16;
/// Bits between the two prefixes of an IPv4 range, at most: 16 million Pod CIDRs. Ours, so that memory has a bound.
const MOST_BITS_IPV4: u8 = 24;

/// A cluster CIDR that is cut into Pod CIDRs of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    cluster: IpNet,
    mask: u8,
}

/// Why a cluster CIDR cannot be cut as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRangeError {
    /// Longer than an address.
    #[error("/{mask} is no prefix of {cluster}'s IP family: it has at most {} bits", .cluster.max_prefix_len())]
    NoPrefix {
        /// What is to be cut.
        cluster: IpNet,
        /// Into this.
        mask: u8,
    },
    /// A node would get more than there is.
    #[error("/{mask} is larger than all of {cluster}: a node's prefix must be as long or longer")]
    LargerThanCluster {
        /// What is to be cut.
        cluster: IpNet,
        /// Into this.
        mask: u8,
    },
    /// More Pod CIDRs than can be kept account of.
    #[error(
        "a /{mask} for each node is too small for {cluster}: the prefixes may differ by {most} bits, so /{} at most",
        .cluster.prefix_len() + .most
    )]
    TooMany {
        /// What is to be cut.
        cluster: IpNet,
        /// Into this.
        mask: u8,
        /// Bits of difference, at most.
        most: u8,
    },
}

impl NodeRange {
    /// Cuts `cluster` into CIDRs with a prefix of `mask` bits.
    ///
    /// # Errors
    ///
    /// If it cannot be cut so.
    pub fn new(cluster: IpNet, mask: u8) -> Result<Self, NodeRangeError> {
        let cluster = cluster.trunc();
        if mask > cluster.max_prefix_len() {
            return Err(NodeRangeError::NoPrefix { cluster, mask });
        }
        let most = if cluster.addr().is_ipv4() { MOST_BITS_IPV4 } else { MOST_BITS_IPV6 };
        match mask.checked_sub(cluster.prefix_len()) {
            None => Err(NodeRangeError::LargerThanCluster { cluster, mask }),
            Some(bits) if bits > most => Err(NodeRangeError::TooMany { cluster, mask, most }),
            Some(_) => Ok(Self { cluster, mask }),
        }
    }

    /// What is cut.
    #[must_use]
    pub fn cluster(self) -> IpNet {
        self.cluster
    }

    /// Prefix length of a node's Pod CIDR.
    #[must_use]
    pub fn mask(self) -> u8 {
        self.mask
    }

    /// How many Pod CIDRs there are.
    pub(crate) fn len(self) -> usize {
        1 << (self.mask - self.cluster.prefix_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(cluster: &str, mask: u8) -> Result<usize, String> {
        NodeRange::new(cluster.parse().unwrap(), mask).map(NodeRange::len).map_err(|error| error.to_string())
    }

    #[test]
    fn i03_i07_a_range_is_cut_into_as_many_cidrs_as_the_prefixes_differ() {
        for (cluster, mask, count) in [
            ("10.244.0.0/16", 24, 256),
            ("10.0.0.0/8", 32, 1 << 24),
            ("192.0.2.1/32", 32, 1),
            ("0.0.0.0/0", 8, 256),
            ("fd00::/48", 64, 1 << 16),
            ("fd00::/112", 128, 1 << 16),
        ] {
            assert_eq!(range(cluster, mask), Ok(count), "{cluster} {mask}");
        }
    }

    #[test]
    fn i03_i07_prefixes_that_cannot_work_are_refused_with_both_named() {
        for (cluster, mask, expected) in [
            ("10.244.0.0/16", 15, "/15 is larger than all of 10.244.0.0/16"),
            ("10.244.0.0/16", 33, "/33 is no prefix of 10.244.0.0/16's IP family: it has at most 32 bits"),
            ("fd00::/64", 129, "at most 128 bits"),
            (
                "fd00::/47",
                64,
                "a /64 for each node is too small for fd00::/47: the prefixes may differ by 16 bits, so /63",
            ),
            ("0.0.0.0/0", 25, "the prefixes may differ by 24 bits, so /24"),
        ] {
            let error = range(cluster, mask).unwrap_err();
            assert!(error.contains(expected), "{cluster} {mask}: {error}");
        }
    }
}
