//! Which operation a method and a path are.
use std::fmt;

use crate::api::error::{Error, Result};

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Servers,
    LoadBalancers,
    Routes,
    Volumes,
    Snapshots,
    Zones,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    List,
    Create,
    Get,
    Update,
    Delete,
}

/// An operation under `/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) action: Action,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Servers,
        Self::LoadBalancers,
        Self::Routes,
        Self::Volumes,
        Self::Snapshots,
        Self::Zones,
    ];

    /// Returns the name in paths.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::LoadBalancers => "load-balancers",
            Self::Routes => "routes",
            Self::Volumes => "volumes",
            Self::Snapshots => "snapshots",
            Self::Zones => "zones",
        }
    }

    fn actions(self) -> &'static [Action] {
        use Action::{Create, Delete, Get, List, Update};
        match self {
            Self::Servers => &[List, Get],
            Self::LoadBalancers | Self::Volumes => &[List, Create, Get, Update, Delete],
            Self::Routes | Self::Snapshots => &[List, Create, Get, Delete],
            Self::Zones => &[List],
        }
    }
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Create => "create",
            Self::Get => "get",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl Operation {
    /// Returns the operation of a method and a path.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of(method: &str, path: &str) -> Result<Self> {
        let rest = path
            .strip_prefix("/v1/")
            .ok_or_else(|| Error::no_such_path(path))?;

        let (name, id) = rest
            .split_once('/')
            .map_or((rest, None), |(name, id)| (name, Some(id)));

        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind
            .filter(|kind| {
                id.is_none_or(|id| {
                    kind.actions().contains(&Action::Get) && !id.is_empty() && !id.contains('/')
                })
            })
            .ok_or_else(|| Error::no_such_path(path))?;

        let action = match (method, id.is_some()) {
            ("GET", false) => Some(Action::List),
            ("POST", false) => Some(Action::Create),
            ("GET", true) => Some(Action::Get),
            ("PATCH", true) => Some(Action::Update),
            ("DELETE", true) => Some(Action::Delete),
            _ => None,
        };
        let action = action.filter(|action| kind.actions().contains(action));

        Ok(Self {
            kind,
            action: action.ok_or_else(|| Error::method_not_allowed(method, path))?,
        })
    }

    /// Returns whether a pattern matches this operation.
    pub(crate) fn matches(self, pattern: &str) -> bool {
        let matches = |part: &str, name: &str| part == "*" || part == name;
        pattern.split_once('.').is_some_and(|(kind, action)| {
            matches(kind, self.kind.name()) && matches(action, self.action.name())
        })
    }

    /// Returns whether a pattern can match an operation.
    pub(crate) fn is_pattern(pattern: &str) -> bool {
        let operations = Kind::ALL.into_iter().flat_map(|kind| {
            kind.actions().iter().map(move |action| Self {
                kind,
                action: *action,
            })
        });
        operations
            .into_iter()
            .any(|operation| operation.matches(pattern))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.name(), self.action.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_are_an_operation() {
        let name = |method, path| {
            Operation::of(method, path)
                .map_or_else(|error| error.status.to_string(), |it| it.to_string())
        };
        for (method, path, expected) in [
            ("GET", "/v1/servers", "servers.list"),
            ("GET", "/v1/servers/srv-1", "servers.get"),
            ("POST", "/v1/load-balancers", "load-balancers.create"),
            ("PATCH", "/v1/load-balancers/lb-1", "load-balancers.update"),
            ("DELETE", "/v1/routes/rt-1", "routes.delete"),
            ("GET", "/v1/zones", "zones.list"),
            ("PATCH", "/v1/volumes/vol-1", "volumes.update"),
            ("PATCH", "/v1/snapshots/snap-1", "405"),
            ("POST", "/v1/servers", "405"),
            ("PATCH", "/v1/routes/rt-1", "405"),
            ("PUT", "/v1/routes/rt-1", "405"),
            ("DELETE", "/v1/routes", "405"),
            ("GET", "/v1/zones/zone-a", "404"),
            ("GET", "/v1/servers/", "404"),
            ("GET", "/v1/servers/a/b", "404"),
            ("GET", "/v1", "404"),
            ("GET", "/v2/servers", "404"),
        ] {
            assert_eq!(name(method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn either_part_of_a_pattern_may_be_a_star() {
        let create = Operation::of("POST", "/v1/routes").unwrap();
        for pattern in ["routes.create", "routes.*", "*.create", "*.*"] {
            assert!(
                create.matches(pattern) && Operation::is_pattern(pattern),
                "{pattern}"
            );
        }
        for pattern in ["routes.list", "zones.*", "*", "", "routes.create.x"] {
            assert!(!create.matches(pattern), "{pattern}");
        }
        assert!(!Operation::is_pattern("servers.create") && !Operation::is_pattern("*"));
    }
}
