//! Options of the service controller: which Services and nodes, and the pace of checks.

use std::{collections::BTreeSet, time::Duration};

use skydock_controller_base::objects::convert::is_qualified_name;
use skydock_kube::queue::Pace;

/// Maximum interval between re-checks.
const SLOWEST: Duration = Duration::from_secs(1);
/// Number of re-checks without delay, so that they take little time in a small cluster.
const BURST: u32 = 5;
/// Time for all re-checks after a start if there is no period.
const PERIOD: Duration = Duration::from_secs(30 * 60);

/// Options of the service controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Number of Services that are processed concurrently (`--concurrent-service-syncs`); at least
    /// 1.
    pub concurrent_syncs: usize,
    /// Period of comparing each load balancer with its Service and fixing it
    /// (`--load-balancer-check-period`). If `None`, this is only done after a start and after the
    /// plugin was replaced.
    pub check_period: Option<Duration>,
    /// Which Services are served.
    pub classes: Classes,
    /// Which nodes may be behind load balancers.
    pub nodes: NodeRules,
}

impl Default for ServiceOptions {
    /// Upstream processes one Service at a time and has no checks, but clouds can handle more.
    fn default() -> Self {
        Self {
            concurrent_syncs: 20,
            check_period: Some(PERIOD),
            classes: Classes::default(),
            nodes: NodeRules::default(),
        }
    }
}

impl ServiceOptions {
    /// Returns the pace of re-checks for this number of Services: one per second, or faster if the
    /// period would be too short. They never occupy more than half of the workers.
    pub(crate) fn pace(&self, services: usize) -> Pace {
        let services = u32::try_from(services).unwrap_or(u32::MAX).max(1);
        let interval = (self.check_period.unwrap_or(PERIOD) / services).min(SLOWEST);
        Pace {
            interval,
            burst: BURST,
            in_flight: (self.concurrent_syncs / 2).max(1),
        }
    }
}

/// Which Services of type LoadBalancer are served, depending on `spec.loadBalancerClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Classes that are served (`--load-balancer-classes`).
    pub named: BTreeSet<String>,
    /// Whether services without a class are served (`--load-balancer-default-class`).
    pub unnamed: bool,
}

impl Default for Classes {
    /// As in upstream: only Services without a class.
    fn default() -> Self {
        Self {
            named: BTreeSet::new(),
            unnamed: true,
        }
    }
}

impl Classes {
    /// Returns true if Services with this class are served.
    #[must_use]
    pub fn serve(&self, class: Option<&str>) -> bool {
        class.map_or(self.unnamed, |class| self.named.contains(class))
    }

    /// Returns true if Skydock has to remove the finalizer of a Service with this class. Other
    /// implementations use the same finalizer: if classes are configured, several of them share a
    /// cluster, and each cleans up after itself. Without configured classes, Skydock cleans up
    /// after all, as upstream does: the class may have been set after the load balancer was
    /// created.
    #[must_use]
    pub(crate) fn clean_up(&self, class: Option<&str>) -> bool {
        self.serve(class) || (class.is_some() && self.named.is_empty())
    }
}

/// Which nodes may be behind load balancers, in addition to labels and the autoscaler's taint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeRules {
    /// Exclude nodes of the control plane (`--load-balancer-exclude-control-plane`).
    pub exclude_control_plane: bool,
    /// Exclude cordoned nodes, for example while they are drained
    /// (`--load-balancer-exclude-unschedulable`).
    pub exclude_unschedulable: bool,
}

/// A text that is not a valid load balancer class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid load balancer class; expected for example example.com/internal")]
pub struct ClassError(String);

/// Parses a load balancer class.
///
/// # Errors
///
/// Returns an error if no Service can have this class.
pub fn parse_class(text: &str) -> Result<String, ClassError> {
    if is_qualified_name(text) {
        Ok(text.to_owned())
    } else {
        Err(ClassError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: S-14
    #[test]
    fn rechecks_are_one_per_second_or_faster_to_fit_the_period() {
        let pace = |period, services| {
            ServiceOptions {
                check_period: period,
                ..ServiceOptions::default()
            }
            .pace(services)
            .interval
        };
        assert_eq!(pace(Some(PERIOD), 0), Duration::from_secs(1));
        assert_eq!(pace(Some(PERIOD), 1000), Duration::from_secs(1));
        assert_eq!(pace(Some(PERIOD), 18_000), Duration::from_millis(100));
        assert_eq!(pace(None, 18_000), Duration::from_millis(100));
        assert_eq!(
            pace(Some(Duration::from_secs(60)), 600),
            Duration::from_millis(100)
        );
    }

    #[test]
    fn rechecks_leave_half_of_the_workers_to_changes() {
        for (workers, rechecks) in [(1, 1), (2, 1), (3, 1), (10, 5)] {
            let options = ServiceOptions {
                concurrent_syncs: workers,
                ..ServiceOptions::default()
            };
            assert_eq!(options.pace(1).in_flight, rechecks, "{workers} workers");
        }
    }

    #[test]
    fn classes_are_qualified_names() {
        for class in ["internal", "example.com/internal", "a.b-c.d/X_1"] {
            assert_eq!(parse_class(class).as_deref(), Ok(class));
        }
        for class in ["", "a b", "a/b/c", "example.com/", "Example.com/x", "*"] {
            assert!(parse_class(class).is_err(), "{class:?}");
        }
    }
}
