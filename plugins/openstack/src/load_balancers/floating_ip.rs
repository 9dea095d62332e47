//! The floating IP of a load balancer.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, IpFamily, Service},
};

use crate::{
    cloud::{CACHED, Cloud, Kind},
    host_functions::Event,
    load_balancers::{
        Context, annotation,
        desired_load_balancer::{DesiredLoadBalancer, FloatingIpSettings, SubnetSpec},
        had_address,
        members::subnet,
        names,
        observed_load_balancer::Ownership,
        warn_once,
    },
    services::{
        network::{FloatingIp, Network, Subnet},
        octavia::LoadBalancer,
    },
};

/// The reason of the event about a request for another floating IP.
const ADDRESS_IGNORED: &str = "LoadBalancerFloatingIPKept";

#[derive(Deserialize)]
struct Answer {
    floatingip: FloatingIp,
}

#[derive(Deserialize)]
struct SubnetAnswer {
    subnet: Subnet,
}

/// The action for a floating IP.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision<'a> {
    /// Use the load balancer's own address.
    Vip,
    /// Use this floating IP.
    Keep(&'a FloatingIp),
    /// Use the requested address instead of this floating IP.
    Replace(&'a FloatingIp),
    /// Delete this floating IP.
    Delete(&'a FloatingIp),
    /// Detach this floating IP without deleting it.
    Detach(&'a FloatingIp),
    /// Create or attach a floating IP.
    Create,
    /// A floating IP is required, but only the owner of the load balancer may add it.
    OwnersOnly,
    /// The floating IP is not wanted, but it is also the address of other Services.
    OfOthers,
    /// A floating IP is required, but other Services that share the load balancer are internal.
    Exposes,
}

/// Decides what happens to the floating IP. `had_one` is true if the Service has had an address that
/// is not the load balancer's own.
fn decide<'a>(
    desired: &DesiredLoadBalancer,
    ownership: &Ownership,
    attached: Option<&'a FloatingIp>,
    had_one: bool,
) -> Decision<'a> {
    match attached {
        Some(_) if desired.internal && ownership.is_shared() => Decision::OfOthers,
        Some(floating) if desired.internal && is_ours(floating) && !desired.floating.keep => {
            Decision::Delete(floating)
        }
        Some(floating) if desired.internal => Decision::Detach(floating),
        Some(floating)
            if is_other(desired, floating) && ownership.owner && !ownership.is_shared() =>
        {
            Decision::Replace(floating)
        }
        Some(floating) => Decision::Keep(floating),
        None if desired.internal => Decision::Vip,
        None if ownership.owner && ownership.is_shared() && !had_one => Decision::Exposes,
        None if ownership.owner => Decision::Create,
        // A floating IP would make an internal Service on the same load balancer reachable from
        // outside.
        None => Decision::OwnersOnly,
    }
}

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
        (true, Some(_)) => Err(of_others(balancer)),
        (false, None) => Err(owners_only(balancer)),
        (true, None) | (false, Some(_)) => Ok(()),
    }
}

fn owners_only(balancer: &LoadBalancer) -> CloudError {
    CloudError::unavailable(format!(
        "load balancer {} has no floating IP, and only the Service that it was created for can add one",
        balancer.id
    ))
}

fn of_others(balancer: &LoadBalancer) -> CloudError {
    CloudError::unavailable(format!(
        "an internal Service cannot share load balancer {}: its floating IP is the address of other Services, too",
        balancer.id
    ))
}

/// Returns true if the floating IP was created for a Service, by this provider or by upstream, and
/// is not kept.
fn is_ours(floating: &FloatingIp) -> bool {
    floating.description.contains(names::FLOATING_IP_MARK)
        && !floating.description.starts_with(names::KEPT_MARK)
}

