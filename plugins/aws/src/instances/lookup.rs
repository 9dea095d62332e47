//! Finds many instances with few requests, and reliably detects deleted ones.
//!
//! A request by ID fails completely if one ID is unknown. In this case filters are used, which omit
//! unknown instances. An instance is considered gone only if EC2 reports its ID as unknown in a
//! request for this ID alone.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::CloudError};

use super::{InstancesById, Reference};
use crate::{
    client::api::{ec2, failure::Failure, wire::Wire},
    tags::Cluster,
};

/// Maximum number of values of an EC2 filter.
const FILTER: usize = 200;

/// Maximum number of names in a filter, the limit of the official provider.
const NAMES: usize = 150;

/// Maximum number of instances that one call requests individually. The host must retry for the
/// others.
const SINGLES: usize = 50;

/// What EC2 knows about one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The instance exists.
    Instance(Box<ec2::Instance>),
    /// EC2 does not know the ID in a request for it alone.
    Gone,
}

/// The results of a lookup.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    by_id: BTreeMap<String, Result<Found>>,
    by_name: BTreeMap<String, Result<Found>>,
}

impl Lookup {
    /// Returns the result for one reference.
    ///
    /// # Errors
    /// Fails if EC2 did not give a reliable answer.
    pub(crate) fn of(&self, reference: &Reference) -> Result<&Found> {
        let (found, word) = match reference {
            Reference::Id(id) => (self.by_id.get(id), id),
            Reference::Name(name) => (self.by_name.get(name), name),
            Reference::None(error) => return Err(error.clone()),
        };

        match found {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(error.clone()),
            None => Err(CloudError::internal(format!("{word} was not queried"))),
        }
    }
}

/// Looks up all references. Names require the cluster, to distinguish its instances from others.
///
/// # Errors
/// Fails if a request to EC2 fails.
pub(crate) fn find(
    wire: &dyn Wire,
    references: &[Reference],
    cluster: Option<&Cluster>,
) -> Result<Lookup> {
    let mut lookup = Lookup::default();
    let mut ids = BTreeSet::new();
    let mut names = BTreeSet::new();
    for reference in references {
        match reference {
            Reference::Id(id) => _ = ids.insert(id.as_str()),
            Reference::Name(name) => _ = names.insert(name.as_str()),
            Reference::None(_) => {}
        }
    }

    lookup.by_id = by_id(wire, &ids)?;
    if let Some(cluster) = cluster {
        lookup.by_name = by_name(wire, &names, cluster)?;
    }
    Ok(lookup)
}

/// Returns instances by ID.
///
/// # Errors
/// Fails if a request to EC2 fails.
pub(crate) fn by_id(
    wire: &dyn Wire,
    ids: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Result<Found>>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }

    match ec2::instances(wire, &ec2::instances_by_id(ids.iter().copied())) {
        Ok(instances) => return settle(wire, ids, named(instances)),
        Err(failure) if is_about_an_id(&failure) => {}
        Err(failure) => return Err(failure.into()),
    }
    if ids.len() == 1 {
        return singly(wire, ids);
    }

    let all: Vec<&str> = ids.iter().copied().collect();
    let mut instances = InstancesById::new();
    for part in all.chunks(FILTER) {
        let call = ec2::instances_by_filter("instance-id", part.iter().copied());
        instances.append(&mut named(ec2::instances(wire, &call)?));
    }
    settle(wire, ids, instances)
}

/// Completes the found instances with the missing ones, which are requested individually.
fn settle(
    wire: &dyn Wire,
    ids: &BTreeSet<&str>,
    instances: InstancesById,
) -> Result<BTreeMap<String, Result<Found>>> {
    let missing: BTreeSet<&str> = ids
        .iter()
        .copied()
        .filter(|id| !instances.contains_key(*id))
        .collect();

    let mut all = if missing.is_empty() {
        BTreeMap::new()
    } else {
        singly(wire, &missing)?
    };
    all.extend(
        instances
            .into_iter()
            .map(|(id, instance)| (id, Ok(Found::Instance(Box::new(instance))))),
    );
    Ok(all)
}

fn singly(wire: &dyn Wire, ids: &BTreeSet<&str>) -> Result<BTreeMap<String, Result<Found>>> {
    let asked: Vec<&str> = ids.iter().copied().take(SINGLES).collect();
    let calls: Vec<_> = asked.iter().map(|id| ec2::instances_by_id([*id])).collect();
    let answers = wire.send(&calls);

    let mut all: BTreeMap<String, Result<Found>> = BTreeMap::new();
    for ((id, call), answer) in asked.iter().zip(&calls).zip(answers) {
        let answer = answer.and_then(|body| ec2::read_instances(call, &body));
        let found = match answer {
            Ok(instances) => match instances
                .into_iter()
                .find(|instance| instance.instance_id == *id)
            {
                Some(instance) => Ok(Found::Instance(Box::new(instance))),
                None => Err(CloudError::unavailable(format!(
                    "EC2 returned nothing about instance {id}"
                ))),
            },
            Err(failure) if failure.code() == "InvalidInstanceID.NotFound" => Ok(Found::Gone),
            Err(failure) if is_about_an_id(&failure) => Err(CloudError::invalid(format!(
                "{id} is not a valid instance ID"
            ))),
            Err(failure) => Err(failure.into()),
        };
        all.insert((*id).to_owned(), found);
    }

    for id in ids.iter().skip(SINGLES) {
        let later = CloudError::in_progress(
            std::time::Duration::from_secs(1),
            "too many unknown instances in one call",
        );
        all.insert((*id).to_owned(), Err(later));
    }
    Ok(all)
}

fn by_name(
    wire: &dyn Wire,
    names: &BTreeSet<&str>,
    cluster: &Cluster,
) -> Result<BTreeMap<String, Result<Found>>> {
    let names: Vec<&str> = names.iter().copied().collect();
    let mut instances: BTreeMap<String, Vec<ec2::Instance>> = BTreeMap::new();
    for part in names.chunks(NAMES) {
        let call = ec2::instances_by_filter("private-dns-name", part.iter().copied()).filter(
            "instance-state-name",
            ["pending", "running", "shutting-down", "stopping", "stopped"],
        );
        for instance in ec2::instances(wire, &call)? {
            if cluster.has(&instance.tags()) {
                instances
                    .entry(instance.private_dns_name.clone())
                    .or_default()
                    .push(instance);
            }
        }
    }

    let found = |name: &str| {
        let mut found = instances.get(name).cloned().unwrap_or_default();
        match (found.pop(), found.is_empty()) {
            (Some(instance), true) => Ok(Found::Instance(Box::new(instance))),
            (Some(_), false) => Err(CloudError::internal(format!(
                "several instances have the private DNS name {name}: set the provider ID of the node"
            ))),
            // A name that is not found does not prove that the instance is gone.
            (None, _) => Err(CloudError::not_found(format!(
                "no instance with the tag {} has the private DNS name {name}",
                cluster.key()
            ))),
        }
    };

    Ok(names
        .iter()
        .map(|name| ((*name).to_owned(), found(name)))
        .collect())
}

fn named(instances: Vec<ec2::Instance>) -> InstancesById {
    instances
        .into_iter()
        .map(|instance| (instance.instance_id.clone(), instance))
        .collect()
}

fn is_about_an_id(failure: &Failure) -> bool {
    failure.code().starts_with("InvalidInstanceID") || failure.code() == "InvalidID"
}
