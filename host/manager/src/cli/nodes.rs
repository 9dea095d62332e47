//! Flags of the node and lifecycle controllers.

use std::time::Duration;

use clap::{ArgAction, Args};
use skydock_controllers::{
    Options,
    lifecycle::{LifecycleOptions, brake::BrakeOptions},
    node::{NodeOptions, plan::repair::SyncedFields},
};

use super::{parse_count, parse_duration};

/// The flags of the node and lifecycle controllers.
#[derive(Args, Debug)]
#[command(next_help_heading = "Nodes")]
pub struct NodeArgs {
    /// Number of batches of nodes that are processed concurrently [default: 4]
    ///
    /// If it is above 1, one worker is reserved for new nodes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrent_node_syncs: Option<u16>,
    /// How often nodes that are not ready are checked in the cloud.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5s")]
    pub node_monitor_period: Duration,
    /// How often node addresses and labels are checked in the cloud.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5m")]
    pub node_status_update_frequency: Duration,
    /// Update the addresses of initialized nodes when they change in the cloud.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set)]
    pub reconcile_node_addresses: bool,
    /// Update zone, region, instance type and additional cloud labels of initialized nodes when
    /// they change in the cloud. Zone, region and instance type always come from the cloud; other
    /// labels that Skydock did not set are not changed.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set)]
    pub reconcile_node_labels: bool,
    /// Also add the taint node.kubernetes.io/out-of-service to nodes whose instance is stopped, so
    /// that their Pods are deleted and their volumes detached.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", action = ArgAction::Set)]
    pub out_of_service_taint: bool,
    /// Maximum number of nodes to delete within --node-deletion-interval. If more instances are
    /// gone, no node is deleted unless it has the annotation skydock.dev/allow-deletion=true.
    #[arg(long, value_name = "N", value_parser = parse_count, default_value_t = BrakeOptions::default().limit)]
    pub node_deletion_limit: usize,
    /// Maximum share of the provider's nodes to delete within --node-deletion-interval; the lower of
    /// this and --node-deletion-limit applies. In small clusters, up to ten nodes may be deleted as
    /// long as half of the nodes remain. With 0%, no node is deleted unless it has the annotation.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "25%")]
    pub node_deletion_share: u8,
    /// Time window of --node-deletion-limit and --node-deletion-share.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    pub node_deletion_interval: Duration,
}

impl NodeArgs {
    /// Returns the options of the controllers, with those that the flags set.
    #[must_use]
    pub fn options(&self) -> Options {
        let defaults = Options::default();
        let workers = self.concurrent_node_syncs.map(usize::from);
        let node = NodeOptions {
            workers: workers.unwrap_or(defaults.node.workers),
            period: self.node_status_update_frequency,
            reconciled: SyncedFields {
                addresses: self.reconcile_node_addresses,
                labels: self.reconcile_node_labels,
            },
        };
        let lifecycle = LifecycleOptions {
            period: self.node_monitor_period,
            brake: BrakeOptions {
                limit: self.node_deletion_limit,
                share_percent: self.node_deletion_share,
                interval: self.node_deletion_interval,
            },
            out_of_service_taint: self.out_of_service_taint,
        };

        Options {
            node,
            lifecycle,
            ..defaults
        }
    }
}

/// Parses a percentage: `25%` or `25`.
fn parse_percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number
        .parse()
        .ok()
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| "expected a percentage from 0% to 100%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(args: &[&str]) -> NodeArgs {
        super::super::parse([&["skydock"], args].concat())
            .unwrap()
            .ccm
            .nodes
    }

    #[test]
    fn options_without_flags_are_the_defaults() {
        assert_eq!(args(&[]).options(), Options::default());
    }

    #[test]
    fn each_flag_sets_its_option() {
        let args = args(&[
            "--concurrent-node-syncs=7",
            "--node-monitor-period=9s",
            "--node-status-update-frequency=1m",
            "--reconcile-node-addresses=false",
            "--out-of-service-taint",
            "--node-deletion-limit=3",
            "--node-deletion-share=50%",
            "--node-deletion-interval=1h",
        ]);
        let reconciled = SyncedFields {
            addresses: false,
            labels: true,
        };

        let expected = Options {
            node: NodeOptions {
                workers: 7,
                period: Duration::from_secs(60),
                reconciled,
            },
            lifecycle: LifecycleOptions {
                period: Duration::from_secs(9),
                brake: BrakeOptions {
                    limit: 3,
                    share_percent: 50,
                    interval: Duration::from_secs(3600),
                },
                out_of_service_taint: true,
            },
            ..Options::default()
        };
        assert_eq!(args.options(), expected);
    }

    // Holds: N-04
    #[test]
    fn rejects_zero_workers() {
        assert!(super::super::parse(["skydock", "--concurrent-node-syncs=0"]).is_err());
    }

    #[test]
    fn a_share_is_a_percentage() {
        for (text, share) in [
            ("25%", Some(25)),
            ("0", Some(0)),
            ("100%", Some(100)),
            ("101%", None),
            ("", None),
            ("0.25", None),
        ] {
            assert_eq!(parse_percent(text).ok(), share, "{text}");
        }
    }
}
