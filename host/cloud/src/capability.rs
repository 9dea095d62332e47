//! What a provider can do.

use std::fmt;

/// A capability of a provider: an interface that its plugin exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Knows the cloud instances behind nodes.
    Instances,
    /// Manages load balancers for Services.
    LoadBalancers,
    /// Manages routes to Pods.
    Routes,
    /// Knows the zones and regions of nodes.
    Zones,
    /// Has work to be done periodically.
    Maintenance,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 5] = [
        Self::Instances,
        Self::LoadBalancers,
        Self::Routes,
        Self::Zones,
        Self::Maintenance,
    ];

    /// Returns the name of the interface in the plugin contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::LoadBalancers => "load-balancers",
            Self::Routes => "routes",
            Self::Zones => "zones",
            Self::Maintenance => "maintenance",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_named_as_in_the_contract() {
        let names = Capability::ALL.map(|capability| capability.to_string());
        assert_eq!(
            names,
            [
                "instances",
                "load-balancers",
                "routes",
                "zones",
                "maintenance"
            ]
        );
    }

    #[test]
    fn capabilities_are_listed_in_order() {
        let positions = Capability::ALL.map(|capability| capability as usize);
        assert!(positions.into_iter().eq(0..Capability::ALL.len()));
    }
}
