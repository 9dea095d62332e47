//! Flags of the node IPAM controller, and their validation.

use clap::{ArgAction, Args};
use ipnet::IpNet;
use skydock_controllers::{
    ClusterCidrs, ClusterCidrsError,
    ipam::{IpamOptions, NodeRange, NodeRangeError},
};

/// The allocator that works with every cloud.
const RANGE_ALLOCATOR: &str = "RangeAllocator";
/// Default prefix length of a node's Pod CIDR, as upstream.
const MASK_IPV4: u8 = 24;
const MASK_IPV6: u8 = 64;

const ANY: &str = "--node-cidr-mask-size";
const IPV4: &str = "--node-cidr-mask-size-ipv4";
const IPV6: &str = "--node-cidr-mask-size-ipv6";

/// Flags of the node IPAM controller.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pod CIDRs of nodes")]
pub struct IpamArgs {
    /// Allocate a Pod CIDR from each --cluster-cidr to each node. Only one component may do so:
    /// set --allocate-node-cidrs=false in kube-controller-manager.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Type of the allocator; only RangeAllocator is supported.
    #[arg(long, value_name = "TYPE", default_value = RANGE_ALLOCATOR)]
    pub cidr_allocator_type: String,
    /// Address ranges of Services: one CIDR, or an IPv4 and an IPv6 CIDR separated by a comma. No
    /// node gets a Pod CIDR that overlaps with them.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub service_cluster_ip_range: Vec<String>,
    /// Prefix length of a node's Pod CIDR in a cluster of one IP family [default: 24 for IPv4, 64
    /// for IPv6].
    #[arg(
        long,
        value_name = "BITS",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub node_cidr_mask_size: u8,
    /// Prefix length of a node's IPv4 Pod CIDR [default: 24].
    #[arg(
        long,
        value_name = "BITS",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub node_cidr_mask_size_ipv4: u8,
    /// Prefix length of a node's IPv6 Pod CIDR [default: 64].
    #[arg(
        long,
        value_name = "BITS",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub node_cidr_mask_size_ipv6: u8,
}

/// Why the flags of the node IPAM controller are not valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpamArgsError {
    /// Upstream's other allocators work with one cloud only.
    #[error(
        "--cidr-allocator-type={0} is not supported: use {RANGE_ALLOCATOR}, or set --allocate-node-cidrs=false"
    )]
    Allocator(String),
    /// `--cluster-cidr` is missing or not valid.
    #[error(transparent)]
    ClusterCidr(#[from] ClusterCidrsError),
    /// A value of `--service-cluster-ip-range` is not a valid CIDR. Upstream ignores such values.
    #[error(
        "--service-cluster-ip-range: {0:?} is not a valid CIDR; expected for example 10.96.0.0/12"
    )]
    UnreadableServiceRange(String),
    /// There are more CIDRs than IP families, or two of the same family.
    #[error("--service-cluster-ip-range: at most one IPv4 and one IPv6 CIDR are allowed, not {0}")]
    ServiceRanges(String),
    /// One prefix length is set for two IP families.
    #[error("{ANY} cannot be used with two IP families in --cluster-cidr: use {IPV4} and {IPV6}")]
    MaskOfTwoFamilies,
    /// Two flags set the same prefix length.
    #[error("{ANY} and {0} are mutually exclusive: set only {0}")]
    MaskTwice(&'static str),
    /// A prefix length is set for an IP family that is not in `--cluster-cidr`.
    #[error("{flag} is set, but --cluster-cidr={cluster} is of the other IP family: remove {flag}")]
    MaskOfOtherFamily {
        /// The flag.
        flag: &'static str,
        /// The CIDR in `--cluster-cidr`.
        cluster: IpNet,
    },
    /// The cluster CIDR cannot be divided into CIDRs of this size.
    #[error("{flag}: {source}")]
    Mask {
        /// The flag that sets the prefix length.
        flag: &'static str,
        /// The reason.
        source: NodeRangeError,
    },
}

impl IpamArgs {
    /// Validates the flags and returns the options. If `--allocate-node-cidrs` is not set, the
    /// other flags are ignored.
    ///
    /// # Errors
    ///
    /// If the flags are not valid.
    pub(crate) fn options(&self, cluster_cidrs: &[String]) -> Result<IpamOptions, IpamArgsError> {
        if !self.allocate_node_cidrs {
            return Ok(IpamOptions::default());
        }
        if self.cidr_allocator_type != RANGE_ALLOCATOR {
            return Err(IpamArgsError::Allocator(self.cidr_allocator_type.clone()));
        }

        let clusters: Vec<IpNet> = ClusterCidrs::parse(cluster_cidrs)?.iter().collect();
        self.check_masks(&clusters)?;
        let ranges = clusters
            .into_iter()
            .map(|cluster| self.range(cluster))
            .collect::<Result<_, _>>()?;

        Ok(IpamOptions {
            ranges,
            service_cidrs: self.service_cidrs()?,
        })
    }

