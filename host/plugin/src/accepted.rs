//! What was accepted of a plugin when it went into service. A replacement, also after a restart, may
//! need more only if the operator permits it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{names, permissions::Permissions, text::Names};

/// Imports that reach beyond what every plugin has, without their versions: the network, and
/// objects of the cluster.
const POWERS: [&str; 2] = ["wasi:http/outgoing-handler", names::OBJECTS];

/// What a plugin in service needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Accepted {
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// Imports that reach beyond what every plugin has, without their versions.
    pub imports: Vec<String>,
    /// Hosts that it requests.
    pub hosts: Vec<String>,
    /// Prefixes of the provider IDs that it owns.
    #[serde(rename = "providerIDs")]
    pub provider_ids: Vec<String>,
    /// Prefixes of the keys of annotations that it writes.
    pub annotations: Vec<String>,
}

impl Accepted {
    /// Returns the imports that reach beyond what every plugin has, without their versions.
    pub(crate) fn powers(imports: &[String]) -> Vec<String> {
        let plain = imports
            .iter()
            .map(|name| name.split_once('@').map_or(name.as_str(), |(name, _)| name));
        plain
            .filter(|name| POWERS.contains(name))
            .map(Into::into)
            .collect()
    }

    /// Returns what this plugin imports and requests, although the one before did not: `import …`
    /// and `host …`.
    pub(crate) fn beyond(&self, before: &Self) -> Vec<String> {
        let new = |what: &str, now: &[String], had: &[String]| {
            let new = now.iter().filter(|one| !had.contains(one));
            new.map(|one| format!("{what} {one}")).collect::<Vec<_>>()
        };
        [
            new("import", &self.imports, &before.imports),
            new("host", &self.hosts, &before.hosts),
        ]
        .concat()
    }

    /// Checks that this plugin needs no more than the one before and the operator's permissions.
    /// Whatever else it wants is permitted already. With the same component, the difference comes
    /// from the operator's configuration.
    ///
    /// # Errors
    /// [`Grown`].
    pub(crate) fn may_follow(&self, before: &Self, permissions: &Permissions) -> Result<(), Grown> {
        if self.digest == before.digest {
            return Ok(());
        }
        let permitted = Self {
            imports: [&*before.imports, &*permissions.imports].concat(),
            hosts: [&*before.hosts, &*permissions.hosts].concat(),
            ..Self::default()
        };
        let grown = self.beyond(&permitted);
        if grown.is_empty() {
            Ok(())
        } else {
            Err(Grown(grown.iter().collect()))
        }
    }
}

/// What a plugin needs beyond the one before: `import …` and `host …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown(Names);

impl fmt::Display for Grown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP: &str = "wasi:http/outgoing-handler";

    fn accepted(digest: &str, imports: &[&str], hosts: &[&str]) -> Accepted {
        let list = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Accepted {
            digest: digest.to_owned(),
            imports: Accepted::powers(&list(imports)),
            hosts: list(hosts),
            ..Accepted::default()
        }
    }

    // Holds: SEC-28
    #[test]
    fn a_replacement_needs_permissions_for_more() {
        let before = accepted("1", &["wasi:io/poll@0.2.3"], &["https://a.example:443"]);
        let permissions = Permissions {
            imports: vec![HTTP.to_owned()],
            hosts: vec!["https://b.example:443".to_owned()],
            ..Permissions::default()
        };
        for (imports, hosts, wanted) in [
            (
                &["wasi:io/poll@0.2.6", "wasi:clocks/wall-clock@0.2.6"][..],
                &["https://a.example:443"][..],
                None,
            ),
            (
                &["wasi:http/outgoing-handler@0.2.6"],
                &[],
                Some(format!("`import {HTTP}`")),
            ),
            (
                &[],
                &["https://b.example:443"],
                Some("`host https://b.example:443`".to_owned()),
            ),
        ] {
            let next = accepted("2", imports, hosts);
            let refused = next.may_follow(&before, &Permissions::default());
            assert_eq!(refused.err().map(|grown| grown.to_string()), wanted);
            assert_eq!(next.may_follow(&before, &permissions), Ok(()));
            let same = accepted("1", imports, hosts);
            assert_eq!(
                same.may_follow(&before, &Permissions::default()),
                Ok(()),
                "configured otherwise"
            );
        }
    }
}
