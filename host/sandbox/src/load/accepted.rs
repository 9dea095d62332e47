//! What was accepted of a plugin when it went into service. A replacement, also after a restart, may
//! need more only if the operator permits it.

use std::fmt;

use serde::{Deserialize, Serialize};
use skydock_egress::TargetPattern;

use crate::{
    grants::permissions::Permissions,
    words::{
        names::{CLUSTER, EVENTS, HTTP, OBJECTS},
        text::Names,
    },
};

/// Imports that reach beyond what every plugin has, without their versions: the network, and
/// Nodes, Services, events and other objects of the cluster. What is left has no effect outside of
/// the plugin.
pub(crate) const POWERS: [&str; 4] = [HTTP, CLUSTER, EVENTS, OBJECTS];

/// What a plugin in service needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// Imports that reach beyond what every plugin has, without their versions.
    #[serde(default)]
    pub imports: Vec<String>,
    /// Capabilities that it exports. `None` if an earlier Skydock has written this, which did not
    /// note all imports either.
    #[serde(default)]
    pub exports: Option<Vec<String>>,
    /// Hosts that it requests.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Prefixes of the provider IDs that it owns.
    #[serde(rename = "providerIDs", default)]
    pub provider_ids: Vec<String>,
    /// Prefixes of the keys of annotations that it writes.
    #[serde(default)]
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

    /// Returns what this plugin imports, exports and requests, although the previous one did not:
    /// `import …`, `export …` and `host …`.
    pub(crate) fn beyond(&self, before: &Self) -> Vec<String> {
        let new = |what: &str, now: &[String], had: &[String]| {
            let new = now.iter().filter(|one| !had.contains(one));
            new.map(|one| format!("{what} {one}")).collect::<Vec<_>>()
        };

        let exports = self.exports.as_deref().unwrap_or_default();
        let (imports, had) = match &before.exports {
            Some(had) => (before.imports.clone(), had.as_slice()),
            None => {
                // An earlier Skydock did not note these two, so the previous plugin may have had
                // them.
                let unknown = [CLUSTER, EVENTS].map(ToOwned::to_owned);
                ([&*before.imports, &unknown].concat(), exports)
            }
        };

        // The operator may have written a host in another form.
        let hosts: Vec<_> = before.hosts.iter().map(|host| canonical(host)).collect();

        [
            new("import", &self.imports, &imports),
            new("export", exports, had),
            new("host", &self.hosts, &hosts),
        ]
        .concat()
    }

    /// Checks that this plugin needs no more than the previous one and the operator's permissions.
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
            exports: before
                .exports
                .as_ref()
                .map(|exports| [&**exports, &*permissions.exports].concat()),
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

/// Returns the only way to write a host: `scheme://host:port` in lower case, which has at most a
/// few hundred bytes. What is no host has no other way.
pub(crate) fn canonical(host: &str) -> String {
    let rule = host.parse::<TargetPattern>();
    rule.map_or_else(|_| host.to_owned(), |rule| rule.to_string())
}

/// What a plugin needs beyond the previous one: `import …`, `export …` and `host …`.
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

    const OLD: &str = "instances";
    const NEW: &str = "load-balancers";

    fn list(all: &[&str]) -> Vec<String> {
        all.iter().map(|it| (*it).to_owned()).collect()
    }

    fn accepted(digest: &str, imports: &[&str], exports: &[&str], hosts: &[&str]) -> Accepted {
        Accepted {
            digest: digest.to_owned(),
            imports: Accepted::powers(&list(imports)),
            exports: Some(list(exports)),
            hosts: list(hosts),
            ..Accepted::default()
        }
    }

    // Holds: SEC-28
    #[test]
    fn a_replacement_needs_permissions_for_more() {
        let before = accepted(
            "1",
            &["wasi:io/poll@0.2.3"],
            &[OLD],
            &["https://a.example:443"],
        );
        let permissions = Permissions {
            imports: list(&POWERS),
            exports: list(&[NEW]),
            hosts: list(&["https://B.example:443"]),
            ..Permissions::default()
        };
        let import = |name: &str| Some(format!("`import {name}`"));
        let no = &[][..];
        for (imports, exports, hosts, wanted) in [
            (
                &[
                    "wasi:io/poll@0.2.6",
                    "wasi:clocks/wall-clock@0.2.6",
                    "skydock:provider/cache@0.1.0",
                    "skydock:provider/calls@0.1.0",
                ][..],
                &[OLD][..],
                &["https://a.example:443"][..],
                None,
            ),
            (
                &["wasi:http/outgoing-handler@0.2.6"],
                &[OLD],
                no,
                import(HTTP),
            ),
            (
                &["skydock:provider/cluster@0.1.0"],
                &[OLD],
                no,
                import(CLUSTER),
            ),
            (
                &["skydock:provider/events@0.1.0"],
                &[OLD],
                no,
                import(EVENTS),
            ),
            (
                &["skydock:provider/objects@0.1.0"],
                &[OLD],
                no,
                import(OBJECTS),
            ),
            (
                no,
                &[OLD, NEW],
                no,
                Some("`export load-balancers`".to_owned()),
            ),
            (
                no,
                &[OLD],
                &["https://b.example:443"],
                Some("`host https://b.example:443`".to_owned()),
            ),
        ] {
            let next = accepted("2", imports, exports, hosts);
            let rejected = next.may_follow(&before, &Permissions::default());
            assert_eq!(rejected.err().map(|grown| grown.to_string()), wanted);
            assert_eq!(next.may_follow(&before, &permissions), Ok(()));
            let same = accepted("1", imports, exports, hosts);
            assert_eq!(
                same.may_follow(&before, &Permissions::default()),
                Ok(()),
                "configured otherwise"
            );
        }
    }

    #[test]
    fn what_an_earlier_skydock_did_not_note_is_not_compared() {
        let noted = r#"{"digest": "1", "imports": [], "hosts": [], "providerIDs": ["a://"]}"#;
        let before: Accepted = serde_json::from_str(noted).unwrap();
        let same = accepted("2", &[CLUSTER, EVENTS], &[OLD, NEW], &[]);
        assert_eq!(same.may_follow(&before, &Permissions::default()), Ok(()));
        for more in [HTTP, OBJECTS] {
            let grown = accepted("2", &[more], &[OLD], &[]);
            let rejected = grown.may_follow(&before, &Permissions::default());
            assert!(rejected.is_err(), "{more}");
        }
        let text = serde_json::to_string(&same).unwrap();
        assert!(
            text.contains(r#""exports":["instances","load-balancers"]"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Accepted>(&text).unwrap(), same);
    }
}
