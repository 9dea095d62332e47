//! A cluster CIDR, and how it is divided into Pod CIDRs of nodes.

use ipnet::IpNet;

/// Maximum difference between the prefix lengths of an IPv6 range, as in upstream.
const MOST_BITS_IPV6: u8 = 16;
/// Maximum difference between the prefix lengths of an IPv4 range: 16 million Pod CIDRs. Not in
/// upstream; it limits memory.
const MOST_BITS_IPV4: u8 = 24;

/// A cluster CIDR that is divided into Pod CIDRs of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    cluster: IpNet,
    mask: u8,
}

/// Why a cluster CIDR cannot be divided in this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRangeError {
    /// The prefix length is longer than an address.
    #[error("/{mask} is not a valid prefix length for {cluster}; expected at most {}", .cluster.max_prefix_len())]
    NoPrefix {
        /// The cluster CIDR.
        cluster: IpNet,
        /// The prefix length of a node's CIDR.
        mask: u8,
    },
    /// The CIDR of a node would be larger than the cluster CIDR.
    #[error(
        "a /{mask} for each node does not fit into {cluster}: use a prefix length of at least {}",
        .cluster.prefix_len()
    )]
    LargerThanCluster {
        /// The cluster CIDR.
        cluster: IpNet,
        /// The prefix length of a node's CIDR.
        mask: u8,
    },
    /// There are too many Pod CIDRs to be tracked.
    #[error(
        "a /{mask} for each node makes too many Pod CIDRs in {cluster}: the prefix lengths may differ by at most {most} bits, so use \
         a prefix length of at most {}",
        .cluster.prefix_len() + .most
    )]
    TooMany {
        /// The cluster CIDR.
        cluster: IpNet,
        /// The prefix length of a node's CIDR.
        mask: u8,
        /// Maximum difference between the prefix lengths.
        most: u8,
    },
}

impl NodeRange {
    /// Divides `cluster` into CIDRs with a prefix length of `mask`.
    ///
    /// # Errors
    ///
    /// Returns an error if the prefix length is not possible.
    pub fn new(cluster: IpNet, mask: u8) -> Result<Self, NodeRangeError> {
        let cluster = cluster.trunc();
        if mask > cluster.max_prefix_len() {
            return Err(NodeRangeError::NoPrefix { cluster, mask });
        }

        let most = if cluster.addr().is_ipv4() {
            MOST_BITS_IPV4
        } else {
            MOST_BITS_IPV6
        };

        match mask.checked_sub(cluster.prefix_len()) {
            None => Err(NodeRangeError::LargerThanCluster { cluster, mask }),
            Some(bits) if bits > most => Err(NodeRangeError::TooMany {
                cluster,
                mask,
                most,
            }),
            Some(_) => Ok(Self { cluster, mask }),
        }
    }

    /// Returns the cluster CIDR.
    #[must_use]
    pub fn cluster(self) -> IpNet {
        self.cluster
    }

    /// Returns the prefix length of a node's Pod CIDR.
    #[must_use]
    pub fn mask(self) -> u8 {
        self.mask
    }

    /// Returns the number of Pod CIDRs.
    pub(crate) fn len(self) -> usize {
        1 << (self.mask - self.cluster.prefix_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(cluster: &str, mask: u8) -> Result<usize, String> {
        NodeRange::new(cluster.parse().unwrap(), mask)
            .map(NodeRange::len)
            .map_err(|error| error.to_string())
    }

    // Holds: I-03, I-07
    #[test]
    fn the_number_of_cidrs_follows_from_the_prefix_lengths() {
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

    // Holds: I-03, I-07
    #[test]
    fn rejects_impossible_prefix_lengths_and_names_both() {
        for (cluster, mask, expected) in [
            (
                "10.244.0.0/16",
                15,
                "a /15 for each node does not fit into 10.244.0.0/16: use a prefix length of at least 16",
            ),
            (
                "10.244.0.0/16",
                33,
                "/33 is not a valid prefix length for 10.244.0.0/16; expected at most 32",
            ),
            ("fd00::/64", 129, "expected at most 128"),
            (
                "fd00::/47",
                64,
                "a /64 for each node makes too many Pod CIDRs in fd00::/47: the prefix lengths may differ by at most 16 bits, so use a \
                 prefix length of at most 63",
            ),
            (
                "0.0.0.0/0",
                25,
                "the prefix lengths may differ by at most 24 bits, so use a prefix length of at most 24",
            ),
        ] {
            let error = range(cluster, mask).unwrap_err();
            assert!(error.contains(expected), "{cluster} {mask}: {error}");
        }
    }
}
