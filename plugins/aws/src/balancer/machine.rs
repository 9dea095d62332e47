//! The machines behind a load balancer: what of them it has to know, kept for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use skydock_sdk::{
    Lookup as _, Result, log,
    types::{CloudError, Pair},
};

use super::annotation::{self, Annotations};
use crate::{
    cloud::Cloud,
    instances::{
        lookup::{self, Found},
        reference,
    },
    store,
};

/// How long a machine's VPC and security groups are believed; the official provider's cache is as old.
const KEPT: Duration = Duration::from_secs(600);

/// How long a machine that is gone is not asked for again.
const GONE: Duration = Duration::from_secs(60);

/// A node that may be behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// Labels; needed only if the Service chooses nodes by label.
    pub labels: Vec<Pair>,
}

/// The nodes behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All of them.
    pub all: Vec<Member>,
    /// Those that came and those that went since the last call that succeeded, if the host knows. Not for Services that choose
    /// nodes by label.
    pub changes: Option<(Vec<Member>, Vec<Member>)>,
}

/// True if the Service chooses nodes by label.
#[must_use]
pub fn chooses(annotations: &[Pair]) -> bool {
    !Annotations(annotations).pairs(annotation::NODE_LABELS).is_empty()
}

/// IDs of the machines of those nodes that the Service chooses. Nodes that have none yet come with a later call.
pub(crate) fn ids(members: &[Member], annotations: &[Pair]) -> BTreeSet<String> {
    let wanted = Annotations(annotations).pairs(annotation::NODE_LABELS);
    let fits = |member: &&Member| {
        wanted.iter().all(|(key, value)| {
            member.labels.lookup(key.as_str()).is_some_and(|there| value.is_empty() || there == value)
        })
    };
    let ids = members.iter().filter(fits).filter_map(|member| reference::instance_id(member.provider_id.as_deref()?));
    ids.map(str::to_owned).collect()
}

/// What a load balancer has to know of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Its VPC.
    pub(crate) vpc: String,
    /// Its security groups.
    pub(crate) groups: BTreeSet<String>,
}

impl Cloud<'_> {
    /// Machines by ID; those that are gone, or end, are left out. Only those that are not known are asked for.
    ///
    /// # Errors
    /// If AWS cannot be asked.
    pub(crate) fn places(&self, ids: &BTreeSet<String>) -> Result<BTreeMap<String, Place>> {
        let (key, gone_key) = (self.key("machines"), self.key("gone"));
        let kept: Vec<(Place, Vec<String>)> = store::load(self.store, &key).unwrap_or_default();
        let mut places: BTreeMap<String, Place> =
            kept.into_iter().flat_map(|(place, ids)| ids.into_iter().map(move |id| (id, place.clone()))).collect();
        let mut gone: BTreeSet<String> = store::load(self.store, &gone_key).unwrap_or_default();
        let unknown: BTreeSet<&str> =
            ids.iter().map(String::as_str).filter(|id| !places.contains_key(*id) && !gone.contains(*id)).collect();
        if !unknown.is_empty() {
            let unknown: Vec<&str> = unknown.into_iter().collect();
            for part in unknown.chunks(1000) {
                for (id, found) in lookup::by_id(self.wire, &part.iter().copied().collect())? {
                    match found {
                        Ok(Found::Machine(machine)) if is_there(&machine.instance_state.name) => {
                            places.insert(id, Place { vpc: machine.vpc_id.clone(), groups: machine.groups() });
                        }
                        Ok(_) => _ = gone.insert(id),
                        Err(CloudError::Invalid(reason)) => {
                            log::warn("machines", format_args!("{id} is left out: {reason}"));
                            gone.insert(id);
                        }
                        // A machine of which nothing is known may be one that serves: better nothing changes.
                        Err(error) => return Err(error),
                    }
                }
            }
            let mut grouped: BTreeMap<&Place, Vec<&String>> = BTreeMap::new();
            for (id, place) in &places {
                grouped.entry(place).or_default().push(id);
            }
            store::save(self.store, &key, &grouped.into_iter().collect::<Vec<_>>(), KEPT);
            store::save(self.store, &gone_key, &gone, GONE);
        }
        places.retain(|id, _| ids.contains(id));
        Ok(places)
    }
}

/// Stopped machines may be targets; those that end may not.
fn is_there(state: &str) -> bool {
    !matches!(state, "terminated" | "shutting-down")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_chosen_by_all_labels_and_need_a_machine() {
        let member = |id: &str, labels: &[(&str, &str)]| Member {
            provider_id: Some(format!("aws:///eu-west-1a/{id}")).filter(|_| !id.is_empty()),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        let members = [
            member("i-1", &[("pool", "a"), ("edge", "")]),
            member("i-2", &[("pool", "b"), ("edge", "x")]),
            member("", &[("pool", "a"), ("edge", "")]),
            member("i-4", &[]),
        ];
        let chosen = |text: &str| {
            let annotations = vec![(annotation::key(annotation::NODE_LABELS), text.to_owned())];
            ids(&members, &annotations).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(chosen(""), "i-1 i-2 i-4");
        assert_eq!(chosen("edge"), "i-1 i-2");
        assert_eq!(chosen("edge=,pool=a"), "i-1");
        assert_eq!(chosen("pool=c"), "");
    }
}
