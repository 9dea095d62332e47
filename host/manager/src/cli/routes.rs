//! Flags of the route controller.

use std::time::Duration;

use clap::{ArgAction, Args};
use skydock_controllers::{
    ClusterCidrs,
    route::{Reconciliation, RouteOptions},
};

use super::{
    arguments::feature_gates::{self, FeatureGate},
    parse_duration,
};

/// Flags of the route controller.
#[derive(Args, Debug)]
pub struct RouteArgs {
    /// Create routes to the Pods of each node, if the provider supports it; requires
    /// --cluster-cidr.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
          default_missing_value = "true", action = ArgAction::Set, help_heading = "Controllers")]
    pub configure_cloud_routes: bool,
    /// How often routes are checked even if no node has changed; `0` disables this.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5m", help_heading = "Controllers")]
    pub route_check_period: Duration,
    /// How often routes are checked if they are only checked periodically (see --feature-gates).
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s", help_heading = "Controllers")]
    pub route_reconciliation_period: Duration,
    /// Feature gates: CloudControllerManagerWatchBasedRoutesReconciliation (enabled by default; if
    /// disabled, routes are checked periodically, not when nodes change).
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = feature_gates::parse,
          help_heading = "Controllers")]
    pub feature_gates: Vec<FeatureGate>,
}

/// Why the flags of the route controller are not valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteArgsError {
    /// The period of periodic checks is zero.
    #[error(
        "--route-reconciliation-period must not be 0; to disable routes, set --configure-cloud-routes=false"
    )]
    NoPeriod,
}

impl RouteArgs {
    /// Returns the options of the route controller. If it is not `enabled`, its flags are not
    /// checked.
    ///
    /// # Errors
    /// If routes are to be checked periodically, but the period is zero.
    pub fn options(
        &self,
        cluster_cidrs: &[String],
        enabled: bool,
    ) -> Result<RouteOptions, RouteArgsError> {
        // As upstream: if a gate is set several times, the last value is used.
        let watch = self
            .feature_gates
            .last()
            .is_none_or(|FeatureGate::WatchBasedRoutes(on)| *on);

        let period = self.route_reconciliation_period;
        let routes = enabled && self.configure_cloud_routes;
        if routes && !watch && period.is_zero() {
            return Err(RouteArgsError::NoPeriod);
        }

        let reconciliation = if watch {
            Reconciliation::OnChange {
                check_period: self.route_check_period,
            }
        } else {
            Reconciliation::Periodic { period }
        };

        // `RouteOptions::check` reports an error, which matters only if the provider supports routes.
        let cluster_cidrs = ClusterCidrs::parse(cluster_cidrs);
        Ok(RouteOptions {
            configure: self.configure_cloud_routes,
            cluster_cidrs,
            reconciliation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<RouteOptions, RouteArgsError> {
        let cli = crate::cli::parse([&["skydock"], args].concat()).expect("flags parse");
        cli.ccm.routes.options(&cli.ccm.cluster_cidrs, true)
    }

    fn rejection(flag: &str) -> String {
        crate::cli::parse(["skydock", flag])
            .expect_err("rejected")
            .sentence()
    }

    const WATCH_DISABLED: &str =
        "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=false";

    // Holds
    #[test]
    fn routes_are_reconciled_on_node_changes_by_default() {
        assert_eq!(options(&[]), Ok(RouteOptions::default()));
        assert!(
            !options(&["--configure-cloud-routes=false"])
                .unwrap()
                .configure
        );
        assert!(options(&["--configure-cloud-routes"]).unwrap().configure);
        for (args, reconciliation) in [
            (
                &[][..],
                Reconciliation::OnChange {
                    check_period: Duration::from_secs(300),
                },
            ),
            (
                &["--route-check-period=0"],
                Reconciliation::OnChange {
                    check_period: Duration::ZERO,
                },
            ),
            (
                &["--route-reconciliation-period=1m"],
                Reconciliation::OnChange {
                    check_period: Duration::from_secs(300),
                },
            ),
            (
                &[WATCH_DISABLED],
                Reconciliation::Periodic {
                    period: Duration::from_secs(10),
                },
            ),
            (
                &[WATCH_DISABLED, "--route-reconciliation-period=1m0s"],
                Reconciliation::Periodic {
                    period: Duration::from_secs(60),
                },
            ),
            (
                &[
                    WATCH_DISABLED,
                    "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=True",
                ],
                Reconciliation::OnChange {
                    check_period: Duration::from_secs(300),
                },
            ),
        ] {
            assert_eq!(
                options(args).unwrap().reconciliation,
                reconciliation,
                "{args:?}"
            );
        }
    }

    #[test]
    fn a_period_of_zero_is_rejected_unless_routes_are_disabled() {
        let nothing = options(&[WATCH_DISABLED, "--route-reconciliation-period=0"]);
        assert_eq!(nothing, Err(RouteArgsError::NoPeriod));
        // The way out that the error names.
        let off = [
            WATCH_DISABLED,
            "--route-reconciliation-period=0",
            "--configure-cloud-routes=false",
        ];
        assert!(options(&off).is_ok());
    }

    // Holds: R-02
    #[test]
    fn invalid_cluster_cidrs_are_kept_as_an_error() {
        let cidrs = options(&["--cluster-cidr=10.244.0.0/16,fd00::/56"])
            .unwrap()
            .cluster_cidrs
            .unwrap();
        assert_eq!(cidrs.iter().count(), 2);

        for wrong in [
            "--cluster-cidr=",
            "--cluster-cidr=10.244.0.0",
            "--cluster-cidr=10.0.0.0/16,10.1.0.0/16",
        ] {
            assert!(options(&[wrong]).unwrap().cluster_cidrs.is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_feature_gates_are_rejected_by_name() {
        let strict = crate::cli::parse([
            "skydock",
            "--strict-flags",
            "--feature-gates=CloudControllerManagerWebhook=true",
        ]);
        let unknown = strict.expect_err("rejected").sentence();
        assert!(
            unknown.contains("unknown feature gate \"CloudControllerManagerWebhook\""),
            "{unknown}"
        );
        assert!(rejection("--feature-gates=X").contains("NAME=BOOL"));
        let maybe =
            rejection("--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=maybe");
        assert!(
            maybe.contains("\"maybe\" is neither true nor false"),
            "{maybe}"
        );
    }
}
