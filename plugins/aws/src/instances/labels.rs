//! Labels in addition to the well-known ones: the ID of the zone, and the position in the AWS
//! network.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use regex_lite::Regex;
use skydock_sdk::{
    Lookup as _, Result,
    types::{CloudError, Node, Pair},
};

use crate::{
    client::api::{
        self,
        ec2::{self, Instance},
        failure::{Answer, Failure},
    },
    cloud::Cloud,
    store,
};

const ZONE_ID: &str = "topology.k8s.aws/zone-id";
const NETWORK_LAYER: &str = "topology.k8s.aws/network-node-layer-";

/// How long zones, and the absence of network topology, are cached. Both rarely change.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long the topology is not requested again after an error, for instances that do not require
/// it.
const FAILED: Duration = Duration::from_secs(600);

/// Maximum number of instances in one request for the topology.
const TOPOLOGY: usize = 100;

/// Label keys and values.
pub(crate) type Labels = Vec<Pair>;

/// Returns the labels of each node by the node's name.
///
/// # Errors
/// Fails if zones are required and the request to EC2 fails.
pub(crate) fn of(
    cloud: &Cloud<'_>,
    known: &[(&Node, &Instance)],
) -> Result<BTreeMap<String, Result<Labels>>> {
    let unlabeled = known
        .iter()
        .filter(|(node, _)| node.labels.lookup(ZONE_ID).is_none());
    let zones: BTreeSet<&str> = unlabeled
        .map(|(_, instance)| instance.placement.availability_zone.as_str())
        .collect();
    let zones = if zones.is_empty() {
        BTreeMap::new()
    } else {
        zone_ids(cloud, &zones)?
    };

    let layers = layers(cloud, known)?;
    let labels = |node: &Node, instance: &Instance| -> Result<Labels> {
        let zone = &instance.placement.availability_zone;
        let id = node
            .labels
            .lookup(ZONE_ID)
            .map(str::to_owned)
            .or_else(|| zones.get(zone).cloned());
        let id =
            id.ok_or_else(|| CloudError::internal(format!("EC2 does not list zone {zone}")))?;
        let mut labels = vec![(ZONE_ID.to_owned(), id)];
        labels.extend(
            layers
                .get(&instance.instance_id)
                .cloned()
                .unwrap_or_else(|| Ok(Vec::new()))?,
        );
        Ok(labels)
    };

    Ok(known
        .iter()
        .map(|(node, instance)| (node.name.clone(), labels(node, instance)))
        .collect())
}

/// Returns the IDs of zones by name, from the cache if it has all of these.
fn zone_ids(cloud: &Cloud<'_>, wanted: &BTreeSet<&str>) -> Result<BTreeMap<String, String>> {
    let zones = cloud.zones(wanted)?;
    Ok(zones
        .into_iter()
        .map(|zone| (zone.zone_name, zone.zone_id))
        .collect())
}

/// Returns the network layers above each instance, by its ID. A node that has the labels keeps
/// them, because its instance does not move.
fn layers(
    cloud: &Cloud<'_>,
    known: &[(&Node, &Instance)],
) -> Result<BTreeMap<String, Result<Labels>>> {
    let required = Regex::new(&cloud.config.topology_pattern).map_err(|error| {
        CloudError::invalid(format!("SupportedTopologyInstanceTypePattern: {error}"))
    })?;

    let mut all = BTreeMap::new();
    let mut unknown: Vec<&Instance> = Vec::new();
    let is_cached = |key: &str| cloud.store.get(&cloud.key(key)).is_some();
    let nowhere = is_cached("topology/region");
    let failed = is_cached("topology/failed");

    for (node, instance) in known {
        let there: Labels = node
            .labels
            .iter()
            .filter(|(key, _)| key.starts_with(NETWORK_LAYER))
            .cloned()
            .collect();
        let none = |key: &str| {
            cloud
                .store
                .get(&cloud.key(&format!("topology/{key}")))
                .is_some()
        };

        if !there.is_empty() {
            all.insert(instance.instance_id.clone(), Ok(there));
        } else if failed && !required.is_match(&instance.instance_type) {
            // A recent request failed, and this type most likely has no topology.
        } else if !nowhere && !none(&instance.instance_type) && !none(&instance.instance_id) {
            unknown.push(instance);
        }
    }

    for part in unknown.chunks(TOPOLOGY) {
        let answer = ec2::topology(
            cloud.wire,
            part.iter().map(|instance| instance.instance_id.as_str()),
        );
        for instance in part {
            let must = required.is_match(&instance.instance_type);
            if let Some(outcome) = outcome(instance, must, &answer) {
                all.insert(instance.instance_id.clone(), outcome);
            }
        }
        cache_absence(cloud, part, &required, &answer);
    }

    Ok(all)
}

/// Returns the layers of one instance from an answer, or `None` if it has none.
fn outcome(
    instance: &Instance,
    must: bool,
    answer: &Answer<Vec<ec2::Topology>>,
) -> Option<Result<Labels>> {
    match answer {
        Ok(all) => {
            let topology = all
                .iter()
                .find(|topology| topology.instance_id == instance.instance_id)?;
            let layers = topology.network_node_set.items.iter().enumerate();
            Some(Ok(layers
                .map(|(index, node)| (format!("{NETWORK_LAYER}{}", index + 1), node.clone()))
                .collect()))
        }
        Err(failure) if has_none(failure) => None,
        // Most instance types have no layers.
        Err(failure) => must.then(|| Err(failure.clone().into())),
    }
}

/// Caches which requests are not repeated for a day, or for a few minutes after an error.
fn cache_absence(
    cloud: &Cloud<'_>,
    part: &[&Instance],
    required: &Regex,
    answer: &Answer<Vec<ec2::Topology>>,
) {
    let keep_for = |key: &str, time| {
        cloud
            .store
            .set(&cloud.key(&format!("topology/{key}")), "none", time);
    };
    let keep = |key: &str| keep_for(key, DAY);
    match answer {
        Ok(all) => {
            for instance in part {
                if all
                    .iter()
                    .any(|topology| topology.instance_id == instance.instance_id)
                {
                    continue;
                }
                // An instance that should have a position may be stopped, so nothing is known about
                // its type.
                keep(if required.is_match(&instance.instance_type) {
                    &instance.instance_id
                } else {
                    &instance.instance_type
                });
            }
        }
        Err(failure) if has_none(failure) => keep("region"),
        Err(_) => keep_for("failed", FAILED),
    }
}

/// Returns true if the region has no network topology, or if the credentials do not allow reading
/// it.
fn has_none(failure: &Failure) -> bool {
    matches!(
        failure.code(),
        "UnsupportedOperation" | "UnauthorizedOperation"
    )
}

impl Cloud<'_> {
    /// Returns the zones of the region, from the cache if it has all of these.
    ///
    /// # Errors
    /// Fails if a request to EC2 fails.
    pub(crate) fn zones(&self, wanted: &BTreeSet<&str>) -> Result<Vec<ec2::Zone>> {
        let key = self.key("zones");
        let cached: Vec<ec2::Zone> = store::load(self.store, &key).unwrap_or_default();
        if !cached.is_empty()
            && wanted
                .iter()
                .all(|name| cached.iter().any(|zone| zone.zone_name == *name))
        {
            return Ok(cached);
        }

        let answer: ec2::ZonesAnswer = api::ask(self.wire, &ec2::zones())?;
        store::save(self.store, &key, &answer.availability_zone_info.items, DAY);
        Ok(answer.availability_zone_info.items)
    }
}
