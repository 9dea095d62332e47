//! The instances behind a load balancer, with the properties it needs, cached for a short time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use skydock_sdk::{
    Lookup as _, Result, log,
    types::{CloudError, Node, Pair, Service},
};

use super::annotation::{self, Annotations};
use crate::{
    cloud::Cloud,
    instances::{
        self,
        lookup::{self, Found},
        reference,
    },
    store,
};

/// How long information about instances is cached: long enough for many Services that change
/// together, and short enough that an instance that is created or terminated is noticed within a
/// minute.
const CACHED: Duration = Duration::from_secs(30);

/// When EC2 is asked again about the instance of a new node.
const SOON: Duration = Duration::from_secs(5);

/// When EC2 is asked again about the instance of a Ready node.
const LATER: Duration = Duration::from_secs(60);

/// A node that may be behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// The labels. Only required if the Service selects nodes by label.
    pub labels: Vec<Pair>,
}

/// The nodes behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// All nodes.
    pub all: Vec<Target>,
    /// The nodes added and removed since the last successful call, if the host knows them. Not used
    /// for Services that select nodes by label.
    pub changes: Option<(Vec<Target>, Vec<Target>)>,
}

/// Returns true if the Service selects nodes by label.
#[must_use]
pub fn selects_by_label(annotations: &[Pair]) -> bool {
    !Annotations(annotations)
        .pairs(annotation::NODE_LABELS)
        .is_empty()
}

/// Returns the instance IDs of the nodes that the Service selects. Nodes without a provider ID are
/// added by a later call.
pub(crate) fn ids(targets: &[Target], annotations: &[Pair]) -> BTreeSet<String> {
    let wanted = Annotations(annotations).pairs(annotation::NODE_LABELS);
    let fits = |target: &&Target| {
        wanted.iter().all(|(key, value)| {
            target
                .labels
                .lookup(key.as_str())
                .is_some_and(|there| value.is_empty() || there == value)
        })
    };

    let ids = targets
        .iter()
        .filter(fits)
        .filter_map(|target| reference::instance_id(target.provider_id.as_deref()?));
    ids.map(str::to_owned).collect()
}

/// The properties of an instance that a load balancer needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct InstanceNetwork {
    pub(crate) vpc: String,
    pub(crate) groups: BTreeSet<String>,
}

/// Information about instances, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct CachedInstances {
    /// When the first of them was read, in seconds since 1970. Later entries expire with it.
    since: u64,
    /// The instances that exist, grouped by their properties.
    instances: Vec<(InstanceNetwork, Vec<String>)>,
    /// The instances that do not exist.
    gone: BTreeSet<String>,
}

/// The known instances by ID.
struct KnownInstances {
    since: u64,
    instances: BTreeMap<String, InstanceNetwork>,
    gone: BTreeSet<String>,
}

impl KnownInstances {
    fn lacks<'a>(&'a self, ids: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
        ids.iter()
            .filter(|id| !self.instances.contains_key(*id) && !self.gone.contains(*id))
            .map(String::as_str)
    }
}