    fn check_masks(&self, clusters: &[IpNet]) -> Result<(), IpamArgsError> {
        let families = [
            (IPV4, self.node_cidr_mask_size_ipv4),
            (IPV6, self.node_cidr_mask_size_ipv6),
        ];
        // 0 stands for a flag that is not set.
        let mut set = families.into_iter().filter(|(_, mask)| *mask != 0);

        if let [cluster] = clusters {
            let own = flag(*cluster);
            if let Some((flag, _)) = set.clone().find(|(flag, _)| *flag != own) {
                return Err(IpamArgsError::MaskOfOtherFamily {
                    flag,
                    cluster: *cluster,
                });
            }
        } else if self.node_cidr_mask_size != 0 {
            return Err(IpamArgsError::MaskOfTwoFamilies);
        }

        match set.next() {
            Some((flag, _)) if self.node_cidr_mask_size != 0 => Err(IpamArgsError::MaskTwice(flag)),
            _ => Ok(()),
        }
    }

    /// Returns the range of node CIDRs. A prefix length of 0 stands for the default.
    fn range(&self, cluster: IpNet) -> Result<NodeRange, IpamArgsError> {
        let (own, default) = match cluster {
            IpNet::V4(_) => (self.node_cidr_mask_size_ipv4, MASK_IPV4),
            IpNet::V6(_) => (self.node_cidr_mask_size_ipv6, MASK_IPV6),
        };

        let (flag, mask) = match (self.node_cidr_mask_size, own) {
            (0, 0) => (flag(cluster), default),
            (0, own) => (flag(cluster), own),
            (any, _) => (ANY, any),
        };
        NodeRange::new(cluster, mask).map_err(|source| IpamArgsError::Mask { flag, source })
    }

    fn service_cidrs(&self) -> Result<Vec<IpNet>, IpamArgsError> {
        let mut cidrs: Vec<IpNet> = Vec::new();
        // A flag with an empty text has one empty entry.
        for entry in self
            .service_cluster_ip_range
            .iter()
            .map(|entry| entry.trim())
            .filter(|entry| !entry.is_empty())
        {
            let cidr = entry
                .parse()
                .map_err(|_| IpamArgsError::UnreadableServiceRange(entry.to_owned()))?;

            if cidrs.iter().any(|other| flag(*other) == flag(cidr)) {
                return Err(IpamArgsError::ServiceRanges(
                    self.service_cluster_ip_range.join(","),
                ));
            }
            cidrs.push(cidr);
        }

        Ok(cidrs)
    }
}

