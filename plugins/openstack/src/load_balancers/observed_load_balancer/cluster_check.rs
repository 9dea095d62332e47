//! Whether a load balancer belongs to this cluster. Another cluster in the project may have the same
//! name and a Service with the same name, so that the names and tags of its load balancers are the
//! same, too.

use std::time::Duration;

use skydock_sdk::{
    Lookup as _, Result,
    types::{CloudError, NodeAddress, Service},
};

use crate::{
    cloud::Cloud,
    instances::ports_of,
    load_balancers::{
        Context, Nodes, annotation, floating_ip, names,
        observed_load_balancer::{
            Ownership,
            find::Found,
            read::{Depth, read},
        },
        operations::create,
    },
    provider_id::{self, Reference},
    services::{
        network::is_same,
        octavia::{LoadBalancer, Member, Phase},
    },
};

/// How long it is remembered that a load balancer leads to this cluster.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Where the members of this Service's listeners are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Members {
    /// There are none.
    None,
    /// All of them are nodes of this cluster.
    Here,
    /// Some of them are nodes of this cluster.
    Mixed,
    /// None of them is a node of this cluster.
    Elsewhere,
}

/// Returns true if a load balancer that has the name or the tag of this Service serves another
/// cluster: the Service never used it, and all its members are nodes of others. Without members,
/// nothing shows that. `call_nodes` are the nodes of the call, if it has some.
///
/// # Errors
/// Fails if a request to the cloud fails, or if the nodes of the cluster are not known yet.
pub(crate) fn is_foreign(
    context: Context<'_>,
    found: &Found,
    call_nodes: Option<&dyn Nodes>,
) -> Result<bool> {
    let Context { cloud, .. } = context;
    let balancer = &found.load_balancer;
    let key = format!("used here {}", balancer.id);
    if balancer.phase() == Phase::Deleting
        || cloud.host.cached(&key).is_some()
        || is_known(context, balancer)?
    {
        return Ok(false);
    }

    let members = members(context, found, call_nodes)?;
    if matches!(members, Members::Here | Members::Mixed) {
        cloud.host.cache(&key, &[1], REMEMBERED);
    }

    Ok(members == Members::Elsewhere)
}

/// Returns the error of a Service whose name leads to the load balancer of another cluster.
pub(crate) fn rejection(cloud: &Cloud<'_>, balancer: &LoadBalancer) -> CloudError {
    CloudError::denied(format!(
        "load balancer {0} has the name or the tag of this Service, but none of its members is a node of this cluster: another \
         cluster seems to have the same --cluster-name ({1}). To use it nevertheless, set annotation {2} to {0} and remove {3}",
        balancer.id,
        cloud.cluster,
        annotation::LOAD_BALANCER_ID,
        annotation::LOAD_BALANCER_ADDRESS
    ))
}

/// Returns true if this Service has used the load balancer, or a user has selected it.
fn is_known(context: Context<'_>, balancer: &LoadBalancer) -> Result<bool> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    if create::was_created(cloud, &balancer.id) {
        return Ok(true);
    }

    let has_status = !service.status.ingress.is_empty();
    if desired.id == balancer.id {
        let stored = service
            .annotations
            .lookup(annotation::LOAD_BALANCER_ADDRESS);
        let is_named = names::is_of(&balancer.name, &desired.name, service)
            || !balancer.tags.contains(&desired.name);
        let is_known = match stored {
            // A user has set the ID, to take over the load balancer or to share it. The latter does
            // not include the listeners of another Service with this name.
            None => is_named || has_status,
            // This provider has set it, and is not finished.
            Some("") => true,
            // Both annotations are also in a manifest that was copied from another cluster.
            Some(_) => has_status,
        };
        if is_known {
            return Ok(true);
        }
    }

    // Without an ID, the load balancer has always been found by its name.
    Ok(has_status && (desired.id.is_empty() || floating_ip::serves(cloud, service, balancer)?))
}

/// Whether a load balancer that has the name or the tag of a Service leads to this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// All members are nodes of this cluster.
    Here,
    /// It has no members.
    Unknown,
    /// Some members are not.
    Elsewhere,
}

