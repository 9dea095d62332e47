//! The choice of the subnets of a load balancer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use skydock_sdk::{Result, log, types::CloudError};

use crate::{
    client::api::{
        ec2::{
            Zone,
            network::{self, RouteTable, Subnet},
        },
        failure::{Answer, Failure},
        partly,
    },
    cloud::Cloud,
    store,
    tags::{Cluster, Owner},
};

/// How long the information about the VPC is cached. Many Services may be created at once, and
/// subnets change rarely.
const VPC_SUBNETS: Duration = Duration::from_secs(60);

/// How long the ranges of subnets are cached. They do not change.
const RANGES: Duration = Duration::from_secs(24 * 3600);

const ROLE_PUBLIC: &str = "kubernetes.io/role/elb";
const ROLE_INTERNAL: &str = "kubernetes.io/role/internal-elb";

/// The relevant properties of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubnetProperties {
    pub(crate) id: String,
    name: String,
    zone: String,
    /// True if the zone supports load balancers: it is neither a local zone nor a Wavelength zone.
    regular: bool,
    /// Whether the subnet is public, or `None` if it has no route table.
    public: Option<bool>,
    for_public: bool,
    for_internal: bool,
    ours: bool,
    others: bool,
    /// The number of free IPv4 addresses, if AWS tells it.
    free: Option<u32>,
    ranges: Ranges,
}

/// The number of free IPv4 addresses that a subnet of a load balancer must have.
const ROOM: u32 = 8;

/// What a load balancer needs of its subnets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// True if it is internal. Otherwise, subnets must be public.
    pub(crate) internal: bool,
    /// True if it has IPv6 addresses. All have IPv4 addresses.
    pub(crate) ipv6: bool,
}

impl SubnetProperties {
    /// Returns true if AWS accepts the subnet for a new load balancer.
    fn is_usable(&self, need: Need) -> bool {
        let has_room = self.free.is_none_or(|free| free >= ROOM);
        has_room && !self.ranges.v4.is_empty() && (!need.ipv6 || self.ranges.v6.is_some())
    }

    /// Returns true if one of these errors of AWS names the subnet or its zone.
    fn is_rejected(&self, failures: &[Failure]) -> bool {
        failures.iter().map(Failure::to_string).any(|text| {
            let ids = [&self.id, &self.zone];
            ids.into_iter().any(|id| partly::names(&text, id))
        })
    }

    /// Returns true if a load balancer of this kind can have the subnet, full or not.
    fn is_suitable(&self, need: Need) -> bool {
        let reachable = need.internal || self.public == Some(true);
        self.regular && reachable && (self.ours || !self.others) && !self.ranges.v4.is_empty()
    }
}

/// The address ranges of a subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ranges {
    pub(crate) v4: String,
    pub(crate) v6: Option<String>,
}

/// The ID and the ranges of a subnet of a load balancer.
pub(crate) type SubnetRanges = (String, Ranges);

/// Returns the properties of the subnets of a VPC.
pub(crate) fn vpc_subnets(
    subnets: &[Subnet],
    tables: &[RouteTable],
    zones: &[Zone],
    cluster: &Cluster,
) -> Vec<SubnetProperties> {
    let regular = |name: &str| {
        let zone = zones.iter().find(|zone| zone.zone_name == name);
        zone.is_none_or(|zone| zone.zone_type.is_empty() || zone.zone_type == "availability-zone")
    };

    let properties = |subnet: &Subnet| {
        let tags = subnet.tags();
        let owner = cluster.owner(&tags);
        SubnetProperties {
            id: subnet.subnet_id.clone(),
            name: tags.get("Name").cloned().unwrap_or_default(),
            zone: subnet.availability_zone.clone(),
            regular: regular(&subnet.availability_zone),
            public: is_public(&subnet.subnet_id, tables),
            for_public: tags.contains_key(ROLE_PUBLIC),
            for_internal: tags.contains_key(ROLE_INTERNAL),
            ours: owner == Owner::Ours,
            // The legacy tag of another cluster does not exclude a subnet, as in the official
            // provider.
            others: owner == Owner::Others
                && crate::tags::clusters(&tags).any(|(_, legacy)| !legacy),
            free: subnet.available_ip_address_count,
            ranges: Ranges {
                v4: subnet.cidr_block.clone(),
                v6: subnet.ipv6().map(str::to_owned),
            },
        }
    };

    subnets.iter().map(properties).collect()
}

