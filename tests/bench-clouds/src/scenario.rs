//! What is done, and what it cost.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

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
    /// The provider's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Openstack => "openstack",
            Self::Aws => "aws",
        }
    }

    /// As it calls itself.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Openstack => "OpenStack",
            Self::Aws => "AWS",
        }
    }
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The cloud's official cloud controller manager.
    Peer,
    /// Skydock with its plugin for the cloud.
    Skydock,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Skydock => "skydock",
        }
    }
}

/// One thing after the other, each on what the one before has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// The program starts in an empty cluster.
    Start,
    /// Nodes register.
    Nodes,
    /// Services are made.
    Services,
    /// Nothing happens.
    Rest,
    /// A tenth of the machines goes, as many others come.
    Replace,
    /// Every Service gets a port more.
    Change,
    /// The program ends in good order and starts again.
    Restart,
    /// All Services are deleted.
    Delete,
}

impl Stage {
    /// All, in their order.
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

    /// For people.
    pub(crate) fn title(self, size: &Size) -> String {
        match self {
            Self::Start => "start".to_owned(),
            Self::Nodes => format!("{} nodes initialised", size.nodes),
            Self::Services => format!("{} services ensured", size.services),
            Self::Rest => format!("at rest, {}", skydock_bench::seconds(size.rest.as_secs_f64())),
            Self::Replace => format!("{} nodes replaced", size.replaced()),
            Self::Change => format!("{} services changed", size.services),
            Self::Restart => "restart".to_owned(),
            Self::Delete => format!("{} services deleted", size.services),
        }
    }

    /// A word for it.
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

/// How much of everything.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) services: usize,
    /// How long it is watched at rest.
    pub(crate) rest: Duration,
    /// How long each call to the cloud takes.
    pub(crate) latency: Duration,
}

impl Size {
    /// A tenth of the nodes, but one.
    pub(crate) fn replaced(&self) -> usize {
        (self.nodes / 10).max(1)
    }
}

/// What a stage cost.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures {
    /// Until the cluster is as it should be; none where nobody sees that in the cluster.
    pub(crate) seconds: Option<f64>,
    /// Until the last call to the cloud.
    pub(crate) seconds_of_calls: Option<f64>,
    /// Calls to the cloud, by operation.
    pub(crate) calls: BTreeMap<String, u64>,
    /// User and system time of the process.
    pub(crate) cpu_seconds: f64,
    /// Most resident memory, `VmHWM`.
    pub(crate) peak_bytes: u64,
    /// Most anonymous memory.
    pub(crate) peak_anonymous_bytes: u64,
}

impl Figures {
    /// All calls.
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }
}
