//! What is known of a controller before it runs: its names, what it needs, and how it is built. Each controller has a
//! [`Descriptor`] in its module, and [`crate::CONTROLLERS`] lists them.

use std::{
    cmp::Ordering,
    fmt::{self, Debug, Display},
    sync::Arc,
};

use kube::Client;
use skydock_cloud::{Capability, ProviderInfo};
use skydock_kube::{dry_run::Said, informer::Informer};

use crate::{
    ClientName, ClusterCidrsError, Options,
    kinds::ServiceKind,
    notes::Notes,
    reads::Reads,
    shared::{Runner, Shared},
};

/// A controller.
pub type Controller = &'static Descriptor;

/// Describes a controller.
pub struct Descriptor {
    /// Canonical name, as in `--controllers`.
    pub name: &'static str,
    /// Shorter name, which `--controllers` accepts too and metrics use.
    pub alias: &'static str,
    /// Its API client.
    pub client: ClientName,
    /// `source.component` of its events.
    pub event_source: &'static str,
    /// The capability that a provider must have for this controller; `None` if it needs none.
    pub needs: Option<Capability>,
    /// Whether it needs the Services of the cluster in addition to the nodes.
    pub(crate) needs_services: bool,
    /// Returns the flag that disables it.
    pub(crate) disabled_by: fn(&Options) -> Option<&'static str>,
    /// Builds it.
    pub(crate) build: fn(Setup<'_>) -> Result<Arc<dyn Runner>, Obstacle>,
}

/// What a controller is built from.
pub(crate) struct Setup<'a> {
    /// What it shares with the others.
    pub(crate) shared: Shared,
    /// The API client with its name.
    pub(crate) client: Client,
    /// Options of all controllers.
    pub(crate) options: &'a Options,
    /// The Services of the cluster; complete if the descriptor says that it needs them.
    pub(crate) services: &'a Arc<Informer<ServiceKind>>,
    /// Annotations that the provider wants.
    pub(crate) notes: &'a Notes,
    /// Objects that the provider reads.
    pub(crate) reads: &'a Reads,
    /// Set in a dry run.
    pub(crate) said: Option<&'a Arc<Said>>,
    /// True if requests of the previous leader may still arrive.
    pub(crate) unreleased: bool,
}

/// Why an enabled controller is not running.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Obstacle {
    /// A flag disables it.
    #[error("it is disabled by {0}=false")]
    TurnedOff(&'static str),
    /// The provider cannot do what it needs.
    #[error("provider {provider} does not support {capability}")]
    Unsupported { provider: String, capability: Capability },
    /// The objects that it needs are not known yet.
    #[error("{0} are not listed yet; the controller starts when they are")]
    NotListed(&'static str),
    /// At startup, this is checked earlier; here, the capability was added by a later generation.
    #[error("{0}")]
    ClusterCidrs(#[from] ClusterCidrsError),
}

impl Obstacle {
    /// Returns true if somebody has to change the configuration.
    pub(crate) fn is_mistake(&self) -> bool {
        matches!(self, Self::ClusterCidrs(_))
    }
}

impl Descriptor {
    /// Checks what can be checked without building it. `listed` says whether all Services are known.
    pub(crate) fn check(&self, options: &Options, provider: &ProviderInfo, listed: bool) -> Result<(), Obstacle> {
        if let Some(flag) = (self.disabled_by)(options) {
            return Err(Obstacle::TurnedOff(flag));
        }
        if let Some(capability) = self.needs.filter(|capability| !provider.can(*capability)) {
            return Err(Obstacle::Unsupported { provider: provider.name.clone(), capability });
        }
        // Nodes are served even if Services cannot be listed.
        if self.needs_services && !listed {
            return Err(Obstacle::NotListed("services"));
        }
        Ok(())
    }
}

impl Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Descriptor {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Descriptor {}

impl PartialOrd for Descriptor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Descriptor {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}
