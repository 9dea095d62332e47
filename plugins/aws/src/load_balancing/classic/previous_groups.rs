//! The previous security groups of a classic load balancer, which AWS does not return after they
//! were replaced.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{cloud::Cloud, store};

/// How long they are remembered. Nothing else shows which of a load balancer's groups the nodes
/// allow.
const REMEMBERED: Duration = Duration::from_hours(24);

/// What remains to be done for the previous groups of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PreviousGroups {
    /// The group that the nodes allow.
    pub(super) opened: Option<String>,
    /// The groups that the nodes must not allow.
    pub(super) closing: BTreeSet<String>,
    /// The groups that the load balancer must not have. Those created for it are deleted.
    pub(super) detached: BTreeSet<String>,
}

impl PreviousGroups {
    /// Records that the load balancer changes from the groups `before` to `wanted`. The nodes allow
    /// the first of the wanted groups.
    ///
    /// Only access that was allowed for this load balancer is removed. Access of its other groups
    /// was allowed by somebody else.
    fn replace(&mut self, before: &[String], wanted: &[String]) {
        let leaving: Vec<&String> = before
            .iter()
            .filter(|group| !wanted.contains(group))
            .collect();
        self.detached.extend(leaving.iter().copied().cloned());
        self.detached.retain(|group| !wanted.contains(group));

        let lead = wanted.first();
        let opened = self.opened.take().or_else(|| match leaving.as_slice() {
            // Nothing is remembered, but exactly one group is replaced by another one.
            [one] if lead.is_some_and(|lead| !before.contains(lead)) => Some((*one).clone()),
            _ => None,
        });

        self.closing.extend(opened);
        self.closing.retain(|group| Some(group) != lead);
        self.opened = lead.cloned();
    }

    /// Records that the load balancer is deleted. If nothing is remembered, `likely` is the group
    /// that the nodes probably allow.
    fn delete(&mut self, likely: Option<&String>) {
        self.closing
            .extend(self.opened.take().or_else(|| likely.cloned()));
    }
}

fn key(cloud: &Cloud<'_>, name: &str) -> String {
    cloud.key(&format!("former/{name}"))
}

fn update(
    cloud: &Cloud<'_>,
    name: &str,
    change: impl FnOnce(&mut PreviousGroups),
) -> PreviousGroups {
    let mut previous: PreviousGroups =
        store::load(cloud.store, &key(cloud, name)).unwrap_or_default();
    change(&mut previous);
    store::save(cloud.store, &key(cloud, name), &previous, REMEMBERED);
    previous
}

/// Records that a load balancer changes from the groups `before` to `wanted`, and returns what
/// remains to be done. It is stored until [`finish`].
pub(super) fn replace(
    cloud: &Cloud<'_>,
    name: &str,
    before: &[String],
    wanted: &[String],
) -> PreviousGroups {
    update(cloud, name, |previous| previous.replace(before, wanted))
}

/// Records that everything is done, and that the nodes allow this group.
pub(super) fn finish(cloud: &Cloud<'_>, name: &str, opened: Option<String>) {
    update(cloud, name, |previous| {
        *previous = PreviousGroups {
            opened,
            ..PreviousGroups::default()
        }
    });
}

/// Records that a load balancer is deleted, and returns what remains to be done. It is stored until
/// [`forget`].
pub(super) fn delete(cloud: &Cloud<'_>, name: &str, likely: Option<&String>) -> PreviousGroups {
    update(cloud, name, |previous| previous.delete(likely))
}

/// Deletes the record of a deleted load balancer.
pub(super) fn forget(cloud: &Cloud<'_>, name: &str) {
    cloud.store.remove(&key(cloud, name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, Scripted, nothing, setup};

    #[test]
    fn previous_groups_are_remembered_until_they_are_closed() {
        let (setup, store, wire, none) =
            (setup(), Memory::default(), Scripted::new(nothing), Vec::new);
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let names = |previous: &PreviousGroups| {
            previous
                .closing
                .iter()
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        };

        assert_eq!(names(&replace(&cloud, "one", &ids("a"), &ids("b"))), "a");
        assert_eq!(
            names(&replace(&cloud, "one", &ids("b"), &ids("b"))),
            "a",
            "a call that failed on the way"
        );
        assert_eq!(
            names(&replace(&cloud, "two", &ids("b"), &ids("b"))),
            "",
            "another load balancer"
        );

        finish(&cloud, "one", Some("b".to_owned()));
        assert_eq!(replace(&cloud, "one", &ids("b c"), &ids("c b")), {
            PreviousGroups {
                opened: Some("c".to_owned()),
                closing: ids("b").into_iter().collect(),
                ..PreviousGroups::default()
            }
        });
        assert_eq!(names(&delete(&cloud, "one", Some(&"x".to_owned()))), "b c");

        forget(&cloud, "one");
        assert_eq!(
            names(&delete(&cloud, "one", Some(&"x".to_owned()))),
            "x",
            "what is likely is taken when nothing is known"
        );
    }

    fn ids(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_groups_opened_for_the_load_balancer_are_closed() {
        // The remembered group, the groups before and wanted, the groups to close, and the groups
        // to detach.
        for (opened, before, wanted, closing, detached) in [
            (Some("own"), "own extra", "own", "", "extra"),
            (None, "own extra", "own", "", "extra"),
            (Some("a"), "a b", "b a", "a", ""),
            (None, "a b", "b a", "", ""),
            (Some("own"), "own", "user", "own", "own"),
            (None, "own", "user", "own", "own"),
            (None, "own extra", "user", "", "own extra"),
            (None, "own extra", "user extra", "own", "own"),
            (Some("own"), "own", "own", "", ""),
            (None, "own", "own", "", ""),
        ] {
            let mut previous = PreviousGroups {
                opened: opened.map(str::to_owned),
                ..PreviousGroups::default()
            };
            previous.replace(&ids(before), &ids(wanted));
            let expected = PreviousGroups {
                opened: ids(wanted).into_iter().next(),
                closing: ids(closing).into_iter().collect(),
                detached: ids(detached).into_iter().collect(),
            };
            assert_eq!(previous, expected, "{opened:?}: {before} -> {wanted}");
        }
    }

    #[test]
    fn groups_that_are_not_yet_closed_are_kept() {
        let mut previous = PreviousGroups {
            opened: Some("a".into()),
            ..PreviousGroups::default()
        };
        previous.replace(&ids("a"), &ids("b"));
        previous.replace(&ids("b"), &ids("c"));

        assert_eq!(previous.closing, ids("a b").into_iter().collect());
        assert_eq!(previous.detached, ids("a b").into_iter().collect());

        previous.replace(&ids("c"), &ids("a"));
        assert_eq!(
            previous.closing,
            ids("b c").into_iter().collect(),
            "it is let in again"
        );

        previous.delete(Some(&"x".to_owned()));
        assert_eq!(previous.closing, ids("a b c").into_iter().collect());

        let mut unknown = PreviousGroups::default();
        unknown.delete(Some(&"x".to_owned()));
        assert_eq!(unknown.closing, ids("x").into_iter().collect());
    }
}
