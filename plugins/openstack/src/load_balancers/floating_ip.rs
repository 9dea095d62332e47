//! The floating IP of a load balancer.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    types::{CloudError, IpFamily, Service},
};

mod decision;
mod marks;
mod networks;
mod requests;

pub(super) use self::requests::{attached, with_address};
use self::{
    decision::{Decision, Rejection, decide, is_other},
    marks::{described, is_left_by, is_ours, mark_kept, with_description},
    networks::{external_key, is_in_subnet, matching, networks},
    requests::{attach_with, create, detach, is_free, remove, still_free, update},
};
use crate::{
    cloud::{CACHED, Cloud, is_exhausted},
    host_functions::Event,
    load_balancers::{
        Context, annotation,
        desired_load_balancer::{DesiredLoadBalancer, FloatingIpSettings},
        had_address, names,
        observed_load_balancer::Ownership,
        warn_once,
    },
    services::{network::FloatingIp, octavia::LoadBalancer},
};

/// The reason of the event about a request for another floating IP.
const ADDRESS_IGNORED: &str = "LoadBalancerFloatingIPKept";

/// The reason of the event about a Service that gets no floating IP, as in upstream.
const FORCED_INTERNAL: &str = "LoadBalancerForcedInternal";

/// Checks whether a Service may share the load balancer of another one at its current address. The
/// floating IP would make an internal Service reachable from outside, and only the owner can create
/// it.
///
/// # Errors
/// Fails if the Service cannot have this address.
pub(super) fn may_share(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    balancer: &LoadBalancer,
) -> Result<()> {
    let is_v6 = is_v6(balancer);
    if desired
        .family
        .is_some_and(|family| is_v6 != (family == IpFamily::Ipv6))
    {
        return Err(CloudError::denied(format!(
            "the address of load balancer {} does not have the first IP family of the Service",
            balancer.id
        )));
    }

    if is_v6 {
        return Ok(());
    }

    match (desired.internal, attached(cloud, balancer)?) {
        (true, Some(_)) => Err(Rejection::OfOthers.error(balancer)),
        (false, None) => Err(Rejection::OwnersOnly.error(balancer)),
        (true, None) | (false, Some(_)) => Ok(()),
    }
}

/// Returns true if this load balancer's address is in the status of the Service.
pub(super) fn serves(
    cloud: &Cloud<'_>,
    service: &Service,
    balancer: &LoadBalancer,
) -> Result<bool> {
    let addresses = addresses(service);
    let is = |address: &str| addresses.contains(&address);

    // Only a floating IP needs a request.
    if addresses.is_empty() || balancer.vip_address.as_deref().is_some_and(is) {
        return Ok(!addresses.is_empty());
    }
    Ok(attached(cloud, balancer)?.is_some_and(|floating| is(&floating.floating_ip_address)))
}

/// Returns true if the Service has had other addresses than this one.
pub(super) fn had_other_address(service: &Service, address: &str) -> bool {
    addresses(service)
        .iter()
        .any(|addresses| *addresses != address)
}

/// Returns the addresses in the status of a Service. If the status has a host name, the address is
/// in an annotation.
pub(super) fn addresses(service: &Service) -> Vec<&str> {
    let ingress = &service.status.ingress;
    let is_set = |address: &&str| !address.is_empty();
    let mut addresses: Vec<&str> = ingress
        .iter()
        .filter_map(|ingress| ingress.ip.as_deref())
        .filter(is_set)
        .collect();

    // The status has only a host name.
    if addresses.is_empty() && !ingress.is_empty() {
        let annotated = annotation::text(service, annotation::LOAD_BALANCER_ADDRESS, "");
        addresses.extend(Some(annotated).filter(is_set));
    }
    addresses
}

/// Returns the IP family of the load balancer's address, if it has one.
pub(super) fn family(load_balancer: &LoadBalancer) -> Option<IpFamily> {
    let address = load_balancer.vip_address.as_deref()?;
    Some(match address.parse().ok()? {
        IpAddr::V4(_) => IpFamily::Ipv4,
        IpAddr::V6(_) => IpFamily::Ipv6,
    })
}

fn is_v6(load_balancer: &LoadBalancer) -> bool {
    family(load_balancer) == Some(IpFamily::Ipv6)
}