/// Returns true if the subnet's route table, or otherwise the VPC's main route table, has a route
/// to an internet gateway.
fn is_public(id: &str, tables: &[RouteTable]) -> Option<bool> {
    let own = tables.iter().find(|table| {
        table
            .association_set
            .items
            .iter()
            .any(|one| one.subnet_id == id)
    });
    let main = || {
        tables
            .iter()
            .find(|table| table.association_set.items.iter().any(|one| one.main))
    };

    let table = own.or_else(main)?;
    Some(
        table
            .route_set
            .items
            .iter()
            .any(|route| route.gateway_id.starts_with("igw")),
    )
}

/// Chooses the subnets of a load balancer, one per zone, in the order of the zones.
///
/// In each zone, a subnet with the tag of the role is preferred, then one with the cluster's tag,
/// then one that AWS can use, then the first one by ID. Zones without a subnet that AWS can use are
/// left out if others have one. Subnets that AWS `rejected` by name are not chosen.
///
/// # Errors
/// Fails if there is no subnet.
pub(crate) fn choose<'a>(
    vpc_subnets: &'a [SubnetProperties],
    need: Need,
    fallback: Option<&str>,
    rejected: &[Failure],
) -> Result<Vec<&'a SubnetProperties>> {
    let mut candidates: Vec<&SubnetProperties> = vpc_subnets
        .iter()
        .filter(|subnet| subnet.ours || !subnet.others)
        .collect();
    if candidates.is_empty() {
        candidates = vpc_subnets
            .iter()
            .filter(|subnet| Some(subnet.id.as_str()) == fallback)
            .collect();
    }

    let mut by_zone: BTreeMap<&str, Vec<&SubnetProperties>> = BTreeMap::new();
    for subnet in candidates {
        let public = subnet.public.ok_or_else(|| {
            CloudError::internal(format!(
                "subnet {} has no route table, and its VPC has no main one",
                subnet.id
            ))
        })?;
        if subnet.regular && (need.internal || public) && !subnet.is_rejected(rejected) {
            by_zone
                .entry(subnet.zone.as_str())
                .or_default()
                .push(subnet);
        }
    }

    let mut chosen: Vec<&SubnetProperties> = by_zone
        .into_values()
        .filter_map(|subnets| best(subnets, need))
        .collect();
    if chosen.iter().any(|subnet| subnet.is_usable(need)) {
        chosen.retain(|subnet| {
            let usable = subnet.is_usable(need);
            if !usable {
                let text =
                    "has too few free addresses, or lacks an address family: its zone is left out";
                log::warn("subnets", format_args!("subnet {} {text}", subnet.id));
            }
            usable
        });
    }

    if chosen.is_empty() {
        return Err(no_subnet(need));
    }
    Ok(chosen)
}

/// Returns the best one of the subnets in a zone.
fn best(subnets: Vec<&SubnetProperties>, need: Need) -> Option<&SubnetProperties> {
    let has_role = |subnet: &SubnetProperties| {
        if need.internal {
            subnet.for_internal
        } else {
            subnet.for_public
        }
    };
    subnets.into_iter().min_by(|one, other| {
        let rank =
            |subnet: &SubnetProperties| (!has_role(subnet), !subnet.ours, !subnet.is_usable(need));
        (rank(one), &one.id).cmp(&(rank(other), &other.id))
    })
}

