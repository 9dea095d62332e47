//! How load balancers are served.

use std::{collections::BTreeSet, time::Duration};

use crate::{convert::is_qualified_name, queue::Pace};

/// Slowest rate of re-checks.
const SLOWEST: Duration = Duration::from_secs(1);
/// Re-checks that may come at once, so that in a small cluster nobody waits for them.
const BURST: u32 = 5;
/// Time for all re-checks after a start if there is no period.
const PERIOD: Duration = Duration::from_secs(30 * 60);

/// How the service controller works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Services that are worked on at the same time (`--concurrent-service-syncs`); at least 1.
    pub concurrent_syncs: usize,
    /// How often each load balancer is compared with its service and mended (`--load-balancer-check-period`); `None`: only
    /// after a start and with a new plugin.
    pub check_period: Option<Duration>,
    /// Which services are served.
    pub classes: Classes,
    /// Which nodes may be behind load balancers.
    pub nodes: NodeRules,
}

impl Default for ServiceOptions {
    /// Upstream works on one service at a time and has no check; clouds bear more.
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
    /// How re-checks of so many services are spread: one a second, or faster if the period would not suffice. They never
    /// take more than half of the workers.
    pub(super) fn pace(&self, services: usize) -> Pace {
        let services = u32::try_from(services).unwrap_or(u32::MAX).max(1);
        let interval = (self.check_period.unwrap_or(PERIOD) / services).min(SLOWEST);
        Pace { interval, burst: BURST, in_flight: (self.concurrent_syncs / 2).max(1) }
    }
}

/// Which services of type LoadBalancer are served, by `spec.loadBalancerClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Classes that are served (`--load-balancer-classes`).
    pub named: BTreeSet<String>,
    /// Whether services without a class are served (`--load-balancer-default-class`).
    pub unnamed: bool,
}

impl Default for Classes {
    /// Upstream's: services without a class.
    fn default() -> Self {
        Self { named: BTreeSet::new(), unnamed: true }
    }
}

impl Classes {
    /// True if services of this class are served.
    #[must_use]
    pub fn serve(&self, class: Option<&str>) -> bool {
        class.map_or(self.unnamed, |class| self.named.contains(class))
    }

    /// True if the finalizer of a service of this class is this host's to take away. Other implementations use the same one;
    /// where classes are named, several share a cluster, and each cleans up after its own. Where none is, all is, as upstream
    /// has it: the class may have been set after the load balancer was made.
    #[must_use]
    pub(super) fn clean_up(&self, class: Option<&str>) -> bool {
        self.serve(class) || (class.is_some() && self.named.is_empty())
    }
}

/// Which nodes may be behind load balancers, beyond what labels and the autoscaler's taint say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeRules {
    /// Leave out nodes of the control plane (`--load-balancer-exclude-control-plane`).
    pub exclude_control_plane: bool,
    /// Leave out nodes that are cordoned, as they are while they are drained (`--load-balancer-exclude-unschedulable`).
    pub exclude_unschedulable: bool,
}

/// A text that cannot be a load balancer class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no load balancer class; classes are names such as example.com/internal")]
pub struct ClassError(String);

/// Reads a load balancer class.
///
/// # Errors
///
/// If no service can have this class.
pub fn parse_class(text: &str) -> Result<String, ClassError> {
    if is_qualified_name(text) { Ok(text.to_owned()) } else { Err(ClassError(text.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_rechecks_are_one_a_second_unless_that_would_take_longer_than_the_period() {
        let pace = |period, services| {
            ServiceOptions { check_period: period, ..ServiceOptions::default() }.pace(services).interval
        };
        assert_eq!(pace(Some(PERIOD), 0), Duration::from_secs(1));
        assert_eq!(pace(Some(PERIOD), 1000), Duration::from_secs(1));
        assert_eq!(pace(Some(PERIOD), 18_000), Duration::from_millis(100));
        assert_eq!(pace(None, 18_000), Duration::from_millis(100));
        assert_eq!(pace(Some(Duration::from_secs(60)), 600), Duration::from_millis(100));
    }

    #[test]
    fn rechecks_leave_half_of_the_workers_to_changes() {
        for (workers, rechecks) in [(1, 1), (2, 1), (3, 1), (10, 5)] {
            let options = ServiceOptions { concurrent_syncs: workers, ..ServiceOptions::default() };
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
