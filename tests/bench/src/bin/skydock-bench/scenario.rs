//! The scenarios and their figures.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use skydock_bench::seconds;

use crate::audit::Tally;

/// The number of rounds of [`Scenario::Turns`], each on a new control plane; odd, for the median.
pub(crate) const ROUNDS: usize = 5;

/// One thing that happens to a cluster. They build upon each other, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scenario {
    /// All nodes are there before the manager starts.
    #[value(alias = "a")]
    Nodes,
    /// Nothing happens but the reports of the kubelets.
    #[value(alias = "b")]
    Steady,
    /// Services of type LoadBalancer are made.
    #[value(alias = "c")]
    Services,
    /// The manager is stopped and started again; then nothing happens.
    #[value(alias = "d")]
    Restart,
    /// A tenth of the machines vanishes, and as many new nodes register.
    #[value(alias = "e")]
    Replace,
    /// The work of `nodes` in turns, on the same control planes: by both, and by a bare loop that
    /// sends the patches alone.
    #[value(alias = "f")]
    Turns,
}

impl Scenario {
    pub(crate) const ALL: [Self; 6] = [
        Self::Nodes,
        Self::Steady,
        Self::Services,
        Self::Restart,
        Self::Replace,
        Self::Turns,
    ];

    /// Returns the title for the table.
    pub(crate) fn title(self, size: &Size) -> String {
        let Size {
            nodes, services, ..
        } = size;
        match self {
            Self::Nodes => format!("{nodes} nodes initialized"),
            Self::Steady => format!("steady state, {}", seconds(size.steady.as_secs_f64())),
            Self::Services => format!("{services} services ensured"),
            Self::Restart => format!("restart, first {}", seconds(size.steady.as_secs_f64())),
            Self::Replace => format!("{} nodes replaced", size.replaced()),
            Self::Turns => format!(
                "nodes initialized in turns, {ROUNDS} × {}",
                nodes.div_ceil(ROUNDS)
            ),
        }
    }
}

/// The size of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) services: usize,
    #[serde(serialize_with = "as_seconds")]
    pub(crate) steady: Duration,
    #[serde(serialize_with = "as_seconds")]
    pub(crate) latency: Duration,
}

impl Size {
    /// Returns how many nodes are replaced.
    pub(crate) fn replaced(&self) -> usize {
        (self.nodes / 10).max(1)
    }
}

fn as_seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// The figures of one side for one scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Seconds until the last object had the expected state, or after a restart, until the manager
    /// leads again.
    pub(crate) seconds: Option<f64>,
    /// Seconds between the first and the last write to one of those objects.
    pub(crate) seconds_writing: Option<f64>,
    /// Seconds until the last request to the cloud or to the API server.
    pub(crate) seconds_to_rest: Option<f64>,
    /// Requests to the API server.
    pub(crate) requests: Tally,
    /// Calls to the cloud by kind.
    pub(crate) cloud_calls: BTreeMap<String, u64>,
    /// Seconds of CPU time, user and system.
    pub(crate) cpu_seconds: f64,
    /// Peak of resident memory in bytes.
    pub(crate) peak_bytes: u64,
}

impl Figures {
    pub(crate) fn calls(&self) -> u64 {
        self.cloud_calls.values().sum()
    }
}

/// Returns the scenarios that have to run, in order: later scenarios depend on earlier ones.
pub(crate) fn plan(wanted: &[Scenario]) -> Vec<Scenario> {
    let last = wanted
        .iter()
        .filter(|scenario| **scenario != Scenario::Turns)
        .max();
    let needed = |scenario: Scenario| match scenario {
        Scenario::Nodes => last.is_some(),
        // Restarts and replacements are measured with services.
        Scenario::Services => last.is_some_and(|last| *last >= Scenario::Services),
        Scenario::Steady | Scenario::Restart | Scenario::Replace | Scenario::Turns => {
            wanted.contains(&scenario)
        }
    };
    Scenario::ALL
        .into_iter()
        .filter(|scenario| needed(*scenario))
        .collect()
}

/// Returns approximately how long the run will take, as measured on two cores.
pub(crate) fn expected(plan: &[Scenario], size: &Size) -> Duration {
    let per_node = |ms: u32| {
        Duration::from_millis(u64::from(ms)) * u32::try_from(size.nodes).unwrap_or(u32::MAX)
    };
    let time = |scenario: &Scenario| match scenario {
        // Control plane, nodes, and the scenario itself.
        Scenario::Nodes => (Duration::from_secs(10) + per_node(12)) * 2,
        Scenario::Steady | Scenario::Restart => (size.steady + Duration::from_secs(5)) * 2,
        Scenario::Services => {
            Duration::from_millis(30) * u32::try_from(size.services).unwrap_or(u32::MAX) * 2
        }
        Scenario::Replace => (Duration::from_secs(20) + per_node(4)) * 2,
        Scenario::Turns => Duration::from_secs(100) + per_node(30),
    };
    plan.iter().map(time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_includes_required_scenarios() {
        use Scenario::{Nodes, Replace, Restart, Services, Steady, Turns};
        assert_eq!(plan(&Scenario::ALL), Scenario::ALL);
        assert_eq!(plan(&[Nodes, Services]), [Nodes, Services]);
        assert_eq!(plan(&[Steady]), [Nodes, Steady]);
        assert_eq!(
            plan(&[Replace, Restart]),
            [Nodes, Services, Restart, Replace]
        );
        assert_eq!(plan(&[Turns]), [Turns]);
    }

    #[test]
    fn at_least_one_node_is_replaced() {
        let size = |nodes| Size {
            nodes,
            services: 0,
            steady: Duration::ZERO,
            latency: Duration::ZERO,
        };
        assert_eq!((size(5000).replaced(), size(3).replaced()), (500, 1));
    }
}
