//! The scenarios and their names.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// The size of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    pub(crate) services: u32,
}

impl Size {
    /// Returns the number of nodes that stop reporting at once, and of lost races: a thousand, or a
    /// tenth of the nodes of a small cluster.
    pub(crate) fn many(self) -> u32 {
        (self.nodes / 10).min(1000)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes, {} services", self.nodes, self.services)
    }
}

/// One thing that happens. They follow each other in this order, on one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// Skydock is started with a cluster whose nodes wait for it, until none does.
    Settle,
    /// The services are made, until each has its address.
    Services,
    /// Skydock is started with a cluster that wants for nothing, until it watches.
    Start,
    /// Nothing happens but the reports of the kubelets.
    Rest,
    /// A node waits for its cloud again, until it does not.
    OneNode,
    /// Of a thousand nodes, the version that Skydock knows is not the latest when it writes.
    Races,
    /// A node leaves the load balancers, and joins them again: each time all services are told.
    LoadBalancers,
    /// A thousand nodes fall silent; their machines run.
    Silent,
    /// A thousand nodes fall silent; their machines are gone.
    Gone,
    /// Nodes get routes, as many as the bound on routes allows.
    Routes,
    /// More nodes get routes than the bound allows.
    TooManyRoutes,
}

impl Scenario {
    /// Returns the title for the table.
    pub(crate) fn title(self, size: Size) -> String {
        let many = size.many();
        match self {
            Self::Settle => "start with nodes that wait, until all are initialized".to_owned(),
            Self::Services => "services made, until all are ensured".to_owned(),
            Self::Start => "start with a settled cluster, until it is watched".to_owned(),
            Self::Rest => "at rest, a second".to_owned(),
            Self::OneNode => "a node changes".to_owned(),
            Self::Races => format!("{many} lost races"),
            Self::LoadBalancers => "a load-balancer pass".to_owned(),
            Self::Silent => format!("{many} nodes silent, machines there"),
            Self::Gone => format!("{many} nodes silent, machines gone"),
            Self::Routes => "routes, a pass".to_owned(),
            Self::TooManyRoutes => "more routes than the bound".to_owned(),
        }
    }

    /// Returns the name for the chart.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_is_a_tenth_of_the_nodes_but_at_most_1000() {
        let many = |nodes| Size { nodes, services: 1 }.many();
        assert_eq!((many(1000), many(10_000), many(100_000)), (100, 1000, 1000));
    }
}
