//! Which security groups a classic load balancer had before: once it has them no more, it does not tell of them.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{cloud::Cloud, store};

/// How long it is remembered. Nothing else tells which of a load balancer's groups the nodes let in.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// What is to be seen to of groups that a load balancer had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Former {
    /// The one that the nodes let in.
    pub(super) opened: Option<String>,
    /// Those that the nodes are to let in no more.
    pub(super) closing: BTreeSet<String>,
    /// Those that it is not to have. What was made for it goes.
    pub(super) detached: BTreeSet<String>,
}

impl Former {
    /// The load balancer had these, and is to have those, the first of which the nodes let in.
    ///
    /// Only what was let in for this load balancer is closed: that others of its groups are let in is somebody else's wish.
    fn exchange(&mut self, before: &[String], wanted: &[String]) {
        let leaving: Vec<&String> = before.iter().filter(|group| !wanted.contains(group)).collect();
        self.detached.extend(leaving.iter().copied().cloned());
        self.detached.retain(|group| !wanted.contains(group));
        let lead = wanted.first();
        let opened = self.opened.take().or_else(|| match leaving.as_slice() {
            // Nobody remembers, but there is one place, which another one takes.
            [one] if lead.is_some_and(|lead| !before.contains(lead)) => Some((*one).clone()),
            _ => None,
        });
        self.closing.extend(opened);
        self.closing.retain(|group| Some(group) != lead);
        self.opened = lead.cloned();
    }

    /// The load balancer goes, of whose groups this one is the likeliest to be let in.
    fn end(&mut self, likely: Option<&String>) {
        self.closing.extend(self.opened.take().or_else(|| likely.cloned()));
    }
}

fn key(cloud: &Cloud<'_>, name: &str) -> String {
    cloud.key(&format!("former/{name}"))
}

fn kept(cloud: &Cloud<'_>, name: &str, change: impl FnOnce(&mut Former)) -> Former {
    let mut former: Former = store::load(cloud.store, &key(cloud, name)).unwrap_or_default();
    change(&mut former);
    store::save(cloud.store, &key(cloud, name), &former, KEPT);
    former
}

/// What is to be seen to when a load balancer that had these groups is to have those. It is kept until [`settled`].
pub(super) fn exchange(cloud: &Cloud<'_>, name: &str, before: &[String], wanted: &[String]) -> Former {
    kept(cloud, name, |former| former.exchange(before, wanted))
}

/// All is seen to, but that the nodes let one in.
pub(super) fn settled(cloud: &Cloud<'_>, name: &str, opened: Option<String>) {
    kept(cloud, name, |former| *former = Former { opened, ..Former::default() });
}

/// What is to be seen to when a load balancer goes. It is kept until it is [`forgotten`].
pub(super) fn end(cloud: &Cloud<'_>, name: &str, likely: Option<&String>) -> Former {
    kept(cloud, name, |former| former.end(likely))
}

/// Nothing is left to do.
pub(super) fn forgotten(cloud: &Cloud<'_>, name: &str) {
    cloud.store.remove(&key(cloud, name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_what_was_let_in_for_the_load_balancer_is_closed() {
        // What is remembered, groups before and wanted; groups to close, and those it is not to have.
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
            let mut former = Former { opened: opened.map(str::to_owned), ..Former::default() };
            former.exchange(&ids(before), &ids(wanted));
            let expected = Former {
                opened: ids(wanted).into_iter().next(),
                closing: ids(closing).into_iter().collect(),
                detached: ids(detached).into_iter().collect(),
            };
            assert_eq!(former, expected, "{opened:?}: {before} -> {wanted}");
        }
    }

    #[test]
    fn what_could_not_be_seen_to_is_kept() {
        let mut former = Former { opened: Some("a".into()), ..Former::default() };
        former.exchange(&ids("a"), &ids("b"));
        former.exchange(&ids("b"), &ids("c"));
        assert_eq!(former.closing, ids("a b").into_iter().collect());
        assert_eq!(former.detached, ids("a b").into_iter().collect());
        former.exchange(&ids("c"), &ids("a"));
        assert_eq!(former.closing, ids("b c").into_iter().collect(), "it is let in again");
        former.end(Some(&"x".to_owned()));
        assert_eq!(former.closing, ids("a b c").into_iter().collect());
        let mut forgotten = Former::default();
        forgotten.end(Some(&"x".to_owned()));
        assert_eq!(forgotten.closing, ids("x").into_iter().collect());
    }
}
