//! Decides whether a component may replace another: same provider, no capability lost.

use std::collections::BTreeSet;

use skydock_cloud::Capability;

use crate::{
    grants::permissions::Permissions,
    load::{accepted::Accepted, error::LoadProblem},
};

/// What identifies a plugin, and what it needs.
pub(crate) struct Identity<'a> {
    /// The plugin's own name.
    pub(crate) name: &'a str,
    /// Name of the CSI driver whose controller part it is.
    pub(crate) driver: Option<&'a str>,
    /// Exports of its component, including those that it does not serve.
    pub(crate) exports: &'a BTreeSet<Capability>,
    pub(crate) accepted: &'a Accepted,
}

impl Identity<'_> {
    /// Checks whether this plugin may replace the previous one: it must be the same provider and the
    /// same CSI driver, export at least the same capabilities, and [need no
    /// more](Accepted::may_follow).
    ///
    /// # Errors
    /// [`LoadProblem::OtherName`], [`LoadProblem::OtherDriver`], [`LoadProblem::Lost`] or
    /// [`LoadProblem::Grown`].
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

        // PersistentVolumes and StorageClasses contain its name.
        if let (Some(before), Some(now)) = (before.driver, self.driver)
            && before != now
        {
            return Err(LoadProblem::OtherDriver {
                before: before.to_owned(),
                now: now.to_owned(),
            });
        }

        // Controllers that are running depend on these.
        let lost: Vec<_> = before.exports.difference(self.exports).copied().collect();
        if !lost.is_empty() {
            return Err(LoadProblem::Lost(lost));
        }

        self.accepted
            .may_follow(before.accepted, permissions)
            .map_err(LoadProblem::Grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{Instances, Routes};

    #[test]
    fn a_replacement_keeps_the_name_and_all_capabilities() {
        let accepted = |digest: &str, hosts: &[&str]| Accepted {
            digest: digest.to_owned(),
            hosts: hosts.iter().map(|it| (*it).to_owned()).collect(),
            ..Accepted::default()
        };
        let (first, second) = (accepted("1", &[]), accepted("2", &[]));
        let grown = accepted("2", &["https://a.example:443"]);
        let follows = |name, exports: &[Capability], accepted| {
            let next = Identity {
                name,
                driver: None,
                exports: &exports.iter().copied().collect(),
                accepted,
            };
            let metal = Identity {
                name: "metal",
                driver: None,
                exports: &[Instances].into(),
                accepted: &first,
            };
            next.may_follow(&metal, &Permissions::default())
        };
        assert!(follows("metal", &[Instances, Routes], &second).is_ok());

        let rejected = follows("other", &[Instances], &second);
        assert!(matches!(rejected, Err(LoadProblem::OtherName { .. })));
        let rejected = follows("metal", &[Routes], &second);
        assert!(matches!(rejected, Err(LoadProblem::Lost(lost)) if lost == [Instances]));
        let rejected = follows("metal", &[Instances], &grown);
        assert!(matches!(rejected, Err(LoadProblem::Grown(_))));
    }

    #[test]
    fn a_replacement_is_the_same_csi_driver() {
        let (accepted, exports) = (Accepted::default(), BTreeSet::new());
        let metal = |driver| Identity {
            name: "metal",
            driver,
            exports: &exports,
            accepted: &accepted,
        };
        let table = [
            (None, Some("a.example.com"), true),
            (Some("a.example.com"), Some("a.example.com"), true),
            // The configuration says that it serves no volumes.
            (Some("a.example.com"), None, true),
            (Some("a.example.com"), Some("b.example.com"), false),
        ];
        for (before, now, expected) in table {
            let follows = metal(now).may_follow(&metal(before), &Permissions::default());
            let is_other = matches!(follows, Err(LoadProblem::OtherDriver { .. }));
            assert_eq!(is_other, !expected, "{before:?}, then {now:?}: {follows:?}");
        }
    }
}