/// Returns where a load balancer leads. One with the name of the Service needs at least one member.
/// What was found is remembered, because members are deleted first.
pub(crate) fn location(context: Context<'_>, found: &Found) -> Result<Location> {
    let Context { cloud, .. } = context;
    let key = format!("leads here {}", found.load_balancer.id);
    if cloud.host.cached(&key).is_some() {
        return Ok(Location::Here);
    }

    let location = match members(context, found, None)? {
        Members::Here => Location::Here,
        Members::None if !found.by_name => Location::Unknown,
        Members::None | Members::Mixed | Members::Elsewhere => Location::Elsewhere,
    };

    if location == Location::Here {
        cloud.host.cache(&key, &[1], REMEMBERED);
    }
    Ok(location)
}

/// Nodes of other providers are only among those that were lent for the call.
fn members(context: Context<'_>, found: &Found, call_nodes: Option<&dyn Nodes>) -> Result<Members> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let ownership = Ownership {
        owner: found.by_name || names::is_of(&found.load_balancer.name, &desired.name, service),
        ..Ownership::default()
    };

    let balancer = found.load_balancer.clone();
    let observed = read(context, balancer, &ownership, Depth::Members)?;

    let Some(nodes) = cloud.host.nodes() else {
        return Err(CloudError::unavailable(
            "the nodes of the cluster are not known yet",
        ));
    };

    let call_nodes = call_nodes.map(Nodes::targets).unwrap_or_default();
    let known: Vec<(Option<&str>, &NodeAddress)> = nodes
        .iter()
        .map(|node| (node.provider_id.as_deref(), &node.addresses))
        .chain(
            call_nodes
                .iter()
                .map(|target| (target.provider_id.as_deref(), &target.addresses)),
        )
        .flat_map(|(id, addresses)| addresses.iter().map(move |address| (id, address)))
        .collect();

    let members: Vec<&Member> = observed.members.values().flatten().collect();
    let mut here = members.clone();
    here.retain(|member| known.iter().any(|(_, address)| is_at(address, member)));
    remove_foreign(cloud, service, &known, &mut here)?;

    Ok(match (here.len(), members.len()) {
        (_, 0) => Members::None,
        (0, _) => Members::Elsewhere,
        (here, all) if here == all => Members::Here,
        _ => Members::Mixed,
    })
}

/// Removes members with the address of a node, but in a subnet in which neither the nodes at these
/// addresses have a port, nor the Service or the configuration places members: networks of clusters
/// often have the same addresses.
fn remove_foreign(
    cloud: &Cloud<'_>,
    service: &Service,
    known: &[(Option<&str>, &NodeAddress)],
    members: &mut Vec<&Member>,
) -> Result<()> {
    let config = cloud.config;
    let mut own: Vec<&str> = [&config.load_balancer.class]
        .into_iter()
        .chain(config.classes.values())
        .flat_map(|class| [&class.subnet_id, &class.member_subnet_id])
        .map(String::as_str)
        .collect();
    own.extend(
        [annotation::SUBNET_ID, annotation::MEMBER_SUBNET_ID]
            .map(|key| annotation::text(service, key, "")),
    );

    let is_elsewhere = |member: &Member, own: &[&str]| {
        let subnet = member.subnet_id.as_deref().unwrap_or_default();
        !subnet.is_empty() && !own.contains(&subnet)
    };

    let unclear = members.iter().filter(|member| is_elsewhere(member, &own));
    let mut servers: Vec<&str> = unclear
        .flat_map(|member| known.iter().filter(|(_, address)| is_at(address, member)))
        .filter_map(|(id, _)| match provider_id::read(config, (*id)?) {
            Reference::Server(id) => Some(id),
            Reference::NotOurs => None,
        })
        .collect();
    servers.sort_unstable();
    servers.dedup();

    let ports = ports_of(cloud, &servers)?;
    own.extend(
        ports
            .iter()
            .flat_map(|port| &port.fixed_ips)
            .map(|fixed| fixed.subnet_id.as_str()),
    );
    // Without ports, nothing shows where the nodes are.
    members.retain(|member| ports.is_empty() || !is_elsewhere(member, &own));
    Ok(())
}

fn is_at(known: &NodeAddress, member: &Member) -> bool {
    is_same(&known.address, &member.address)
}
