//! Finds many machines with few calls, and is sure of what is gone.
//!
//! A question by ID fails as a whole if one ID is unknown. Then filters are asked, which leave out what they do not know; and
//! only what EC2 calls unknown when asked for by its ID alone counts as gone.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::CloudError};

use super::{Machines, Reference};
use crate::{
    api::{ec2, failure::Failure, wire::Wire},
    tags::Cluster,
};

/// Most values of a filter that EC2 takes.
const FILTER: usize = 200;

/// Most names in a filter; the official provider's bound.
const NAMES: usize = 150;

/// Most machines asked for one by one in a call. The rest is told to come again.
const SINGLES: usize = 50;

/// What EC2 says of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is there.
    Machine(Box<ec2::Instance>),
    /// EC2 was asked for it and knows no such ID.
    Gone,
}

/// What EC2 says of all that was looked for.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    by_id: BTreeMap<String, Result<Found>>,
    by_name: BTreeMap<String, Result<Found>>,
}

impl Lookup {
    /// What EC2 says of this one.
    ///
    /// # Errors
    /// If it says nothing for sure.
    pub(crate) fn of(&self, reference: &Reference) -> Result<&Found> {
        let (found, word) = match reference {
            Reference::Id(id) => (self.by_id.get(id), id),
            Reference::Name(name) => (self.by_name.get(name), name),
            Reference::None(error) => return Err(error.clone()),
        };
        match found {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(error.clone()),
            None => Err(CloudError::internal(format!("{word} was not looked for"))),
        }
    }
}

/// Looks for all of them. Names need the cluster, to tell its machines from others.
///
/// # Errors
/// If EC2 cannot be asked.
pub(crate) fn find(wire: &dyn Wire, references: &[Reference], cluster: Option<&Cluster>) -> Result<Lookup> {
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

/// Machines by their IDs.
///
/// # Errors
/// If EC2 cannot be asked.
pub(crate) fn by_id(wire: &dyn Wire, ids: &BTreeSet<&str>) -> Result<BTreeMap<String, Result<Found>>> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    match ec2::instances(wire, &ec2::instances_by_id(ids.iter().copied())) {
        Ok(machines) => return settle(wire, ids, named(machines)),
        Err(failure) if is_about_an_id(&failure) => {}
        Err(failure) => return Err(failure.into()),
    }
    if ids.len() == 1 {
        return singly(wire, ids);
    }
    let all: Vec<&str> = ids.iter().copied().collect();
    let mut machines = Machines::new();
    for part in all.chunks(FILTER) {
        let call = ec2::instances_by_filter("instance-id", part.iter().copied());
        machines.append(&mut named(ec2::instances(wire, &call)?));
    }
    settle(wire, ids, machines)
}

/// Puts what was found to what was not, of which EC2 is asked again, one by one.
fn settle(wire: &dyn Wire, ids: &BTreeSet<&str>, machines: Machines) -> Result<BTreeMap<String, Result<Found>>> {
    let missing: BTreeSet<&str> = ids.iter().copied().filter(|id| !machines.contains_key(*id)).collect();
    let mut all = if missing.is_empty() { BTreeMap::new() } else { singly(wire, &missing)? };
    all.extend(machines.into_iter().map(|(id, machine)| (id, Ok(Found::Machine(Box::new(machine))))));
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
            Ok(machines) => match machines.into_iter().find(|machine| machine.instance_id == *id) {
                Some(machine) => Ok(Found::Machine(Box::new(machine))),
                None => Err(CloudError::unavailable(format!("EC2 says nothing of machine {id}"))),
            },
            Err(failure) if failure.code() == "InvalidInstanceID.NotFound" => Ok(Found::Gone),
            Err(failure) if is_about_an_id(&failure) => Err(CloudError::invalid(format!("{id} is no ID of a machine"))),
            Err(failure) => Err(failure.into()),
        };
        all.insert((*id).to_owned(), found);
    }
    for id in ids.iter().skip(SINGLES) {
        let later = CloudError::in_progress(std::time::Duration::from_secs(1), "too many unknown machines at once");
        all.insert((*id).to_owned(), Err(later));
    }
    Ok(all)
}

fn by_name(wire: &dyn Wire, names: &BTreeSet<&str>, cluster: &Cluster) -> Result<BTreeMap<String, Result<Found>>> {
    let names: Vec<&str> = names.iter().copied().collect();
    let mut machines: BTreeMap<String, Vec<ec2::Instance>> = BTreeMap::new();
    for part in names.chunks(NAMES) {
        let call = ec2::instances_by_filter("private-dns-name", part.iter().copied())
            .filter("instance-state-name", ["pending", "running", "shutting-down", "stopping", "stopped"]);
        for machine in ec2::instances(wire, &call)? {
            if cluster.has(&machine.tags()) {
                machines.entry(machine.private_dns_name.clone()).or_default().push(machine);
            }
        }
    }
    let found = |name: &str| {
        let mut found = machines.get(name).cloned().unwrap_or_default();
        match (found.pop(), found.is_empty()) {
            (Some(machine), true) => Ok(Found::Machine(Box::new(machine))),
            (Some(_), false) => Err(CloudError::invalid(format!("several machines have the private DNS name {name}"))),
            // A name that is not found proves nothing.
            (None, _) => Err(CloudError::not_found(format!(
                "no machine with the tag {} has the private DNS name {name}",
                cluster.key()
            ))),
        }
    };
    Ok(names.iter().map(|name| ((*name).to_owned(), found(name))).collect())
}

fn named(machines: Vec<ec2::Instance>) -> Machines {
    machines.into_iter().map(|machine| (machine.instance_id.clone(), machine)).collect()
}

fn is_about_an_id(failure: &Failure) -> bool {
    failure.code().starts_with("InvalidInstanceID") || failure.code() == "InvalidID"
}