/// Returns the floating IP attached to the port of a load balancer.
pub(super) fn attached(
    cloud: &Cloud<'_>,
    load_balancer: &LoadBalancer,
) -> Result<Option<FloatingIp>> {
    let Some(port) = load_balancer
        .vip_port_id
        .as_deref()
        .filter(|port| !port.is_empty())
    else {
        return Ok(None);
    };

    // Neutron has no floating IPs for IPv6.
    if is_v6(load_balancer) {
        return Ok(None);
    }

    let mut found: Vec<FloatingIp> =
        cloud.list(Kind::Network, "/floatingips", vec![("port_id", port)])?;
    found.retain(|floating| floating.port_id.as_deref() == Some(port));

    // A port can have several addresses, with a floating IP each.
    Ok(found
        .into_iter()
        .min_by_key(|floating| floating.fixed_ip_address != load_balancer.vip_address))
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
    let mut addresses: Vec<&str> = ingress
        .iter()
        .filter_map(|ingress| ingress.ip.as_deref())
        .collect();

    // The status has only a host name.
    if addresses.is_empty() && !ingress.is_empty() {
        addresses.push(annotation::text(
            service,
            annotation::LOAD_BALANCER_ADDRESS,
            "",
        ));
    }

    addresses.retain(|address| !address.is_empty());
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
    let is_settled = matches!(decision, Decision::Keep(_) | Decision::Create);

    let address = match decision {
        Decision::Vip => Ok(vip),
        Decision::Keep(floating) => {
            let message = if is_other(desired, floating) {
                not_used(
                    desired,
                    floating,
                    "it is also the address of other Services",
                )
            } else {
                other_network(context, floating)?
            };
            warn_once(cloud, service, ADDRESS_IGNORED, &message);
            Ok(floating.floating_ip_address.clone())
        }
        Decision::Replace(floating) => replace(context, balancer, floating),
        Decision::Delete(floating) => remove(cloud, floating).map(|()| vip),
        Decision::Detach(floating) => {
            let kept_by = names::floating_ip_kept_by(cloud.cluster, service);
            detach(cloud, floating, described(floating, &kept_by)).map(|()| vip)
        }
        Decision::OwnersOnly => Err(owners_only(balancer)),
        Decision::OfOthers => Err(of_others(balancer)),
        Decision::Exposes => Err(CloudError::unavailable(format!(
            "load balancer {} gets no floating IP: it would be the address of the internal Services that share it, too",
            balancer.id
        ))),
        Decision::Create => Ok(create_or_attach(context, balancer)?.unwrap_or(vip)),
    }?;

    // If the replacement of a floating IP was interrupted, the previous one is still there.
    let is_requested = !desired.floating.keep && desired.floating.address == address;
    if is_settled && is_requested && had_other_address(service, &address) {
        delete_unattached(cloud, service)?;
    }
    Ok(address)
}

/// Returns true if the Service requests another address than that of this floating IP.
fn is_other(desired: &DesiredLoadBalancer, floating: &FloatingIp) -> bool {
    let wanted = &desired.floating.address;
    !wanted.is_empty() && *wanted != floating.floating_ip_address
}

fn not_used(desired: &DesiredLoadBalancer, current: &FloatingIp, why: &str) -> String {
    format!(
        "loadBalancerIP is {}, but the address stays {}: {why}",
        desired.floating.address, current.floating_ip_address
    )
}

/// Returns a message if the Service selects another network or subnet than that of its floating IP, or
/// an empty one. Defaults of `cloud.conf` are meant for new floating IPs.
fn other_network(context: Context<'_>, floating: &FloatingIp) -> Result<String> {
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
        return Ok(String::new());
    }

    if selects(&[annotation::FLOATING_NETWORK_ID]) && !floating.is_in(&wanted.network_id) {
        return Ok(format!(
            "floating-network-id is {}, but floating IP {address} is in network {network}: delete it to get one in the other network",
            wanted.network_id
        ));
    }

    let keys = [
        annotation::FLOATING_SUBNET_ID,
        annotation::FLOATING_SUBNET,
        annotation::FLOATING_SUBNET_TAGS,
    ];
    if !selects(&keys) || !wanted.subnet.is_set() {
        return Ok(String::new());
    }

    if is_in_subnet(cloud, floating, &wanted.subnet)? {
        return Ok(String::new());
    }
    Ok(format!(
        "floating IP {address} is not in the subnet that the Service selects: delete it to get one in that subnet"
    ))
}

