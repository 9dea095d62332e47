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

/// How long it is believed what EC2 says of machines: long enough for many Services that change together, and short enough for a machine
/// that comes or goes to be seen within a minute.
const KEPT: Duration = Duration::from_secs(30);

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

/// What EC2 said of machines, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    /// When it was first asked, in seconds since 1970: what is asked later is not believed for longer.
    since: u64,
    /// Those that are there.
    machines: Vec<(Place, Vec<String>)>,
    /// Those that are not.
    gone: BTreeSet<String>,
}

/// What is known of machines, by their IDs.
struct Known {
    since: u64,
    places: BTreeMap<String, Place>,
    gone: BTreeSet<String>,
}

impl Known {
    fn lacks<'a>(&'a self, ids: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
        ids.iter().filter(|id| !self.places.contains_key(*id) && !self.gone.contains(*id)).map(String::as_str)
    }
}

impl Cloud<'_> {
    /// Machines by ID; those that are gone, or end, are left out. Only those that are not known are asked for, and by one of
    /// the calls that want to know at the same time.
    ///
    /// # Errors
    /// If AWS cannot be asked.
    pub(crate) fn places(&self, ids: &BTreeSet<String>) -> Result<BTreeMap<String, Place>> {
        let mut known = self.known_machines();
        if known.lacks(ids).next().is_some() {
            // If the others take long, better twice than not at all.
            let _turn = self.turn("machines");
            known = self.known_machines();
            let unknown: Vec<String> = known.lacks(ids).map(str::to_owned).collect();
            if !unknown.is_empty() {
                self.ask_about(&unknown, &mut known)?;
            }
        }
        known.places.retain(|id, _| ids.contains(id));
        Ok(known.places)
    }

    fn known_machines(&self) -> Known {
        let fresh = |said: &Said| self.now.saturating_sub(said.since) < KEPT.as_secs();
        let said = store::load(self.store, &self.key("machines")).filter(fresh);
        let Said { since, machines, gone } =
            said.unwrap_or_else(|| Said { since: self.now, machines: Vec::new(), gone: BTreeSet::new() });
        let each = |(place, ids): (Place, Vec<String>)| ids.into_iter().map(move |id| (id, place.clone()));
        Known { since, places: machines.into_iter().flat_map(each).collect(), gone }
    }

    fn ask_about(&self, unknown: &[String], known: &mut Known) -> Result<()> {
        let mut failed = None;
        for part in unknown.chunks(1000) {
            let found = match lookup::by_id(self.wire, &part.iter().map(String::as_str).collect()) {
                Ok(found) => found,
                Err(error) => {
                    failed = failed.or(Some(error));
                    continue;
                }
            };
            for (id, found) in found {
                match found {
                    Ok(Found::Machine(machine)) if is_there(&machine.instance_state.name) => {
                        known.places.insert(id, Place { vpc: machine.vpc_id.clone(), groups: machine.groups() });
                    }
                    Ok(_) => _ = known.gone.insert(id),
                    Err(CloudError::Invalid(reason)) => {
                        log::warn("machines", format_args!("{id} is left out: {reason}"));
                        known.gone.insert(id);
                    }
                    // A machine of which nothing is known may be one that serves: better nothing changes.
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        let mut grouped: BTreeMap<Place, Vec<String>> = BTreeMap::new();
        for (id, place) in &known.places {
            grouped.entry(place.clone()).or_default().push(id.clone());
        }
        let said = Said { since: known.since, machines: grouped.into_iter().collect(), gone: known.gone.clone() };
        // What is known is kept all the same: the next call asks for the rest.
        store::save(self.store, &self.key("machines"), &said, KEPT);
        failed.map_or(Ok(()), Err)
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

    /// Others that come meanwhile do not make what is known any younger.
    #[test]
    fn machines_that_come_and_go_are_seen_within_a_minute() {
        use crate::testing::{Memory, Scripted, nothing, refused, setup};
        let (setup, store) = (setup(), Memory::default());
        let turned = std::cell::Cell::new(false);
        let wire = Scripted::new(|call: &crate::api::call::Call| {
            let asked: Vec<&str> = call
                .params
                .iter()
                .filter(|(key, _)| key.starts_with("InstanceId"))
                .map(|(_, id)| id.as_str())
                .collect();
            let there = |id: &&str| if turned.get() { *id != "i-goes" } else { *id != "i-comes" };
            if call.action != "DescribeInstances" {
                return nothing(call);
            }
            if !asked.iter().all(there) && asked.len() == 1 {
                return refused(call, "InvalidInstanceID.NotFound");
            }
            let item = |id: &&str| {
                format!(
                    "<item><instanceId>{id}</instanceId><vpcId>v</vpcId><instanceState><name>running</name></instanceState></item>"
                )
            };
            let items: String = asked.iter().filter(|id| there(id)).map(item).collect();
            Ok(format!(
                "<DescribeInstancesResponse><reservationSet><item><instancesSet>{items}</instancesSet></item>\
                 </reservationSet></DescribeInstancesResponse>"
            ))
        });
        let none = Vec::new;
        let at = |now: u64, ids: &[&str]| {
            let cloud = Cloud::new(&setup, &wire, &store, &none, now);
            let ids: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            cloud.places(&ids).unwrap().into_keys().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(at(0, &["i-goes", "i-comes"]), "i-goes");
        turned.set(true);
        assert_eq!(at(15, &["i-goes", "i-comes"]), "i-goes", "not asked for at every call");
        assert_eq!(at(25, &["i-goes", "i-comes", "i-other"]), "i-goes i-other");
        assert_eq!(at(60, &["i-goes", "i-comes"]), "i-comes");
    }

    /// One machine of which nothing is known for sure costs no answer about others.
    #[test]
    fn what_is_known_is_kept_though_one_answer_is_missing() {
        use crate::testing::{Memory, Scripted, nothing, refused, setup};
        let (setup, store) = (setup(), Memory::default());
        let wire = Scripted::new(|call: &crate::api::call::Call| {
            let asked: Vec<&str> =
                call.params.iter().map(|(_, id)| id.as_str()).filter(|id| id.starts_with("i-")).collect();
            match asked.as_slice() {
                ["i-odd"] => refused(call, "InternalError"),
                ["i-gone"] => refused(call, "InvalidInstanceID.NotFound"),
                _ if call.params.iter().any(|(key, _)| key.starts_with("InstanceId")) => {
                    refused(call, "InvalidInstanceID.NotFound")
                }
                _ => Ok("<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
                         <vpcId>v</vpcId><instanceState><name>running</name></instanceState></item></instancesSet></item>\
                         </reservationSet></DescribeInstancesResponse>"
                    .to_owned()),
            }
            .or_else(|failure| if call.action == "DescribeInstances" { Err(failure) } else { nothing(call) })
        });
        let none = Vec::new;
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let ids = ["i-1", "i-gone", "i-odd"].map(str::to_owned).into_iter().collect();
        assert!(cloud.places(&ids).is_err());
        wire.sent.borrow_mut().clear();
        assert!(cloud.places(&ids).is_err());
        let asked: Vec<String> =
            wire.sent.borrow().iter().flat_map(|call| call.params.clone()).map(|(_, id)| id).collect();
        assert_eq!(asked, ["i-odd"], "no other is asked for again");
    }
}