impl Cloud<'_> {
    /// Returns instances by ID, without those that are terminated or shutting down. Only unknown
    /// instances are requested, and by one of several concurrent calls only.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub(crate) fn target_instances(
        &self,
        ids: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, InstanceNetwork>> {
        let mut known = self.known_instances();
        if known.lacks(ids).next().is_some() {
            // If the other call takes too long, a duplicate request is better than none.
            let _lock = self.lock("machines");
            // The other call may have read them.
            known = self.known_instances();
            let unknown: Vec<String> = known.lacks(ids).map(str::to_owned).collect();
            if !unknown.is_empty() {
                self.read_instances(&unknown, &mut known)?;
            }
        }

        known.instances.retain(|id, _| ids.contains(id));
        Ok(known.instances)
    }

    /// Returns which of these instances are unknown to EC2 although their nodes are new or Ready. EC2
    /// may know them in a moment. Call it after [`Cloud::target_instances`].
    pub(crate) fn awaited(&self, ids: &BTreeSet<String>) -> Awaited {
        let known = self.known_instances();
        let lacking: BTreeSet<&str> = known.lacks(ids).collect();
        let mut awaited = Awaited::default();
        if lacking.is_empty() {
            return awaited;
        }

        for node in (self.nodes)() {
            let id = node.provider_id.as_deref().and_then(reference::instance_id);
            if let Some(id) = id.filter(|id| lacking.contains(id)) {
                awaited.ids.insert(id.to_owned());
                awaited.is_new |= is_new(&node, self.now);
            }
        }
        awaited
    }

    /// Returns the instances of nodes that are new or Ready.
    fn expected(&self) -> BTreeSet<String> {
        let nodes = (self.nodes)().into_iter();
        nodes
            .filter(|node| node.ready || is_new(node, self.now))
            .filter_map(|node| {
                reference::instance_id(node.provider_id.as_deref()?).map(str::to_owned)
            })
            .collect()
    }

    fn known_instances(&self) -> KnownInstances {
        let fresh =
            |cached: &CachedInstances| self.now.saturating_sub(cached.since) < CACHED.as_secs();
        let cached = store::load(self.store, &self.key("machines")).filter(fresh);
        let CachedInstances {
            since,
            instances,
            gone,
        } = cached.unwrap_or_else(|| CachedInstances {
            since: self.now,
            instances: Vec::new(),
            gone: BTreeSet::new(),
        });

        let each = |(instance, ids): (InstanceNetwork, Vec<String>)| {
            ids.into_iter().map(move |id| (id, instance.clone()))
        };
        KnownInstances {
            since,
            instances: instances.into_iter().flat_map(each).collect(),
            gone,
        }
    }

    fn read_instances(&self, unknown: &[String], known: &mut KnownInstances) -> Result<()> {
        let mut failed = None;
        let mut expected: Option<BTreeSet<String>> = None;
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
                    Ok(Found::Instance(instance)) if is_there(&instance.instance_state.name) => {
                        known.instances.insert(
                            id,
                            InstanceNetwork {
                                vpc: instance.vpc_id.clone(),
                                groups: instance.groups(),
                            },
                        );
                    }
                    // EC2 may know it in a moment, so it is neither there nor gone.
                    Ok(Found::Gone)
                        if expected
                            .get_or_insert_with(|| self.expected())
                            .contains(&id) => {}
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

        let mut grouped: BTreeMap<InstanceNetwork, Vec<String>> = BTreeMap::new();
        for (id, instance) in &known.instances {
            grouped
                .entry(instance.clone())
                .or_default()
                .push(id.clone());
        }
        let cached = CachedInstances {
            since: known.since,
            instances: grouped.into_iter().collect(),
            gone: known.gone.clone(),
        };
        // The known instances are stored in any case, so that the next call requests only the rest.
        store::save(self.store, &self.key("machines"), &cached, CACHED);
        failed.map_or(Ok(()), Err)
    }
}

/// The instances that EC2 does not know yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Their IDs. Those that are targets stay targets.
    pub(crate) ids: BTreeSet<String>,
    /// True if a node of them is new.
    is_new: bool,
}

impl Awaited {
    /// Returns the error with which the call is retried. The address of a new load balancer only
    /// waits for nodes that are new. Somebody has to hear of instances of other nodes that stay
    /// unknown.
    pub(crate) fn error(&self, cloud: &Cloud<'_>, service: &Service) -> Option<CloudError> {
        let served = !service.status.ingress.is_empty();
        let text = format!(
            "EC2 does not know these instances of nodes yet: {}",
            self.ids.iter().cloned().collect::<Vec<_>>().join(", ")
        );

        if self.is_new {
            return Some(CloudError::in_progress(SOON, text));
        }
        if !served || self.ids.is_empty() {
            return None;
        }
        Some(if cloud.has_waited_long(service) {
            CloudError::internal(text)
        } else {
            CloudError::in_progress(LATER, text)
        })
    }

    /// Returns those of these targets that stay.
    pub(crate) fn staying<'a>(
        &'a self,
        there: impl IntoIterator<Item = &'a String>,
    ) -> impl Iterator<Item = String> {
        there
            .into_iter()
            .filter(|id| self.ids.contains(*id))
            .cloned()
    }
}

