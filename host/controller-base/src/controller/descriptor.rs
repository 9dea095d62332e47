//! What is known of a controller before it runs: its names and what it needs. Each controller has a
//! [`Descriptor`] in its module.

use std::{
    cmp::Ordering,
    fmt::{self, Debug, Display},
};

use skydock_cloud::Capability;

use crate::controller::clients::ClientName;

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
    pub needs_services: NeedsServices,
}

/// Whether a controller needs Services.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NeedsServices {
    /// It does not.
    No,
    /// It waits for them, unless they are not watched or must not be listed.
    IfAllowed,
    /// It does not run without them.
    Yes,
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
