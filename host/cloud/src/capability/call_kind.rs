//! Kinds of calls, among which the resources of a provider are divided.

/// How much is reserved for each kind, if there is enough. The controllers send eight queries about
/// nodes at a time.
const ENOUGH: usize = 8;

/// A kind of calls. Each kind has a share of the provider's resources, so that one that hangs does
/// not stop the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// About nodes and zones.
    Nodes,
    /// About routes.
    Routes,
    /// About load balancers, and maintenance.
    LoadBalancers,
    /// About volumes and snapshots.
    Volumes,
}

impl CallKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::Nodes,
        Self::Routes,
        Self::LoadBalancers,
        Self::Volumes,
    ];

    /// Returns how much of a quantity is reserved for each kind: a quarter, but at least one and at
    /// most eight.
    #[must_use]
    pub fn reserved(of: usize) -> usize {
        (of / 4).clamp(1, ENOUGH)
    }
}

/// A value for each kind of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T> {
    /// For calls about nodes and zones.
    pub nodes: T,
    /// For calls about routes.
    pub routes: T,
    /// For calls about load balancers, and maintenance.
    pub load_balancers: T,
    /// For calls about volumes and snapshots.
    pub volumes: T,
}

impl<T> PerKind<T> {
    /// Creates the value of each kind.
    pub fn of(mut value: impl FnMut(CallKind) -> T) -> Self {
        Self {
            nodes: value(CallKind::Nodes),
            routes: value(CallKind::Routes),
            load_balancers: value(CallKind::LoadBalancers),
            volumes: value(CallKind::Volumes),
        }
    }

    /// Returns the value of a kind.
    pub fn get(&self, kind: CallKind) -> &T {
        match kind {
            CallKind::Nodes => &self.nodes,
            CallKind::Routes => &self.routes,
            CallKind::LoadBalancers => &self.load_balancers,
            CallKind::Volumes => &self.volumes,
        }
    }

    /// Returns the value of a kind, to change it.
    pub fn get_mut(&mut self, kind: CallKind) -> &mut T {
        match kind {
            CallKind::Nodes => &mut self.nodes,
            CallKind::Routes => &mut self.routes,
            CallKind::LoadBalancers => &mut self.load_balancers,
            CallKind::Volumes => &mut self.volumes,
        }
    }

    /// Returns all values.
    pub fn all(&self) -> [&T; CallKind::ALL.len()] {
        CallKind::ALL.map(|kind| self.get(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_reserved_for_each_kind() {
        let table = [(64, 8), (36, 8), (24, 6), (8, 2), (4, 1), (3, 1), (1, 1)];
        for (of, expected) in table {
            assert_eq!(CallKind::reserved(of), expected, "{of}");
        }
    }

    #[test]
    fn each_kind_has_its_own_value() {
        let names = PerKind::of(|kind| format!("{kind:?}"));
        assert_eq!(names.all(), ["Nodes", "Routes", "LoadBalancers", "Volumes"]);
        for kind in CallKind::ALL {
            assert_eq!(*names.get(kind), format!("{kind:?}"));
        }
    }
}