/// Creates, deletes or detaches the floating IP as required, and returns the address of the
/// Service.
pub(super) fn ensure(
    context: Context<'_>,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<String> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let vip = balancer.vip_address.clone().unwrap_or_default();
    if is_v6(balancer) {
        // Only until the Service has an address, so that the event is not repeated.
        if !desired.internal && service.status.ingress.is_empty() {
            let message =
                format!("IPv6 has no floating IPs: using the load balancer's address {vip}");
            cloud.host.publish(
                service,
                &Event::warning("LoadBalancerFloatingIPSkipped", message),
            );
        }
        return Ok(vip);
    }

    let attached = attached(cloud, balancer)?;
    let had_one = had_other_address(service, &vip);
    let decision = decide(desired, ownership, attached.as_ref(), had_one);
    let is_settled = matches!(decision, Decision::Keep(_) | Decision::CreateOrAttach);

    let address = match decision {
        Decision::Vip => Ok(vip),
        Decision::Keep(floating) => {
            let message = if is_other(desired, floating) {
                let why = "it is also the address of other Services";
                Some(not_used(desired, floating, why))
            } else {
                other_network(context, floating)?
            };
            warn_once(
                cloud,
                service,
                ADDRESS_IGNORED,
                message.as_deref().unwrap_or_default(),
            );
            Ok(floating.floating_ip_address.clone())
        }
        Decision::Replace(floating) => replace(context, balancer, floating),
        Decision::Delete(floating) => remove(cloud, floating).map(|()| vip),
        Decision::Detach(floating) => {
            let kept_by = names::floating_ip_kept_by(cloud.cluster, service);
            detach(cloud, floating, described(floating, &kept_by)).map(|()| vip)
        }
        Decision::Reject(rejection) => Err(rejection.error(balancer)),
        Decision::CreateOrAttach => Ok(create_or_attach(context, balancer)?.unwrap_or(vip)),
    }?;

    // If the replacement of a floating IP was interrupted, the previous one is still there.
    let is_requested = !desired.floating.keep && desired.floating.address == address;
    if is_settled && is_requested && had_other_address(service, &address) {
        delete_unattached(cloud, service)?;
    }
    Ok(address)
}

fn not_used(desired: &DesiredLoadBalancer, current: &FloatingIp, why: &str) -> String {
    format!(
        "loadBalancerIP is {}, but the address stays {}: {why}",
        desired.floating.address, current.floating_ip_address
    )
}

/// Returns a message if the Service selects another network or subnet than that of its floating IP.
/// Defaults of `cloud.conf` are meant for new floating IPs.
fn other_network(context: Context<'_>, floating: &FloatingIp) -> Result<Option<String>> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let selects = |keys: &[&str]| {
        keys.iter()
            .chain([&annotation::CLASS])
            .any(|key| !annotation::text(service, key, "").is_empty())
    };

    let FloatingIp {
        floating_ip_address: address,
        floating_network_id: network,
        ..
    } = floating;
    let wanted = &desired.floating;

    // The address decides, whatever its network is.
    if !wanted.address.is_empty() {
        return Ok(None);
    }

    if selects(&[annotation::FLOATING_NETWORK_ID]) && !floating.is_in(&wanted.network_id) {
        return Ok(Some(format!(
            "floating-network-id is {}, but floating IP {address} is in network {network}: delete it to get one in the other network",
            wanted.network_id
        )));
    }

    let keys = [
        annotation::FLOATING_SUBNET_ID,
        annotation::FLOATING_SUBNET,
        annotation::FLOATING_SUBNET_TAGS,
    ];
    if !selects(&keys) || !wanted.subnet.is_set() {
        return Ok(None);
    }

    if is_in_subnet(cloud, floating, &wanted.subnet)? {
        return Ok(None);
    }
    Ok(Some(format!(
        "floating IP {address} is not in the subnet that the Service selects: delete it to get one in that subnet"
    )))
}