fn no_subnet(need: Need) -> CloudError {
    let (kind, route) = if need.internal {
        ("", "")
    } else {
        ("public ", ", have a route to an internet gateway")
    };
    CloudError::internal(format!(
        "no {kind}subnet of the VPC can be used for this load balancer: it must be in an availability zone{route}, and not be \
         tagged for other clusters only; or set annotation {}",
        super::annotation::key(super::annotation::SUBNETS)
    ))
}

/// Returns the suitable ones of these subnets, and the chosen ones of the other zones.
fn keeping(
    vpc_subnets: &[SubnetProperties],
    need: Need,
    there: &BTreeSet<String>,
    chosen: &[&SubnetProperties],
) -> BTreeSet<String> {
    let stays = |subnet: &&SubnetProperties| there.contains(&subnet.id) && subnet.is_suitable(need);
    let kept: Vec<&SubnetProperties> = vpc_subnets.iter().filter(stays).collect();
    let zones: BTreeSet<&str> = kept.iter().map(|subnet| subnet.zone.as_str()).collect();

    let others = chosen
        .iter()
        .copied()
        .filter(|one| !zones.contains(one.zone.as_str()));
    others
        .chain(kept.iter().copied())
        .map(|subnet| subnet.id.clone())
        .collect()
}

/// Returns the subnets that a Service names, by ID or by the tag `Name`, in the same order.
///
/// # Errors
/// Fails if a subnet does not exist, or if a name is ambiguous.
pub(crate) fn named<'a>(
    vpc_subnets: &'a [SubnetProperties],
    wanted: &[String],
) -> Result<Vec<&'a SubnetProperties>> {
    let mut chosen = Vec::new();
    for word in wanted {
        let by_id = word.starts_with("subnet-");
        let fits = |subnet: &&SubnetProperties| {
            if by_id {
                subnet.id == *word
            } else {
                subnet.name == *word
            }
        };

        let mut fitting = vpc_subnets.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(subnet), None) => chosen.push(subnet),
            (None, _) => {
                return Err(CloudError::not_found(format!(
                    "the VPC has no subnet {word}"
                )));
            }
            (Some(_), Some(_)) => {
                return Err(CloudError::internal(format!(
                    "several subnets have the name {word}: rename all but one, or set the ID of the subnet"
                )));
            }
        }
    }
    Ok(chosen)
}

