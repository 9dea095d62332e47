//! Flags of the service controller.

use std::time::Duration;

use clap::{ArgAction, Args};
use ipnet::IpNet;
use skydock_controllers::service::{Classes, NodeRules, ServiceOptions, parse_class};

use super::{parse_cidr, parse_duration};

const HEADING: &str = "Load balancers";

/// Flags of the service controller.
#[derive(Args, Clone, Debug)]
pub struct ServiceArgs {
    /// Number of Services that are processed concurrently [default: 20].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = HEADING)]
    pub concurrent_service_syncs: Option<u16>,
    /// How often each load balancer is compared with its Service, and repaired if it was deleted or
    /// changed in the cloud; `0` disables this.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30m", help_heading = HEADING)]
    pub load_balancer_check_period: Duration,
    /// Allow addresses of nodes for load balancers, for example on bare metal without a separate
    /// range for them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, help_heading = HEADING)]
    pub load_balancer_allow_node_addresses: bool,
    /// Address ranges that load balancers may use although they overlap with those of Pods or
    /// Services, or are normally rejected, such as loopback and link-local addresses. Addresses of
    /// nodes, the API server and metadata services, and those that Services have, are rejected in
    /// these ranges, too. Separated by commas.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = parse_cidr, help_heading = HEADING)]
    pub load_balancer_allowed_cidrs: Vec<IpNet>,
    /// Also manage Services with these classes (spec.loadBalancerClass). Separated by commas.
    #[arg(long, value_name = "CLASS", value_delimiter = ',', value_parser = parse_class, help_heading = HEADING)]
    pub load_balancer_classes: Vec<String>,
    /// Manage Services that do not set spec.loadBalancerClass. If several cloud-controller-managers
    /// run in a cluster, enable this in only one of them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set, help_heading = HEADING)]
    pub load_balancer_default_class: bool,
    /// Exclude control plane nodes from load balancers.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, help_heading = HEADING)]
    pub load_balancer_exclude_control_plane: bool,
    /// Exclude cordoned nodes from load balancers, for example while they are drained.
    ///
    /// By default, the only excluded nodes are those that are being deleted, about to be removed by
    /// the cluster autoscaler, or labeled node.kubernetes.io/exclude-from-external-load-balancers.
    /// To select nodes for a single Service, use the annotation service.skydock.dev/node-selector,
    /// a label selector such as `pool in (edge,web),!gpu`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set, help_heading = HEADING)]
    pub load_balancer_exclude_unschedulable: bool,
}

/// Flags of the service controller that are not valid together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceArgsError {
    /// No Service would be managed.
    #[error(
        "--load-balancer-default-class=false without --load-balancer-classes excludes all Services: set \
         --load-balancer-classes, or disable the controller with --controllers=*,-service"
    )]
    NoClass,
}

impl ServiceArgs {
    /// Returns the options of the service controller. If it is not `enabled`, its flags are not
    /// checked.
    ///
    /// # Errors
    /// If the flags are not valid together.
    pub(crate) fn options(self, enabled: bool) -> Result<ServiceOptions, ServiceArgsError> {
        let args = self;
        let classes = Classes {
            named: args.load_balancer_classes.into_iter().collect(),
            unnamed: args.load_balancer_default_class,
        };

        if enabled && classes.named.is_empty() && !classes.unnamed {
            return Err(ServiceArgsError::NoClass);
        }

        Ok(ServiceOptions {
            concurrent_syncs: args
                .concurrent_service_syncs
                .map_or(ServiceOptions::default().concurrent_syncs, usize::from),
            check_period: Some(args.load_balancer_check_period).filter(|period| !period.is_zero()),
            classes,
            nodes: NodeRules {
                exclude_control_plane: args.load_balancer_exclude_control_plane,
                exclude_unschedulable: args.load_balancer_exclude_unschedulable,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<ServiceOptions, ServiceArgsError> {
        super::super::parse([&["skydock"], args].concat())
            .expect("flags parse")
            .ccm
            .services
            .options(true)
    }

    #[test]
    fn service_options_without_flags_are_the_defaults() {
        assert_eq!(options(&[]), Ok(ServiceOptions::default()));
    }

    #[test]
    fn each_service_flag_sets_its_option() {
        let flags = [
            "--concurrent-service-syncs=3",
            "--load-balancer-check-period=10m",
            "--load-balancer-classes=a,example.com/b",
            "--load-balancer-default-class=false",
            "--load-balancer-exclude-control-plane",
            "--load-balancer-exclude-unschedulable=true",
        ];
        let expected = ServiceOptions {
            concurrent_syncs: 3,
            check_period: Some(Duration::from_secs(600)),
            classes: Classes {
                named: ["a".to_owned(), "example.com/b".to_owned()].into(),
                unnamed: false,
            },
            nodes: NodeRules {
                exclude_control_plane: true,
                exclude_unschedulable: true,
            },
        };

        assert_eq!(options(&flags), Ok(expected));
        assert_eq!(
            options(&["--load-balancer-check-period=0"])
                .unwrap()
                .check_period,
            None
        );
    }

    #[test]
    fn rejects_classes_that_match_no_service() {
        let rejected = options(&["--load-balancer-default-class=false"])
            .unwrap_err()
            .to_string();
        assert!(rejected.contains("--load-balancer-classes"), "{rejected}");
        assert!(super::super::parse(["skydock", "--load-balancer-classes=a b"]).is_err());
    }
}