/// Returns false if a floating IP is known to be in none of the subnets that match.
fn is_in_subnet(cloud: &Cloud<'_>, floating: &FloatingIp, spec: &SubnetSpec) -> Result<bool> {
    let address = &floating.floating_ip_address;
    let key = format!("{address} in {spec:?}");
    if let Some(cached) = cloud.host.cached(&key) {
        return Ok(cached == [1]);
    }

    let subnets = if spec.id.is_empty() {
        matching(cloud, spec, &floating.floating_network_id)?
    } else {
        subnet::known(cloud, &spec.id)?.into_iter().collect()
    };

    let ip: Option<IpAddr> = address.parse().ok();
    let holds = |subnet: &Subnet| {
        let net: Option<IpNet> = subnet.cidr.parse().ok();
        net.zip(ip).is_none_or(|(net, ip)| net.contains(&ip))
    };

    // Neutron may not show a subnet that exists.
    let is_there = subnets.is_empty() || subnets.iter().any(holds);
    cloud.host.cache(&key, &[u8::from(is_there)], CACHED);
    Ok(is_there)
}

/// Returns the subnets of a network that match.
fn matching(cloud: &Cloud<'_>, spec: &SubnetSpec, network: &str) -> Result<Vec<Subnet>> {
    let tags = spec.tag_filter();
    let mut query = vec![("network_id", network)];
    query.extend(tags.as_ref().map(|(name, tags)| (*name, tags.as_str())));
    let subnets: Vec<Subnet> = cloud.list(Kind::Network, "/subnets", query)?;
    let mut matching = Vec::new();

    for subnet in subnets {
        if subnet.ip_version != 6 && spec.fits(&subnet.name).map_err(CloudError::invalid)? {
            matching.push(subnet);
        }
    }
    Ok(matching)
}

/// Replaces a floating IP by the one that the Service requests, if that is free. Otherwise, the
/// Service keeps its address, and an event tells why.
fn replace(context: Context<'_>, balancer: &LoadBalancer, current: &FloatingIp) -> Result<String> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let requested = with_address(cloud, &desired.floating.address)?;
    let why = match &requested {
        None => "no floating IP of the project has the requested one",
        Some(floating) if !is_free(floating) => "the requested one is in use",
        Some(_) => "",
    };

    let message = if why.is_empty() {
        String::new()
    } else {
        not_used(desired, current, why)
    };
    warn_once(cloud, service, ADDRESS_IGNORED, &message);

    let Some(requested) = requested.filter(is_free) else {
        return Ok(current.floating_ip_address.clone());
    };

    // A port can have only one.
    let deletes = is_ours(current) && !desired.floating.keep;
    let mark = if deletes {
        Map::new()
    } else {
        mark_kept(current)
    };
    detach(cloud, current, mark)?;

    let port = balancer.vip_port_id.clone().unwrap_or_default();
    let address = match attach(cloud, service, &requested, &port) {
        Ok(address) => address,
        Err(error) => {
            // The Service does not lose its address. Its revision has changed.
            let back = FloatingIp {
                revision_number: None,
                ..current.clone()
            };
            let change = [("port_id".to_owned(), json!(port))].into_iter().collect();
            let what = format!("cannot attach floating IP {}", current.floating_ip_address);
            return update(cloud, &back, &change, what).and(Err(error));
        }
    };

    if deletes {
        remove(cloud, current)?;
    }
    Ok(address)
}

pub(super) fn with_address(cloud: &Cloud<'_>, address: &str) -> Result<Option<FloatingIp>> {
    let query = vec![("floating_ip_address", address)];
    let found: Vec<FloatingIp> = cloud.list(Kind::Network, "/floatingips", query)?;
    Ok(found
        .into_iter()
        .find(|floating| floating.floating_ip_address == *address))
}

fn is_free(floating: &FloatingIp) -> bool {
    floating.port_id.as_deref().unwrap_or_default().is_empty()
}

/// Detaches a floating IP, with another change.
fn detach(cloud: &Cloud<'_>, floating: &FloatingIp, mut change: Map<String, Value>) -> Result<()> {
    let what = format!("cannot detach floating IP {}", floating.floating_ip_address);
    change.insert("port_id".to_owned(), Value::Null);
    update(cloud, floating, &change, what)
}

