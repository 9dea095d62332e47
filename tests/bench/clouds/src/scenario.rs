//! The stages and their figures.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use skydock_e2e::Plugin;

/// A cloud to measure on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// OpenStack's own services.
    Openstack,
    /// moto, which verifies signatures.
    Aws,
}

impl Kind {
    /// Returns the provider's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Openstack => "openstack",
            Self::Aws => "aws",
        }
    }

    /// Returns the display name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Openstack => "OpenStack",
            Self::Aws => "AWS",
        }
    }
}

/// One of the measured programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    /// The official cloud controller manager of the cloud.
    Peer,
    /// Skydock with the peer's provider, unmodified, as its plugin.
    Go,
    /// Skydock with its plugin for the cloud.
    Skydock,
}

impl Side {
    /// All sides in the order of the tables.
    pub(crate) const ALL: [Self; 3] = [Self::Peer, Self::Go, Self::Skydock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Go => "go",
            Self::Skydock => "skydock",
        }
    }

    /// Returns the display name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Go => "its provider as plugin",
            Self::Skydock => "Skydock",
        }
    }

    /// Returns the plugin that the host runs, or `None` without our host.
    pub(crate) fn plugin(self) -> Option<Plugin> {
        match self {
            Self::Peer => None,
            Self::Go => Some(Plugin::Go),
            Self::Skydock => Some(Plugin::Native),
        }
    }
}

/// The stages, each of which starts with the result of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// The program starts in an empty cluster.
    Start,
    /// Nodes register.
    Nodes,
    /// Services are created.
    Services,
    /// Nothing happens.
    Rest,
    /// A tenth of the instances is replaced.
    Replace,
    /// Every Service gets one more port.
    Change,
    /// The program stops gracefully and starts again.
    Restart,
    /// All Services are deleted.
    Delete,
}

impl Stage {
    /// All stages in order.
    pub(crate) const ALL: [Self; 8] = [
        Self::Start,
        Self::Nodes,
        Self::Services,
        Self::Rest,
        Self::Replace,
        Self::Change,
        Self::Restart,
        Self::Delete,
    ];

    /// Returns the title for display.
    pub(crate) fn title(self, size: &Size) -> String {
        match self {
            Self::Start => "start".to_owned(),
            Self::Nodes => format!("{} nodes initialized", size.nodes),
            Self::Services => format!("{} services ensured", size.services),
            Self::Rest => format!(
                "at rest, {}",
                skydock_bench::seconds(size.rest.as_secs_f64())
            ),
            Self::Replace => format!("{} nodes replaced", size.replaced()),
            Self::Change => format!("{} services changed", size.services),
            Self::Restart => "restart".to_owned(),
            Self::Delete => format!("{} services deleted", size.services),
        }
    }

    /// Returns the name as one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Nodes => "nodes",
            Self::Services => "services",
            Self::Rest => "rest",
            Self::Replace => "replace",
            Self::Change => "change",
            Self::Restart => "restart",
            Self::Delete => "delete",
        }
    }
}

/// The size of a run.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) services: usize,
    /// How long the idle state is observed.
    pub(crate) rest: Duration,
    /// How long each call to the cloud takes.
    pub(crate) latency: Duration,
}

impl Size {
    /// Returns a tenth of the number of nodes, but at least one.
    pub(crate) fn replaced(&self) -> usize {
        (self.nodes / 10).max(1)
    }
}

/// The figures of a stage.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures {
    /// Seconds until the cluster has the expected state, or `None` if the stage is not visible in
    /// the cluster.
    pub(crate) seconds: Option<f64>,
    /// Seconds until the last call to the cloud.
    pub(crate) seconds_of_calls: Option<f64>,
    /// Calls to the cloud by operation.
    pub(crate) calls: BTreeMap<String, u64>,
    /// CPU time of the process, user and system.
    pub(crate) cpu_seconds: f64,
    /// Peak of resident memory, `VmHWM`.
    pub(crate) peak_bytes: u64,
    /// Peak of anonymous memory.
    pub(crate) peak_anonymous_bytes: u64,
}

impl Figures {
    /// Returns the number of all calls.
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }
}
