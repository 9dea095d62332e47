//! Decides whether a component may replace another.

use std::collections::BTreeSet;

use skydock_cloud::Capability;

use crate::{error::LoadProblem, names, permissions::Permissions};

/// Imports that reach beyond what every plugin has, without their versions: the network, and
/// objects of the cluster.
const POWERS: [&str; 2] = ["wasi:http/outgoing-handler", names::OBJECTS];

/// What identifies a plugin, and the permissions that it needs.
pub(crate) struct Identity<'a> {
    /// The plugin's own name.
    pub(crate) name: &'a str,
    /// Exports of its component, including those that it does not serve.
    pub(crate) exports: &'a BTreeSet<Capability>,
    /// SHA-256 of the component.
    pub(crate) digest: &'a str,
    /// Names of all imports.
    pub(crate) imports: &'a [String],
    /// Hosts that it requests.
    pub(crate) hosts: &'a [String],
}

impl Identity<'_> {
    /// Checks whether this plugin may replace the previous one: it must be the same provider and
    /// export at least the same capabilities. If its component is different, it must not need more
    /// than the previous one has or the operator permits.
    ///
    /// # Errors
    /// [`LoadProblem::OtherName`], [`LoadProblem::Lost`] or [`LoadProblem::Grown`].
    pub(crate) fn may_follow(
        &self,
        before: &Identity<'_>,
        permissions: &Permissions,
    ) -> Result<(), LoadProblem> {
        if before.name != self.name {
            return Err(LoadProblem::OtherName {
                before: before.name.to_owned(),
                now: self.name.to_owned(),
            });
        }
        let lost: Vec<_> = before.exports.difference(self.exports).copied().collect();
        if !lost.is_empty() {
            return Err(LoadProblem::Lost(lost));
        }
        // With the same component, the difference comes from the operator's configuration.
        let grown = if before.digest == self.digest {
            Vec::new()
        } else {
            self.grown(before, permissions)
        };
        if grown.is_empty() {
            Ok(())
        } else {
            Err(LoadProblem::Grown(grown.iter().collect()))
        }
    }

    /// Returns what this plugin imports and requests beyond the previous one and the operator's
    /// permissions. Whatever else it wants is permitted already.
    fn grown(&self, before: &Identity<'_>, permissions: &Permissions) -> Vec<String> {
        fn powers(imports: &[String]) -> Vec<String> {
            let plain = imports
                .iter()
                .map(|name| name.split_once('@').map_or(name.as_str(), |(name, _)| name));
            plain
                .filter(|name| POWERS.contains(name))
                .map(Into::into)
                .collect()
        }
        let new = |what: &str, now: &[String], had: &[String], permitted: &[String]| {
            let new = now
                .iter()
                .filter(|one| !had.contains(one) && !permitted.contains(one));
            new.map(|one| format!("{what} {one}")).collect::<Vec<_>>()
        };
        [
            new(
                "import",
                &powers(self.imports),
                &powers(before.imports),
                &permissions.imports,
            ),
            new("host", self.hosts, before.hosts, &permissions.hosts),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{Instances, Routes};

    struct Plugin {
        name: &'static str,
        exports: BTreeSet<Capability>,
        digest: &'static str,
        lists: [Vec<String>; 2],
    }

    impl Plugin {
        fn identity(&self) -> Identity<'_> {
            let [imports, hosts] = &self.lists;
            let Self {
                name,
                exports,
                digest,
                ..
            } = self;
            Identity {
                name,
                exports,
                digest,
                imports,
                hosts,
            }
        }
    }

    fn plugin(digest: &'static str, lists: [&[&str]; 2]) -> Plugin {
        let lists = lists.map(|list| list.iter().map(|text| (*text).to_owned()).collect());
        Plugin {
            name: "metal",
            exports: [Instances].into(),
            digest,
            lists,
        }
    }

    #[test]
    fn a_replacement_keeps_the_name_and_all_capabilities() {
        let (permissions, metal) = (Permissions::default(), plugin("1", [&[]; 2]));
        let more = Plugin {
            exports: [Instances, Routes].into(),
            ..plugin("2", [&[]; 2])
        };
        assert!(
            more.identity()
                .may_follow(&metal.identity(), &permissions)
                .is_ok()
        );
        let other = Plugin {
            name: "other",
            ..plugin("2", [&[]; 2])
        };
        let refused = other.identity().may_follow(&metal.identity(), &permissions);
        assert!(matches!(refused, Err(LoadProblem::OtherName { .. })));
        let less = Plugin {
            exports: [Routes].into(),
            ..plugin("2", [&[]; 2])
        };
        let refused = less.identity().may_follow(&metal.identity(), &permissions);
        assert!(matches!(refused, Err(LoadProblem::Lost(lost)) if lost == [Instances]));
    }

    #[test]
    fn a_replacement_needs_permissions_for_more() {
        let before = plugin("1", [&["wasi:io/poll@0.2.3"], &["https://a.example:443"]]);
        let http = "wasi:http/outgoing-handler";
        for (lists, wanted) in [
            (
                [
                    &["wasi:io/poll@0.2.6", "wasi:clocks/wall-clock@0.2.6"][..],
                    &["https://a.example:443"],
                ],
                None,
            ),
            (
                [&["wasi:http/outgoing-handler@0.2.6"], &[]],
                Some(format!("import {http}")),
            ),
            (
                [&[], &["https://b.example:443"]],
                Some("host https://b.example:443".into()),
            ),
        ] {
            let next = plugin("2", lists);
            let refused = next
                .identity()
                .may_follow(&before.identity(), &Permissions::default());
            let told = refused.err().map(|error| error.to_string());
            assert_eq!(told.is_some(), wanted.is_some(), "{told:?}");
            assert!(
                told.iter()
                    .zip(&wanted)
                    .all(|(told, wanted)| told.contains(wanted)),
                "{told:?}"
            );
            let same = Plugin {
                digest: "1",
                ..plugin("1", lists)
            };
            assert!(
                same.identity()
                    .may_follow(&before.identity(), &Permissions::default())
                    .is_ok(),
                "configured otherwise"
            );
            let list = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            let (imports, hosts) = (list(&[http]), list(&["https://b.example:443"]));
            let permissions = Permissions {
                imports,
                hosts,
                ..Permissions::default()
            };
            assert!(
                next.identity()
                    .may_follow(&before.identity(), &permissions)
                    .is_ok(),
                "{wanted:?}"
            );
        }
    }
}