/// Attaches the address that the Service requests, or creates a floating IP. Returns `None` if
/// there is no network for it.
fn create_or_attach(context: Context<'_>, balancer: &LoadBalancer) -> Result<Option<String>> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let port = balancer.vip_port_id.clone().unwrap_or_default();
    if let Some(address) = attach_existing(context, &port)? {
        return Ok(Some(address));
    }

    let networks = networks(cloud, service, &desired.floating)?;
    if networks.is_empty() {
        let message = format!(
            "No floating network is configured, so the load balancer of {}/{} is internal",
            service.namespace, service.name
        );
        cloud.host.publish(
            service,
            &Event::warning("LoadBalancerForcedInternal", message),
        );
        return Ok(None);
    }

    create_in_one_of(context, &networks, &port)
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

/// Returns the networks in which the floating IP can be created.
fn networks(
    cloud: &Cloud<'_>,
    service: &Service,
    settings: &FloatingIpSettings,
) -> Result<Vec<String>> {
    let FloatingIpSettings {
        network_id, subnet, ..
    } = settings;
    match network_of(cloud, &subnet.id)? {
        Some(network) if network_id.is_empty() || *network_id == network => Ok(vec![network]),
        Some(_) => Err(CloudError::invalid(format!(
            "subnet {} of the floating IP is not in network {network_id}",
            subnet.id
        ))),
        None if network_id.is_empty() => external_networks(cloud, service),
        None => Ok(vec![network_id.clone()]),
    }
}

/// Creates a floating IP in the first of these networks to which the router of the load balancer
/// leads.
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

    let mut body = json!({
        "floating_network_id": network,
        "port_id": port,
        "description": names::floating_ip(cloud.cluster, service),
    });

    if address.is_empty() && subnet.is_pattern() {
        return create_in_subnets(context, network, &body);
    }

    let mut set = |key: &str, value: &str| {
        if let Some(body) = body.as_object_mut().filter(|_| !value.is_empty()) {
            body.insert(key.to_owned(), json!(value));
        }
    };
    set("subnet_id", &subnet.id);
    set("floating_ip_address", address);
    create(cloud, &body)
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
    let change = if is_unattached(cloud, service, floating) {
        Map::new()
    } else {
        mark_kept(floating)
    };
    attach_with(cloud, floating, port, change)
}

/// Attaches a floating IP, with another change.
fn attach_with(
    cloud: &Cloud<'_>,
    floating: &FloatingIp,
    port: &str,
    mut change: Map<String, Value>,
) -> Result<String> {
    change.insert("port_id".to_owned(), json!(port));
    update(
        cloud,
        floating,
        &change,
        format!("cannot attach floating IP {}", floating.floating_ip_address),
    )?;
    Ok(floating.floating_ip_address.clone())
}

