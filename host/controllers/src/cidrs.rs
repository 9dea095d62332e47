//! Address ranges of a cluster's Pods (`--cluster-cidr`).

use std::net::IpAddr;

use ipnet::IpNet;

/// Maximum number of CIDRs, one for each IP family.
const MOST: usize = 2;

/// The ranges of `--cluster-cidr`: one or two, at most one of each IP family, in the given order.
/// Host bits are cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterCidrs(Vec<IpNet>);

/// Why `--cluster-cidr` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterCidrsError {
    /// The list is empty.
    #[error(
        "--cluster-cidr is missing: set it to the address range of Pods, for example --cluster-cidr=10.244.0.0/16"
    )]
    Missing,
    /// An entry is not a valid CIDR.
    #[error(
        "--cluster-cidr: {0:?} is not a valid CIDR; expected for example 10.244.0.0/16 or fd00:10:244::/56"
    )]
    Unreadable(String),
    /// There are more CIDRs than IP families.
    #[error("--cluster-cidr: {0} CIDRs, but at most {MOST} are allowed, one of each IP family")]
    TooMany(usize),
    /// Two CIDRs have the same IP family.
    #[error(
        "--cluster-cidr: {0} and {1} are of the same IP family; set at most one IPv4 and one IPv6 CIDR"
    )]
    SameFamily(IpNet, IpNet),
}

impl ClusterCidrs {
    /// Parses the entries of `--cluster-cidr`.
    ///
    /// # Errors
    ///
    /// Returns an error if the list is empty, an entry is not a valid CIDR, there are more than
    /// two, or two have the same IP family.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, ClusterCidrsError> {
        let entries: Vec<&str> = list
            .iter()
            .map(|entry| entry.as_ref().trim())
            .filter(|entry| !entry.is_empty())
            .collect();

        let mut cidrs: Vec<IpNet> = Vec::new();
        for entry in &entries {
            let cidr: IpNet = entry
                .parse()
                .map_err(|_| ClusterCidrsError::Unreadable((*entry).to_owned()))?;
            cidrs.push(cidr.trunc());
        }

        match cidrs.as_slice() {
            [] => Err(ClusterCidrsError::Missing),
            [first, second] if is_ipv4(first) == is_ipv4(second) => {
                Err(ClusterCidrsError::SameFamily(*first, *second))
            }
            [_] | [_, _] => Ok(Self(cidrs)),
            more => Err(ClusterCidrsError::TooMany(more.len())),
        }
    }

    /// Returns the ranges in the given order.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.0.iter().copied()
    }

    /// Returns true if the address is in one of the ranges.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|cidr| cidr.contains(&address))
    }
}

fn is_ipv4(cidr: &IpNet) -> bool {
    cidr.addr().is_ipv4()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &[&str]) -> Result<Vec<String>, ClusterCidrsError> {
        ClusterCidrs::parse(list).map(|cidrs| cidrs.iter().map(|cidr| cidr.to_string()).collect())
    }

    // Holds: R-02, I-03
    #[test]
    fn one_cidr_per_ip_family_is_accepted_in_the_given_order() {
        for (list, expected) in [
            (&["10.244.0.0/16"][..], &["10.244.0.0/16"][..]),
            (&["fd00::/56"], &["fd00::/56"]),
            (
                &["fd00::/56", "10.244.0.0/16"],
                &["fd00::/56", "10.244.0.0/16"],
            ),
            (&[" 10.244.0.0/16 ", ""], &["10.244.0.0/16"]),
            // Host bits are cleared, as by Go's ParseCIDR.
            (&["10.244.3.7/16"], &["10.244.0.0/16"]),
        ] {
            assert_eq!(parse(list).unwrap(), expected, "{list:?}");
        }
    }

    // Holds: R-02, I-03
    #[test]
    fn rejects_missing_invalid_same_family_or_too_many_cidrs() {
        for (list, expected) in [
            (&[][..], "--cluster-cidr is missing"),
            (&["", " "], "--cluster-cidr is missing"),
            (&["10.244.0.0"], "\"10.244.0.0\" is not a valid CIDR"),
            (&["10.244.0.0/33"], "\"10.244.0.0/33\" is not a valid CIDR"),
            (&["fd00::/56", "pods"], "\"pods\" is not a valid CIDR"),
            (
                &["10.0.0.0/16", "10.1.0.0/16"],
                "10.0.0.0/16 and 10.1.0.0/16 are of the same IP family",
            ),
            (
                &["fd00::/56", "fd01::/56"],
                "fd00::/56 and fd01::/56 are of the same IP family",
            ),
            (
                &["10.0.0.0/16", "fd00::/56", "10.1.0.0/16"],
                "3 CIDRs, but at most 2 are allowed",
            ),
        ] {
            let error = parse(list).unwrap_err().to_string();
            assert!(error.contains(expected), "{list:?}: {error}");
        }
    }

    #[test]
    fn an_address_is_matched_against_all_cluster_cidrs() {
        let cidrs = ClusterCidrs::parse(&["10.244.0.0/16", "fd00::/56"]).unwrap();
        for (address, inside) in [
            ("10.244.255.255", true),
            ("10.245.0.0", false),
            ("fd00:0:0:ff::1", true),
            ("fd00:0:0:100::", false),
        ] {
            assert_eq!(
                cidrs.contains(address.parse().unwrap()),
                inside,
                "{address}"
            );
        }
    }
}