impl Cloud<'_> {
    /// Returns the subnets of a load balancer with their ranges.
    ///
    /// # Errors
    /// Fails if there is no subnet, or if a request to AWS fails.
    pub(crate) fn subnets(
        &self,
        cluster: &Cluster,
        vpc: &str,
        wanted: &[String],
        need: Need,
    ) -> Result<Vec<SubnetRanges>> {
        let vpc_subnets = self.vpc_subnets(cluster, vpc)?;
        let chosen = if wanted.is_empty() {
            choose(&vpc_subnets, need, self.config.subnet.as_deref(), &[])?
        } else {
            named(&vpc_subnets, wanted)?
        };
        Ok(chosen
            .into_iter()
            .map(|subnet| (subnet.id.clone(), subnet.ranges.clone()))
            .collect())
    }

    /// Creates a load balancer in its subnets. If AWS rejects one that was chosen automatically by
    /// name, the next one is taken, or none of its zone.
    ///
    /// # Errors
    /// Fails if there is no subnet, or if a request to AWS fails.
    pub(crate) fn create_in<T>(
        &self,
        cluster: &Cluster,
        vpc: &str,
        wanted: &[String],
        need: Need,
        create: &dyn Fn(&[SubnetRanges]) -> Result<Answer<T>>,
    ) -> Result<T> {
        let mut rejected = Vec::new();
        let mut subnets = self.subnets(cluster, vpc, wanted, need)?;
        loop {
            let failure = match create(&subnets)? {
                Ok(created) => return Ok(created),
                Err(failure) => failure,
            };

            // Subnets that the Service names are not exchanged for others.
            if !wanted.is_empty() || !failure.may_be_about_one() {
                return Err(failure.into());
            }

            rejected.push(failure.clone());
            let vpc_subnets = self.vpc_subnets(cluster, vpc)?;
            let fallback = self.config.subnet.as_deref();
            let next: Vec<SubnetRanges> = choose(&vpc_subnets, need, fallback, &rejected)
                .unwrap_or_default()
                .into_iter()
                .map(|subnet| (subnet.id.clone(), subnet.ranges.clone()))
                .collect();

            // Each round has others, because what AWS rejected by name is left out.
            if next.is_empty() || next == subnets {
                return Err(failure.into());
            }

            log::warn("subnets", format_args!("AWS rejects a subnet: {failure}"));
            subnets = next;
        }
    }

    /// Returns the subnets for an existing load balancer that has these: in each zone the current
    /// one if it is still suitable, otherwise the best one.
    ///
    /// # Errors
    /// Fails if there is no subnet, or if a request to AWS fails.
    pub(crate) fn subnets_with(
        &self,
        cluster: &Cluster,
        vpc: &str,
        need: Need,
        there: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>> {
        let vpc_subnets = self.vpc_subnets(cluster, vpc)?;
        let chosen = choose(&vpc_subnets, need, self.config.subnet.as_deref(), &[])?;
        Ok(keeping(&vpc_subnets, need, there, &chosen))
    }

    /// Returns the zones of the VPC's subnets.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub(crate) fn zones_of_subnets(
        &self,
        cluster: &Cluster,
        vpc: &str,
    ) -> Result<BTreeMap<String, String>> {
        let vpc_subnets = self.vpc_subnets(cluster, vpc)?.into_iter();
        Ok(vpc_subnets.map(|subnet| (subnet.id, subnet.zone)).collect())
    }

    fn vpc_subnets(&self, cluster: &Cluster, vpc: &str) -> Result<Vec<SubnetProperties>> {
        let key = self.key(&format!("vpc/{vpc}"));
        if let Some(vpc_subnets) = store::load(self.store, &key) {
            return Ok(vpc_subnets);
        }

        let subnets = network::subnets(self.wire, [("vpc-id", vec![vpc.to_owned()])])?;
        let tables = network::route_tables(self.wire, "vpc-id", &[vpc.to_owned()])?;
        let zones: BTreeSet<&str> = subnets
            .iter()
            .map(|subnet| subnet.availability_zone.as_str())
            .collect();
        let vpc_subnets = vpc_subnets(&subnets, &tables, &self.zones(&zones)?, cluster);
        store::save(self.store, &key, &vpc_subnets, VPC_SUBNETS);

        // Calls that need only the ranges then do not read the subnets again. The ranges of other
        // VPCs stay known.
        let mut ranges = self.known_ranges();
        let read = vpc_subnets.iter();
        ranges.extend(read.map(|subnet| (subnet.id.clone(), subnet.ranges.clone())));
        store::save(self.store, &self.key("ranges"), &ranges, RANGES);
        Ok(vpc_subnets)
    }

    fn known_ranges(&self) -> BTreeMap<String, Ranges> {
        store::load(self.store, &self.key("ranges")).unwrap_or_default()
    }

    /// Returns the ranges of subnets.
    ///
    /// # Errors
    /// Fails if a request to AWS fails, or if a subnet does not exist.
    pub(crate) fn ranges(&self, ids: &[String]) -> Result<Vec<Ranges>> {
        let mut known = self.known_ranges();
        if !ids.iter().all(|id| known.contains_key(id)) {
            for subnet in network::subnets(self.wire, [("subnet-id", ids.to_vec())])? {
                let ranges = Ranges {
                    v4: subnet.cidr_block.clone(),
                    v6: subnet.ipv6().map(str::to_owned),
                };
                known.insert(subnet.subnet_id, ranges);
            }
            store::save(self.store, &self.key("ranges"), &known, RANGES);
        }

        let of = |id: &String| {
            known
                .get(id)
                .cloned()
                .ok_or_else(|| CloudError::not_found(format!("subnet {id} does not exist")))
        };
        ids.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests;