/// Replaces a floating IP by the one that the Service requests, if that is free. Otherwise, the
/// Service keeps its address, and an event tells why.
fn replace(context: Context<'_>, balancer: &LoadBalancer, current: &FloatingIp) -> Result<String> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let keep = |why: &str| {
        let message = not_used(desired, current, why);
        warn_once(cloud, service, ADDRESS_IGNORED, &message);
        Ok(current.floating_ip_address.clone())
    };

    let requested = match with_address(cloud, &desired.floating.address)? {
        None => return keep("no floating IP of the project has the requested one"),
        Some(requested) if !is_free(&requested) => return keep("the requested one is in use"),
        Some(requested) => requested,
    };
    warn_once(cloud, service, ADDRESS_IGNORED, "");

    // A port can have only one.
    let deletes = is_ours(current) && !desired.floating.keep;
    let (mark, unmark) = if deletes {
        (Map::new(), Map::new())
    } else {
        (mark_kept(current), described(current, &current.description))
    };
    detach(cloud, current, mark)?;

    let port = balancer.vip_port_id.as_deref().unwrap_or_default();
    let address = attach(cloud, service, &requested, port)
        .map_err(|error| attach_again(cloud, current, port, unmark, error))?;

    if deletes && let Some(previous) = still_free(cloud, current)? {
        remove(cloud, &previous)?;
    }
    Ok(address)
}

/// Attaches a detached floating IP again, with another change, so that the Service does not lose its
/// address because of an error. Returns that error.
fn attach_again(
    cloud: &Cloud<'_>,
    previous: &FloatingIp,
    port: &str,
    change: Map<String, Value>,
    error: CloudError,
) -> CloudError {
    let attached = still_free(cloud, previous).and_then(|free| {
        free.map(|free| attach_with(cloud, &free, port, change))
            .transpose()
    });
    match attached {
        Ok(_) => error,
        Err(second) => second.about(error.message()),
    }
}

/// Attaches the address that the Service requests, or creates a floating IP. Returns `None` if
/// there is no network for it.
fn create_or_attach(context: Context<'_>, balancer: &LoadBalancer) -> Result<Option<String>> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let port = balancer.vip_port_id.as_deref().unwrap_or_default();
    let address = match attach_existing(context, port)? {
        Some(address) => Some(address),
        None => create_in_one_of(context, &networks(cloud, &desired.floating)?, port)?,
    };

    let message = if address.is_some() {
        String::new()
    } else {
        format!(
            "No external network has floating IPs, so the load balancer of {}/{} is internal: set `floating-network-id` or annotation {}",
            service.namespace,
            service.name,
            annotation::FLOATING_NETWORK_ID
        )
    };
    warn_once(cloud, service, FORCED_INTERNAL, &message);
    Ok(address)
}

/// Attaches the floating IP with the requested address, or one that was the address of the Service.
/// Returns `None` if there is none.
fn attach_existing(context: Context<'_>, port: &str) -> Result<Option<String>> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let FloatingIpSettings {
        network_id,
        address,
        ..
    } = &desired.floating;
    if !address.is_empty() {
        // An address that does not exist yet is requested when the floating IP is created.
        let Some(floating) = with_address(cloud, address)? else {
            return Ok(None);
        };
        if !is_free(&floating) {
            return Err(CloudError::unavailable(format!(
                "floating IP {address} (loadBalancerIP) is already in use"
            )));
        }
        return attach(cloud, service, &floating, port).map(Some);
    }

    let detached = detached(cloud, service)?;
    let Some(floating) = detached.iter().find(|floating| floating.is_in(network_id)) else {
        return Ok(None);
    };

    // The load balancer was deleted without it, or it was detached: the Service does not lose its
    // address.
    let description = names::floating_ip(cloud.cluster, service);
    let change = [("description".to_owned(), json!(description))];
    let is_marked = floating.description != description;
    let change = change.into_iter().filter(|_| is_marked).collect();
    attach_with(cloud, floating, port, change).map(Some)
}

/// Creates a floating IP in the first of these networks to which the router of the load balancer
/// leads. Returns `None` if there are none.
fn create_in_one_of(
    context: Context<'_>,
    networks: &[String],
    port: &str,
) -> Result<Option<String>> {
    let Context { cloud, desired, .. } = context;
    let is_searched = desired.floating.network_id.is_empty();
    let mut unreachable = None;

    for network in networks {
        match create_in(context, network, port) {
            // The router of the load balancer does not lead to this network.
            Err(error @ CloudError::NotFound(_)) => {
                unreachable.get_or_insert(error);
            }
            created => {
                if is_searched && created.is_ok() {
                    let key = external_key(cloud)?;
                    cloud.host.cache(&key, network.as_bytes(), CACHED);
                }
                return created.map(Some);
            }
        }
    }

    // The cached network cannot be reached, so the next call searches all of them.
    if is_searched {
        cloud.host.uncache(&external_key(cloud)?);
    }
    unreachable.map_or(Ok(None), Err)
}

