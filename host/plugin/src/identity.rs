//! Decides whether a component may replace another.

use std::collections::BTreeSet;

use skydock_cloud::Capability;

use crate::{error::LoadProblem, grants::Grants, names};

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
    /// Prefixes of the provider IDs that it owns.
    pub(crate) provider_ids: &'a [String],
    /// Prefixes of the annotation keys that it may write.
    pub(crate) annotations: &'a [String],
}

impl Identity<'_> {
    /// Checks whether this plugin may replace the previous one: it must be the same provider and
    /// export at least the same capabilities. If its component is different, it must not need more
    /// permissions than the previous one has or the operator grants.
    ///
    /// # Errors
    /// [`LoadProblem::OtherName`], [`LoadProblem::Lost`] or [`LoadProblem::Grown`].
    pub(crate) fn may_follow(
        &self,
        before: &Identity<'_>,
        grants: &Grants,
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
            self.grown(before, grants)
        };
        if grown.is_empty() {
            Ok(())
        } else {
            Err(LoadProblem::Grown(grown.iter().collect()))
        }
    }

    /// Returns the permissions that this plugin needs beyond those of the previous one and the
    /// operator's grants.
    fn grown(&self, before: &Identity<'_>, grants: &Grants) -> Vec<String> {
        fn powers(imports: &[String]) -> impl Iterator<Item = &str> {
            let plain = imports
                .iter()
                .map(|name| name.split_once('@').map_or(name.as_str(), |(name, _)| name));
            plain.filter(|name| POWERS.contains(name))
        }
        let new = |what: &str, now: &[String], had: &[String], granted: &[String], prefix: bool| {
            let covered = |one: &String, by: &[String]| {
                by.iter()
                    .any(|it| it == one || (prefix && one.starts_with(it.as_str())))
            };
            let new = now
                .iter()
                .filter(|one| !covered(one, had) && !covered(one, granted));
            new.map(|one| format!("{what} {one}")).collect::<Vec<_>>()
        };
        let imports: Vec<String> = powers(self.imports).map(Into::into).collect();
        let imported: Vec<String> = powers(before.imports).map(Into::into).collect();
        [
            new("import", &imports, &imported, &grants.imports, false),
            new("host", self.hosts, before.hosts, &grants.hosts, false),
            new(
                "provider IDs",
                self.provider_ids,
                before.provider_ids,
                &grants.prefixes,
                true,
            ),
            new(
                "annotations",
                self.annotations,
                before.annotations,
                &grants.prefixes,
                true,
            ),
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
        lists: [Vec<String>; 4],
    }

    impl Plugin {
        fn identity(&self) -> Identity<'_> {
            let [imports, hosts, provider_ids, annotations] = &self.lists;
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
                provider_ids,
                annotations,
            }
        }
    }

    fn plugin(digest: &'static str, lists: [&[&str]; 4]) -> Plugin {
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
        let (grants, metal) = (Grants::default(), plugin("1", [&[]; 4]));
        let more = Plugin {
            exports: [Instances, Routes].into(),
            ..plugin("2", [&[]; 4])
        };
        assert!(
            more.identity()
                .may_follow(&metal.identity(), &grants)
                .is_ok()
        );
        let other = Plugin {
            name: "other",
            ..plugin("2", [&[]; 4])
        };
        let refused = other.identity().may_follow(&metal.identity(), &grants);
        assert!(matches!(refused, Err(LoadProblem::OtherName { .. })));
        let less = Plugin {
            exports: [Routes].into(),
            ..plugin("2", [&[]; 4])
        };
        let refused = less.identity().may_follow(&metal.identity(), &grants);
        assert!(matches!(refused, Err(LoadProblem::Lost(lost)) if lost == [Instances]));
    }

    #[test]
    fn a_replacement_needs_grants_for_additional_rights() {
        let before = plugin(
            "1",
            [
                &["wasi:io/poll@0.2.3"],
                &["https://a.example:443"],
                &["a://"],
                &["a.example/"],
            ],
        );
        let http = "wasi:http/outgoing-handler";
        for (lists, wanted) in [
            (
                [
                    &["wasi:io/poll@0.2.6", "wasi:clocks/wall-clock@0.2.6"][..],
                    &["https://a.example:443"],
                    &["a://eu/"],
                    &["a.example/"],
                ],
                None,
            ),
            (
                [&["wasi:http/outgoing-handler@0.2.6"], &[], &["a://"], &[]],
                Some(format!("import {http}")),
            ),
            (
                [&[], &["https://b.example:443"], &["a://"], &[]],
                Some("host https://b.example:443".into()),
            ),
            ([&[], &[], &["b://"], &[]], Some("provider IDs b://".into())),
            ([&[], &[], &["a:"], &[]], Some("provider IDs a:".into())),
            (
                [&[], &[], &["a://"], &["b.example/"]],
                Some("annotations b.example/".into()),
            ),
        ] {
            let next = plugin("2", lists);
            let refused = next
                .identity()
                .may_follow(&before.identity(), &Grants::default());
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
                    .may_follow(&before.identity(), &Grants::default())
                    .is_ok(),
                "configured otherwise"
            );
            let list = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            let (imports, hosts) = (list(&[http]), list(&["https://b.example:443"]));
            let grants = Grants {
                imports,
                hosts,
                prefixes: list(&["a:", "b://", "b.example/"]),
                ..Grants::default()
            };
            assert!(
                next.identity()
                    .may_follow(&before.identity(), &grants)
                    .is_ok(),
                "{wanted:?}"
            );
        }
    }
}