/// Tries the matching subnets one after the other until one has a free address.
fn create_in_subnets(context: Context<'_>, network: &str, body: &Value) -> Result<String> {
    let Context { cloud, desired, .. } = context;
    let mut last = CloudError::not_found(format!(
        "no subnet of network {network} matches the floating IP subnet of the Service or the configuration"
    ));

    for subnet in matching(cloud, &desired.floating.subnet, network)? {
        let mut body = body.clone();
        if let Some(body) = body.as_object_mut() {
            body.insert("subnet_id".to_owned(), json!(subnet.id));
        }

        match create(cloud, &body) {
            Ok(address) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn create(cloud: &Cloud<'_>, body: &Value) -> Result<String> {
    let request = cloud.request(
        Method::Post,
        Kind::Network,
        "/floatingips",
        "cannot create a floating IP",
    )?;
    let created: Answer = request.json(&json!({"floatingip": body}))?.send()?.json()?;
    Ok(created.floatingip.floating_ip_address)
}

/// Returns the network of the configured subnet, or `None` if none is configured.
fn network_of(cloud: &Cloud<'_>, subnet: &str) -> Result<Option<String>> {
    if subnet.is_empty() {
        return Ok(None);
    }

    let what = "cannot read the floating IP's subnet";
    let path = format!("/subnets/{}", skydock_sdk::http::segment(subnet)?);
    let answer: SubnetAnswer = cloud.get(Kind::Network, &path, what)?;
    Ok(Some(answer.subnet.network_id))
}

fn external_key(cloud: &Cloud<'_>) -> Result<String> {
    Ok(format!(
        "external network {}",
        cloud.url(Kind::Network, "")?
    ))
}

/// Returns the external networks with an IPv4 subnet, or with a subnet that is not visible, or only
/// the one in which a floating IP was created.
fn external_networks(cloud: &Cloud<'_>, service: &Service) -> Result<Vec<String>> {
    let cached = cloud.host.cached(&external_key(cloud)?);
    if let Some(cached) = cached.and_then(|cached| String::from_utf8(cached).ok()) {
        return Ok(vec![cached]);
    }

    let networks: Vec<Network> = cloud.list(
        Kind::Network,
        "/networks",
        vec![("router:external", "true")],
    )?;

    let ids: Vec<(&str, &str)> = networks
        .iter()
        .map(|network| ("network_id", network.id.as_str()))
        .collect();
    let subnets: Vec<Subnet> = if ids.is_empty() {
        Vec::new()
    } else {
        cloud.list(Kind::Network, "/subnets", ids)?
    };

    let fits = |network: &&Network| {
        let version = |id: &String| {
            subnets
                .iter()
                .find(|subnet| subnet.id == *id)
                .map(|subnet| subnet.ip_version)
        };
        network.external
            && network
                .subnets
                .iter()
                .any(|id| version(id).is_none_or(|version| version == 4))
    };

    let found: Vec<String> = networks
        .iter()
        .filter(fits)
        .map(|network| network.id.clone())
        .collect();

    if found.is_empty() {
        let message = format!(
            "No external network for a floating IP: set `floating-network-id` or annotation {}",
            annotation::FLOATING_NETWORK_ID
        );
        cloud.host.publish(
            service,
            &Event::warning("LoadBalancerExternalNetworkSearchFailed", message),
        );
    }
    Ok(found)
}

/// Changes a floating IP unless it was changed since it was read: two Services may request the same
/// address.
fn update(
    cloud: &Cloud<'_>,
    floating: &FloatingIp,
    change: &Map<String, Value>,
    what: String,
) -> Result<()> {
    let request = cloud.request(
        Method::Put,
        Kind::Network,
        &format!("/floatingips/{}", floating.id),
        what,
    )?;
    request
        .if_revision(floating.revision_number)
        .json(&json!({"floatingip": change}))?
        .send()
        .map(|_| ())
}

/// Returns the change that marks a floating IP created for a Service as kept, so that it is not
/// deleted with a later Service that uses it.
fn mark_kept(floating: &FloatingIp) -> Map<String, Value> {
    described(floating, &names::kept_floating_ip(&floating.description))
}

/// Returns the change that sets the description of a floating IP created for a Service.
fn described(floating: &FloatingIp, description: &str) -> Map<String, Value> {
    let mark = ("description".to_owned(), json!(description));
    is_ours(floating).then_some(mark).into_iter().collect()
}

fn remove(cloud: &Cloud<'_>, floating: &FloatingIp) -> Result<()> {
    let what = format!("cannot delete floating IP {}", floating.floating_ip_address);
    let request = cloud.request(
        Method::Delete,
        Kind::Network,
        &format!("/floatingips/{}", floating.id),
        what,
    )?;
    request.send_for("NeutronError").map(|_| ())
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
    found.retain(|floating| is_unattached(cloud, service, floating));
    Ok(found)
}

/// Returns the floating IPs that were the address of this Service and are not attached, including
/// one that was kept while the Service was internal.
fn detached(cloud: &Cloud<'_>, service: &Service) -> Result<Vec<FloatingIp>> {
    let mut found = unattached(cloud, service)?;
    if had_address(service) {
        let cached = names::floating_ip_kept_by(cloud.cluster, service);
        found.extend(
            with_description(cloud, &cached)?
                .into_iter()
                .filter(is_free),
        );
    }
    Ok(found)
}

/// Returns the floating IPs with this description.
fn with_description(cloud: &Cloud<'_>, description: &str) -> Result<Vec<FloatingIp>> {
    let query = vec![("description", description)];
    let mut found: Vec<FloatingIp> = match cloud.list(Kind::Network, "/floatingips", query) {
        // Neutron does not support this filter.
        Err(CloudError::Invalid(_)) => Vec::new(),
        other => other?,
    };
    found.retain(|floating| floating.description == description);
    Ok(found)
}

fn is_unattached(cloud: &Cloud<'_>, service: &Service, floating: &FloatingIp) -> bool {
    floating.description == names::floating_ip(cloud.cluster, service)
        && is_free(floating)
        && addresses(service).contains(&floating.floating_ip_address.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floating(description: &str) -> FloatingIp {
        FloatingIp {
            id: "f".to_owned(),
            description: description.to_owned(),
            ..FloatingIp::default()
        }
    }

    fn desired(internal: bool, keep: bool) -> DesiredLoadBalancer {
        DesiredLoadBalancer {
            internal,
            floating: FloatingIpSettings {
                keep,
                ..FloatingIpSettings::default()
            },
            ..DesiredLoadBalancer::default()
        }
    }

    fn owner(owner: bool) -> Ownership {
        Ownership {
            owner,
            ..Ownership::default()
        }
    }

    #[test]
    fn only_the_owner_creates_a_floating_ip() {
        assert_eq!(
            decide(&desired(false, false), &owner(true), None, false),
            Decision::Create
        );
        assert_eq!(
            decide(&desired(false, false), &owner(false), None, false),
            Decision::OwnersOnly
        );
        assert_eq!(
            decide(&desired(true, false), &owner(true), None, false),
            Decision::Vip
        );
    }

    #[test]
    fn an_external_service_keeps_an_attached_floating_ip() {
        let other = floating("mine");
        assert_eq!(
            decide(&desired(false, false), &owner(true), Some(&other), false),
            Decision::Keep(&other)
        );
        assert_eq!(
            decide(&desired(false, false), &owner(false), Some(&other), false),
            Decision::Keep(&other)
        );
    }

    #[test]
    fn an_internal_service_deletes_only_its_own_floating_ip() {
        let ours = floating("Floating IP for Kubernetes external service a/b from cluster c");
        let other = floating("mine");
        assert_eq!(
            decide(&desired(true, false), &owner(true), Some(&ours), false),
            Decision::Delete(&ours)
        );
        assert_eq!(
            decide(&desired(true, true), &owner(true), Some(&ours), false),
            Decision::Detach(&ours)
        );
        assert_eq!(
            decide(&desired(true, false), &owner(true), Some(&other), false),
            Decision::Detach(&other)
        );

        let cached = floating(&names::kept_floating_ip(&ours.description));
        assert_eq!(
            decide(&desired(true, false), &owner(true), Some(&cached), false),
            Decision::Detach(&cached)
        );
    }

    /// Only internal Services can share a load balancer without a floating IP.
    #[test]
    fn an_owner_does_not_expose_internal_services() {
        let shared = Ownership {
            attached: true,
            services: 2,
            ..owner(true)
        };
        assert_eq!(
            decide(&desired(false, false), &shared, None, false),
            Decision::Exposes
        );

        // Somebody detached it, so the others are not internal.
        assert_eq!(
            decide(&desired(false, false), &shared, None, true),
            Decision::Create
        );
    }

    #[test]
    fn an_internal_owner_does_not_take_the_address_of_others() {
        let ours = floating("Floating IP for Kubernetes external service a/b from cluster c");
        let shared = Ownership {
            attached: true,
            services: 2,
            ..owner(true)
        };
        assert_eq!(
            decide(&desired(true, false), &shared, Some(&ours), false),
            Decision::OfOthers
        );

        // Another Service cannot use a load balancer without a floating IP, so it does not affect
        // the owner.
        assert_eq!(
            decide(&desired(true, false), &shared, None, false),
            Decision::Vip
        );
    }
}
