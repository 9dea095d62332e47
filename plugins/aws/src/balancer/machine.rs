//! The instances behind a load balancer, with the properties it needs, cached for a short time.

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

/// How long information about instances is cached: long enough for many Services that change
/// together, and short enough that an instance that is created or terminated is noticed within a
/// minute.
const KEPT: Duration = Duration::from_secs(30);

/// A node that may be behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// The labels. Only required if the Service selects nodes by label.
    pub labels: Vec<Pair>,
}

/// The nodes behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All nodes.
    pub all: Vec<Member>,
    /// The nodes added and removed since the last successful call, if the host knows them. Not used
    /// for Services that select nodes by label.
    pub changes: Option<(Vec<Member>, Vec<Member>)>,
}

/// Returns true if the Service selects nodes by label.
#[must_use]
pub fn chooses(annotations: &[Pair]) -> bool {
    !Annotations(annotations)
        .pairs(annotation::NODE_LABELS)
        .is_empty()
}

/// Returns the instance IDs of the nodes that the Service selects. Nodes without a provider ID are
/// added by a later call.
pub(crate) fn ids(members: &[Member], annotations: &[Pair]) -> BTreeSet<String> {
    let wanted = Annotations(annotations).pairs(annotation::NODE_LABELS);
    let fits = |member: &&Member| {
        wanted.iter().all(|(key, value)| {
            member
                .labels
                .lookup(key.as_str())
                .is_some_and(|there| value.is_empty() || there == value)
        })
    };
    let ids = members
        .iter()
        .filter(fits)
        .filter_map(|member| reference::instance_id(member.provider_id.as_deref()?));
    ids.map(str::to_owned).collect()
}

/// The properties of an instance that a load balancer needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The VPC.
    pub(crate) vpc: String,
    /// The security groups.
    pub(crate) groups: BTreeSet<String>,
}

/// Information about instances, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    /// When the first of them was read, in seconds since 1970. Later entries expire with it.
    since: u64,
    /// The instances that exist, grouped by their properties.
    machines: Vec<(Place, Vec<String>)>,
    /// The instances that do not exist.
    gone: BTreeSet<String>,
}

/// The known instances by ID.
struct Known {
    since: u64,
    places: BTreeMap<String, Place>,
    gone: BTreeSet<String>,
}

impl Known {
    fn lacks<'a>(&'a self, ids: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
        ids.iter()
            .filter(|id| !self.places.contains_key(*id) && !self.gone.contains(*id))
            .map(String::as_str)
    }
}

impl Cloud<'_> {
    /// Returns instances by ID, without those that are terminated or shutting down. Only unknown
    /// instances are requested, and by one of several concurrent calls only.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub(crate) fn places(&self, ids: &BTreeSet<String>) -> Result<BTreeMap<String, Place>> {
        let mut known = self.known_machines();
        if known.lacks(ids).next().is_some() {
            // If the other call takes too long, a duplicate request is better than none.
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
        let Said {
            since,
            machines,
            gone,
        } = said.unwrap_or_else(|| Said {
            since: self.now,
            machines: Vec::new(),
            gone: BTreeSet::new(),
        });
        let each =
            |(place, ids): (Place, Vec<String>)| ids.into_iter().map(move |id| (id, place.clone()));
        Known {
            since,
            places: machines.into_iter().flat_map(each).collect(),
            gone,
        }
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
                        known.places.insert(
                            id,
                            Place {
                                vpc: machine.vpc_id.clone(),
                                groups: machine.groups(),
                            },
                        );
                    }
                    Ok(_) => _ = known.gone.insert(id),
                    Err(CloudError::Invalid(reason)) => {
                        log::warn(
                            "machines",
                            format_args!("instance {id} is skipped: {reason}"),
                        );
                        known.gone.insert(id);
                    }
                    // An instance with an unknown state may be in use, so the call fails and
                    // changes nothing.
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        let mut grouped: BTreeMap<Place, Vec<String>> = BTreeMap::new();
        for (id, place) in &known.places {
            grouped.entry(place.clone()).or_default().push(id.clone());
        }
        let said = Said {
            since: known.since,
            machines: grouped.into_iter().collect(),
            gone: known.gone.clone(),
        };
        // The known instances are stored in any case, so that the next call requests only the rest.
        store::save(self.store, &self.key("machines"), &said, KEPT);
        failed.map_or(Ok(()), Err)
    }
}

/// Returns true if an instance in this state can be a target: stopped ones can, terminating ones
/// cannot.
fn is_there(state: &str) -> bool {
    !matches!(state, "terminated" | "shutting-down")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_need_all_labels_and_a_provider_id() {
        let member = |id: &str, labels: &[(&str, &str)]| Member {
            provider_id: Some(format!("aws:///eu-west-1a/{id}")).filter(|_| !id.is_empty()),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let members = [
            member("i-1", &[("pool", "a"), ("edge", "")]),
            member("i-2", &[("pool", "b"), ("edge", "x")]),
            member("", &[("pool", "a"), ("edge", "")]),
            member("i-4", &[]),
        ];
        let chosen = |text: &str| {
            let annotations = vec![(annotation::key(annotation::NODE_LABELS), text.to_owned())];
            ids(&members, &annotations)
                .into_iter()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(chosen(""), "i-1 i-2 i-4");
        assert_eq!(chosen("edge"), "i-1 i-2");
        assert_eq!(chosen("edge=,pool=a"), "i-1");
        assert_eq!(chosen("pool=c"), "");
    }

    /// Instances that are added later do not extend the lifetime of earlier entries.
    #[test]
    fn new_and_deleted_instances_are_seen_within_a_minute() {
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
            let there = |id: &&str| {
                if turned.get() {
                    *id != "i-goes"
                } else {
                    *id != "i-comes"
                }
            };
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
            cloud
                .places(&ids)
                .unwrap()
                .into_keys()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(at(0, &["i-goes", "i-comes"]), "i-goes");
        turned.set(true);
        assert_eq!(
            at(15, &["i-goes", "i-comes"]),
            "i-goes",
            "not asked for at every call"
        );
        assert_eq!(at(25, &["i-goes", "i-comes", "i-other"]), "i-goes i-other");
        assert_eq!(at(60, &["i-goes", "i-comes"]), "i-comes");
    }

    /// An error about one instance does not discard the information about others.
    #[test]
    fn an_error_for_one_instance_keeps_the_others_cached() {
        use crate::testing::{Memory, Scripted, nothing, refused, setup};
        let (setup, store) = (setup(), Memory::default());
        let wire = Scripted::new(|call: &crate::api::call::Call| {
            let asked: Vec<&str> = call
                .params
                .iter()
                .map(|(_, id)| id.as_str())
                .filter(|id| id.starts_with("i-"))
                .collect();
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
        let ids = ["i-1", "i-gone", "i-odd"]
            .map(str::to_owned)
            .into_iter()
            .collect();
        assert!(cloud.places(&ids).is_err());
        wire.sent.borrow_mut().clear();
        assert!(cloud.places(&ids).is_err());
        let asked: Vec<String> = wire
            .sent
            .borrow()
            .iter()
            .flat_map(|call| call.params.clone())
            .map(|(_, id)| id)
            .collect();
        assert_eq!(asked, ["i-odd"], "no other is asked for again");
    }
}
