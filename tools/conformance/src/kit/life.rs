//! The life of what a plugin creates and lists: routes, volumes, snapshots.

use crate::{
    Verdict,
    harness::observation::Observation,
    judge::{difference, failed, sequence, skipped},
};

/// Calls that create, list and delete the same things, each with its repetition.
#[derive(Default)]
pub(super) struct Life {
    /// Creations, lists and deletions, each with its repetition; then the last list.
    pub(super) seen: Vec<Observation>,
    /// What was created, and is missing in the list.
    pub(super) missing: Vec<String>,
    /// What was deleted, and is in the last list.
    pub(super) left: Vec<String>,
}

impl Life {
    pub(super) fn all(&self) -> impl Iterator<Item = &Observation> {
        self.seen.iter()
    }

    /// Judges it. `what` was created, by an interface of that name.
    pub(super) fn again(&self, what: &str, exported: bool) -> Verdict {
        let [
            created,
            again,
            listed,
            listed_again,
            deleted,
            deleted_again,
            _,
        ] = self.seen.as_slice()
        else {
            return skipped(if exported {
                "the calls were not made".to_owned()
            } else {
                format!("it does not export `{what}`")
            });
        };

        if [created, listed, deleted].iter().any(|it| it.denied > 0) {
            return skipped("its cloud is needed");
        }

        let repeated = [
            (created, again),
            (deleted, deleted_again),
            (listed, listed_again),
        ];
        let found = repeated.into_iter().find_map(|(one, other)| {
            difference(one, other)
                .map(|seen| format!("{}, then {}: {seen}", one.call(), other.call()))
        });

        if let Some(seen) = found {
            let hint = "treat what already exists, or is already deleted, as a success, and answer in the order of the list";
            return failed("the same result", seen, hint);
        }

        if let Some(verdict) = sequence(&[created, listed, deleted]) {
            return verdict;
        }

        let wrong = [
            ("missing after they were created", &self.missing),
            ("listed after they were deleted", &self.left),
        ];
        let found = wrong.into_iter().find(|(_, all)| !all.is_empty());
        found.map_or(Verdict::Ok, |(how, all)| {
            let seen = format!("{what} are {how}: {}", all.join(", "));
            failed(
                &format!("all {what} of the cluster, and no others"),
                seen,
                "list what the cloud has, page by page",
            )
        })
    }
}