/// Returns the flag for a CIDR's IP family.
fn flag(cidr: IpNet) -> &'static str {
    match cidr {
        IpNet::V4(_) => IPV4,
        IpNet::V6(_) => IPV6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<IpamOptions, String> {
        let args = crate::cli::parse([&["skydock"], args].concat())
            .expect("flags parse")
            .ccm;
        args.ipam
            .options(&args.cluster_cidrs)
            .map_err(|error| error.to_string())
    }

    fn ranges(args: &[&str]) -> Vec<String> {
        let options = options(&[&["--allocate-node-cidrs"], args].concat()).unwrap();
        options
            .ranges
            .iter()
            .map(|range| format!("{} /{}", range.cluster(), range.mask()))
            .collect()
    }

    // Holds: I-01
    #[test]
    fn ipam_is_off_by_default_and_ignores_its_other_flags() {
        for args in [
            &[][..],
            &["--allocate-node-cidrs=false"],
            &["--cidr-allocator-type=CloudAllocator"],
        ] {
            assert_eq!(options(args), Ok(IpamOptions::default()), "{args:?}");
        }
    }

    // Holds: I-02
    #[test]
    fn mask_sizes_default_to_24_for_ipv4_and_64_for_ipv6() {
        for (args, expected) in [
            (
                &["--cluster-cidr=10.244.0.0/16"][..],
                &["10.244.0.0/16 /24"][..],
            ),
            (&["--cluster-cidr=fd00::/56"], &["fd00::/56 /64"]),
            (
                &["--cluster-cidr=fd00::/56,10.244.0.0/16"],
                &["fd00::/56 /64", "10.244.0.0/16 /24"],
            ),
            (
                &["--cluster-cidr=10.244.0.0/16", "--node-cidr-mask-size=0"],
                &["10.244.0.0/16 /24"],
            ),
            (
                &["--cluster-cidr=10.244.0.0/16", "--node-cidr-mask-size=25"],
                &["10.244.0.0/16 /25"],
            ),
            (
                &["--cluster-cidr=fd00::/56", "--node-cidr-mask-size=72"],
                &["fd00::/56 /72"],
            ),
            (
                &[
                    "--cluster-cidr=10.244.0.0/16",
                    "--node-cidr-mask-size-ipv4=26",
                ],
                &["10.244.0.0/16 /26"],
            ),
            (
                &[
                    "--cluster-cidr=10.244.0.0/16,fd00::/56",
                    "--node-cidr-mask-size-ipv4=26",
                    "--node-cidr-mask-size-ipv6=70",
                ],
                &["10.244.0.0/16 /26", "fd00::/56 /70"],
            ),
        ] {
            assert_eq!(ranges(args), expected, "{args:?}");
        }
    }

    // Holds: I-02
    #[test]
    fn service_cidrs_are_at_most_one_per_ip_family() {
        for (flag, expected) in [
            ("--service-cluster-ip-range=", &[][..]),
            ("--service-cluster-ip-range=10.96.0.0/12", &["10.96.0.0/12"]),
            (
                "--service-cluster-ip-range=10.96.0.0/12,fd00:1::/112",
                &["10.96.0.0/12", "fd00:1::/112"],
            ),
        ] {
            let options = options(&[
                "--allocate-node-cidrs",
                "--cluster-cidr=10.244.0.0/16",
                flag,
            ])
            .unwrap();
            let cidrs: Vec<String> = options
                .service_cidrs
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(cidrs, expected, "{flag}");
        }
    }

    // Holds: I-03, I-04
    #[test]
    fn conflicting_or_invalid_flags_are_rejected_by_name() {
        let (v4, both) = (
            "--cluster-cidr=10.244.0.0/16",
            "--cluster-cidr=10.244.0.0/16,fd00::/56",
        );

        for (args, expected) in [
            (&[][..], "--cluster-cidr is missing"),
            (
                &["--cluster-cidr=10.0.0.0/8,10.1.0.0/16"],
                "10.0.0.0/8 and 10.1.0.0/16 are of the same IP family",
            ),
            (
                &["--cluster-cidr=pods"],
                "--cluster-cidr: \"pods\" is not a valid CIDR",
            ),
            // Better than upstream, which only logs it, and may allocate addresses of Services to
            // nodes.
            (
                &[v4, "--service-cluster-ip-range=10.96.0.0"],
                "--service-cluster-ip-range: \"10.96.0.0\" is not a valid CIDR",
            ),
            (
                &[v4, "--service-cluster-ip-range=10.96.0.0/12,10.0.0.0/24"],
                "at most one IPv4 and one IPv6 CIDR are allowed, not 10.96",
            ),
            (
                &[both, "--node-cidr-mask-size=24"],
                "with two IP families in --cluster-cidr: use --node-cidr-mask-size-ipv4 and",
            ),
            (
                &[v4, "--node-cidr-mask-size-ipv6=64"],
                "--node-cidr-mask-size-ipv6 is set, but --cluster-cidr=10.244.0.0/16 is",
            ),
            (
                &["--cluster-cidr=fd00::/56", "--node-cidr-mask-size-ipv4=24"],
                "--node-cidr-mask-size-ipv4 is set, but --cluster-cidr=fd00::/56 is",
            ),
            (
                &[
                    v4,
                    "--node-cidr-mask-size=24",
                    "--node-cidr-mask-size-ipv4=24",
                ],
                "--node-cidr-mask-size and --node-cidr-mask-size-ipv4 are mutually exclusive",
            ),
            (
                &[v4, "--node-cidr-mask-size=15"],
                "--node-cidr-mask-size: a /15 for each node does not fit into 10.244.0.0/16",
            ),
            (
                &[both, "--node-cidr-mask-size-ipv6=128"],
                "--node-cidr-mask-size-ipv6: a /128 for each node makes too many Pod CIDRs",
            ),
            (
                &["--cluster-cidr=10.244.0.0/25"],
                "--node-cidr-mask-size-ipv4: a /24 for each node does not fit into 10.244.0.0/25",
            ),
            (
                &[v4, "--cidr-allocator-type=CloudAllocator"],
                "--cidr-allocator-type=CloudAllocator is not supported",
            ),
        ] {
            let error = options(&[&["--allocate-node-cidrs=true"], args].concat()).unwrap_err();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }

    // Holds: I-11
    #[test]
    fn help_says_to_disable_kube_controller_manager_allocation() {
        use clap::CommandFactory;
        let help = crate::cli::Cli::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            help.contains("set --allocate-node-cidrs=false in kube-controller-manager"),
            "{help}"
        );
    }
}