/// Creates a floating IP in this network.
fn create_in(context: Context<'_>, network: &str, port: &str) -> Result<String> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let FloatingIpSettings {
        subnet, address, ..
    } = &desired.floating;

    let description = names::floating_ip(cloud.cluster, service);
    let mut floating: Map<String, Value> = [
        ("floating_network_id", network),
        ("port_id", port),
        ("description", &description),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), json!(value)))
    .collect();

    if address.is_empty() && subnet.is_pattern() {
        return create_in_subnets(context, network, &floating);
    }

    for (key, value) in [("subnet_id", &subnet.id), ("floating_ip_address", address)] {
        if !value.is_empty() {
            floating.insert(key.to_owned(), json!(value));
        }
    }
    create(cloud, &floating)
}

/// Attaches an existing floating IP. Unless it already is the address of this Service, somebody has
/// kept it, maybe with another provider, which does not mark it: it is marked, and so not deleted
/// with the Service that selects it.
fn attach(
    cloud: &Cloud<'_>,
    service: &Service,
    floating: &FloatingIp,
    port: &str,
) -> Result<String> {
    let change = if is_left_by(service, cloud, floating) {
        Map::new()
    } else {
        mark_kept(floating)
    };
    attach_with(cloud, floating, port, change)
}

/// Tries the matching subnets one after the other until one has a free address.
fn create_in_subnets(
    context: Context<'_>,
    network: &str,
    floating: &Map<String, Value>,
) -> Result<String> {
    let Context { cloud, desired, .. } = context;
    let mut last = CloudError::not_found(format!(
        "no subnet of network {network} matches the floating IP subnet of the Service or the configuration"
    ));

    for subnet in matching(cloud, &desired.floating.subnet, network)? {
        let mut floating = floating.clone();
        floating.insert("subnet_id".to_owned(), json!(subnet.id));
        match create(cloud, &floating) {
            Err(error) if is_exhausted(&error) => last = error,
            created => return created,
        }
    }
    Err(last)
}

/// Deletes the floating IP of a load balancer that its Service leaves, if it was created for it, or
/// marks it as kept.
pub(super) fn release(cloud: &Cloud<'_>, load_balancer: &LoadBalancer, keep: bool) -> Result<()> {
    match attached(cloud, load_balancer)?.filter(is_ours) {
        Some(floating) if keep => {
            let what = format!(
                "cannot mark floating IP {} as kept",
                floating.floating_ip_address
            );
            update(cloud, &floating, &mark_kept(&floating), what)
        }
        Some(floating) => remove(cloud, &floating),
        None => Ok(()),
    }
}

/// Deletes floating IPs that were created for this Service and are not attached, because their load
/// balancer was deleted without them.
pub(super) fn delete_unattached(cloud: &Cloud<'_>, service: &Service) -> Result<()> {
    unattached(cloud, service)?
        .iter()
        .try_for_each(|floating| remove(cloud, floating))
}

/// Returns the floating IPs that were created for this Service, were its address, and are not
/// attached. Others with the same description may have been kept on purpose by an earlier Service
/// with this name, which upstream does not mark.
pub(super) fn unattached(cloud: &Cloud<'_>, service: &Service) -> Result<Vec<FloatingIp>> {
    if addresses(service).is_empty() {
        return Ok(Vec::new());
    }
    let mut found = with_description(cloud, &names::floating_ip(cloud.cluster, service))?;
    found.retain(|floating| is_left_by(service, cloud, floating));
    Ok(found)
}

/// Returns the floating IPs that were the address of this Service and are not attached, including
/// one that was kept while the Service was internal.
fn detached(cloud: &Cloud<'_>, service: &Service) -> Result<Vec<FloatingIp>> {
    let mut found = unattached(cloud, service)?;
    if had_address(service) {
        let kept = names::floating_ip_kept_by(cloud.cluster, service);
        found.extend(with_description(cloud, &kept)?.into_iter().filter(is_free));
    }
    Ok(found)
}