fn is_new(node: &Node, now: u64) -> bool {
    now < node.creation_timestamp.saturating_add(instances::YOUNG)
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
        let target = |id: &str, labels: &[(&str, &str)]| Target {
            provider_id: Some(format!("aws:///eu-west-1a/{id}")).filter(|_| !id.is_empty()),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let targets = [
            target("i-1", &[("pool", "a"), ("edge", "")]),
            target("i-2", &[("pool", "b"), ("edge", "x")]),
            target("", &[("pool", "a"), ("edge", "")]),
            target("i-4", &[]),
        ];
        let chosen = |text: &str| {
            let annotations = vec![(annotation::key(annotation::NODE_LABELS), text.to_owned())];
            ids(&targets, &annotations)
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
        use crate::testing::{Memory, Scripted, nothing, rejection, setup};
        let (setup, store) = (setup(), Memory::default());
        let turned = std::cell::Cell::new(false);
        let wire = Scripted::new(|call: &crate::client::api::call::Call| {
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
                return rejection(call, "InvalidInstanceID.NotFound");
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
                .target_instances(&ids)
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

    #[test]
    fn unknown_instances_of_new_and_ready_nodes_are_awaited() {
        use crate::testing::{Memory, Scripted, rejection, service, setup};
        let setup = setup();
        let wire = Scripted::new(|call: &crate::client::api::call::Call| {
            if call
                .params
                .iter()
                .any(|(key, _)| key.starts_with("InstanceId"))
            {
                rejection(call, "InvalidInstanceID.NotFound")
            } else {
                Ok("<DescribeInstancesResponse/>".to_owned())
            }
        });
        let node = |id: &str, created: u64, ready: bool| Node {
            provider_id: Some(format!("aws:///eu-west-1a/{id}")),
            creation_timestamp: created,
            ready,
            ..Node::default()
        };
        let nodes = || {
            vec![
                node("i-new", 900, false),
                node("i-ready", 0, true),
                node("i-old", 0, false),
            ]
        };
        let web = service(&[]);
        let mut served = web.clone();
        served.status.ingress = vec![skydock_sdk::types::Ingress::default()];

        for (ids, expected, unserved) in [
            (&["i-new", "i-ready", "i-old"][..], "i-new i-ready", true),
            (&["i-ready"], "i-ready", false),
            (&["i-old"], "", false),
        ] {
            let store = Memory::default();
            let cloud = Cloud::new(&setup, &wire, &store, &nodes, 1000);
            let ids: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            assert!(cloud.target_instances(&ids).unwrap().is_empty());
            let awaited = cloud.awaited(&ids);
            let found: Vec<String> = awaited.ids.iter().cloned().collect();
            assert_eq!(found.join(" "), expected);
            let error = |service| awaited.error(&cloud, service);
            assert_eq!(error(&web).is_some(), unserved, "{expected}");
            assert_eq!(error(&served).is_some(), !expected.is_empty());
            let later = Cloud::new(&setup, &wire, &store, &nodes, 1060);
            let is_told = matches!(
                awaited.error(&later, &served),
                Some(CloudError::Internal(_))
            );
            assert_eq!(is_told, expected == "i-ready", "{expected}");
            let there = ["i-new".to_owned(), "i-other".to_owned()];
            let stays = usize::from(expected.contains("i-new"));
            assert_eq!(awaited.staying(&there).count(), stays);
        }
    }

    /// An error about one instance does not discard the information about others.
    #[test]
    fn an_error_for_one_instance_keeps_the_others_cached() {
        use crate::testing::{Memory, Scripted, nothing, rejection, setup};
        let (setup, store) = (setup(), Memory::default());
        let wire = Scripted::new(|call: &crate::client::api::call::Call| {
            let asked: Vec<&str> = call
                .params
                .iter()
                .map(|(_, id)| id.as_str())
                .filter(|id| id.starts_with("i-"))
                .collect();
            match asked.as_slice() {
                ["i-odd"] => rejection(call, "InternalError"),
                ["i-gone"] => rejection(call, "InvalidInstanceID.NotFound"),
                _ if call.params.iter().any(|(key, _)| key.starts_with("InstanceId")) => {
                    rejection(call, "InvalidInstanceID.NotFound")
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

        assert!(cloud.target_instances(&ids).is_err());

        wire.sent.borrow_mut().clear();
        assert!(cloud.target_instances(&ids).is_err());

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
