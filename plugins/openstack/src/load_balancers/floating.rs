//! The floating IP of a load balancer.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Value, json};
use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, Service},
};

use super::{
    annotation, names,
    tree::Ownership,
    want::{Floating, Want},
};
use crate::{
    cloud::{BELIEVED, Cloud, Kind},
    host::Event,
    network::{FloatingIp, Network, Subnet},
    octavia::LoadBalancer,
};

#[derive(Deserialize)]
struct Answer {
    floatingip: FloatingIp,
}

#[derive(Deserialize)]
struct SubnetAnswer {
    subnet: Subnet,
}

/// What is to be done about a floating IP.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision<'a> {
    /// The load balancer's own address is the Service's.
    Vip,
    /// This one is.
    Keep(&'a FloatingIp),
    /// This one is to go: deleted, or only taken off.
    Remove { floating: &'a FloatingIp, delete: bool },
    /// One is to come: this address, or any.
    Make,
    /// One would be needed, and is not this Service's to make.
    OwnersOnly,
}

fn decide<'a>(want: &Want, owner: bool, attached: Option<&'a FloatingIp>) -> Decision<'a> {
    match attached {
        Some(floating) if want.internal => {
            let delete = is_ours(floating) && !want.floating.keep;
            Decision::Remove { floating, delete }
        }
        Some(floating) => Decision::Keep(floating),
        None if want.internal => Decision::Vip,
        None if owner => Decision::Make,
        // On an internal Service's load balancer it would show that one to the world.
        None => Decision::OwnersOnly,
    }
}

/// True if it was made for a Service, by this provider or upstream.
fn is_ours(floating: &FloatingIp) -> bool {
    floating.description.contains(names::FLOATING_IP_MARK)
}

/// The floating IP on the port of a load balancer.
pub(super) fn attached(cloud: &Cloud<'_>, load_balancer: &LoadBalancer) -> Result<Option<FloatingIp>> {
    let Some(port) = load_balancer.vip_port_id.as_deref().filter(|port| !port.is_empty()) else { return Ok(None) };
    // Neutron has none for IPv6.
    if is_v6(load_balancer) {
        return Ok(None);
    }
    let found: Vec<FloatingIp> = cloud.list(Kind::Network, "/floatingips", vec![("port_id", port)])?;
    Ok(found.into_iter().next())
}

fn is_v6(load_balancer: &LoadBalancer) -> bool {
    load_balancer.vip_address.as_deref().and_then(|address| address.parse().ok()).is_some_and(|ip: IpAddr| ip.is_ipv6())
}

/// Sees to the floating IP; answers the address of the Service.
pub(super) fn ensure(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<String> {
    let vip = balancer.vip_address.clone().unwrap_or_default();
    if is_v6(balancer) {
        if !want.internal && service.status.ingress.is_empty() {
            let message = format!("There are no floating IPs for IPv6: the load balancer's own address {vip} is used");
            cloud.host.tell(service, &Event::warning("LoadBalancerFloatingIPSkipped", message));
        }
        return Ok(vip);
    }
    let attached = attached(cloud, balancer)?;
    match decide(want, ownership.owner, attached.as_ref()) {
        Decision::Vip => Ok(vip),
        Decision::Keep(floating) => Ok(floating.floating_ip_address.clone()),
        Decision::Remove { floating, delete } => {
            if delete {
                remove(cloud, floating)?;
            } else {
                attach(cloud, floating, None)?;
            }
            Ok(vip)
        }
        Decision::OwnersOnly => Err(CloudError::unavailable(format!(
            "load balancer {} has no floating IP, and only the Service it was made for can give it one",
            balancer.id
        ))),
        Decision::Make => Ok(make(cloud, service, want, balancer)?.unwrap_or(vip)),
    }
}

/// Attaches the address the Service names, or makes a floating IP; none if there is no network for it.
fn make(cloud: &Cloud<'_>, service: &Service, want: &Want, balancer: &LoadBalancer) -> Result<Option<String>> {
    let Floating { network_id, subnet, address, .. } = &want.floating;
    let port = balancer.vip_port_id.clone().unwrap_or_default();
    if !address.is_empty() {
        let query = vec![("floating_ip_address", address.as_str())];
        let found: Vec<FloatingIp> = cloud.list(Kind::Network, "/floatingips", query)?;
        if let Some(floating) = found.first() {
            if floating.port_id.as_deref().is_some_and(|port| !port.is_empty()) {
                return Err(CloudError::unavailable(format!(
                    "floating IP {address} (loadBalancerIP) is in use elsewhere"
                )));
            }
            attach(cloud, floating, Some(&port))?;
            return Ok(Some(address.clone()));
        }
    }
    let network = if network_id.is_empty() { external_network(cloud, service)? } else { Some(network_id.clone()) };
    let Some(network) = network else {
        let message = format!(
            "No floating network is configured: the load balancer of {}/{} is internal",
            service.namespace, service.name
        );
        cloud.host.tell(service, &Event::warning("LoadBalancerForcedInternal", message));
        return Ok(None);
    };
    let mut body = json!({
        "floating_network_id": network,
        "port_id": port,
        "description": names::floating_ip(cloud.cluster, service),
    });
    if address.is_empty() && subnet.is_pattern() {
        return in_one_of(cloud, want, &network, &body).map(Some);
    }
    let mut set = |key: &str, value: &str| {
        if let Some(body) = body.as_object_mut().filter(|_| !value.is_empty()) {
            body.insert(key.to_owned(), json!(value));
        }
    };
    if !subnet.id.is_empty() {
        check_subnet(cloud, &subnet.id, &network)?;
    }
    set("subnet_id", &subnet.id);
    set("floating_ip_address", address);
    create(cloud, &body).map(Some)
}

/// Tries the subnets that fit one after the other, until one has an address.
fn in_one_of(cloud: &Cloud<'_>, want: &Want, network: &str, body: &Value) -> Result<String> {
    let spec = &want.floating.subnet;
    let tags = spec.tag_filter();
    let mut query = vec![("network_id", network)];
    query.extend(tags.as_ref().map(|(name, tags)| (*name, tags.as_str())));
    let subnets: Vec<Subnet> = cloud.list(Kind::Network, "/subnets", query)?;
    let mut last = CloudError::not_found(format!(
        "no subnet of network {network} fits what the Service or the configuration says of the floating IP's subnet"
    ));
    for subnet in subnets {
        if subnet.ip_version == 6 || !spec.fits(&subnet.name).map_err(CloudError::invalid)? {
            continue;
        }
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
    let ask = cloud.ask(Method::Post, Kind::Network, "/floatingips", "cannot make a floating IP")?;
    let made: Answer = ask.json(&json!({"floatingip": body}))?.send()?.json()?;
    Ok(made.floatingip.floating_ip_address)
}

fn check_subnet(cloud: &Cloud<'_>, id: &str, network: &str) -> Result<()> {
    let what = "cannot read the floating IP's subnet";
    let answer: SubnetAnswer =
        cloud.get(Kind::Network, &format!("/subnets/{}", skydock_sdk::http::segment(id)?), what)?;
    if answer.subnet.network_id == network {
        return Ok(());
    }
    Err(CloudError::invalid(format!("subnet {id} of the floating IP is not in network {network}")))
}

/// The first external network that has an IPv4 subnet, or one that cannot be seen.
fn external_network(cloud: &Cloud<'_>, service: &Service) -> Result<Option<String>> {
    let key = format!("external network {}", cloud.url(Kind::Network, "")?);
    if let Some(kept) = cloud.host.kept(&key).and_then(|kept| String::from_utf8(kept).ok()) {
        return Ok(Some(kept));
    }
    let networks: Vec<Network> = cloud.list(Kind::Network, "/networks", vec![("router:external", "true")])?;
    let ids: Vec<(&str, &str)> = networks.iter().map(|network| ("network_id", network.id.as_str())).collect();
    let subnets: Vec<Subnet> = if ids.is_empty() { Vec::new() } else { cloud.list(Kind::Network, "/subnets", ids)? };
    let fits = |network: &&Network| {
        let version = |id: &String| subnets.iter().find(|subnet| subnet.id == *id).map(|subnet| subnet.ip_version);
        network.external && network.subnets.iter().any(|id| version(id).is_none_or(|version| version == 4))
    };
    let found = networks.iter().find(fits).map(|network| network.id.clone());
    match &found {
        Some(id) => cloud.host.keep(&key, id.as_bytes(), BELIEVED),
        None => {
            let message = format!(
                "There is no external network for a floating IP: name one with `floating-network-id` or annotation {}",
                annotation::FLOATING_NETWORK_ID
            );
            cloud.host.tell(service, &Event::warning("LoadBalancerExternalNetworkSearchFailed", message));
        }
    }
    Ok(found)
}

fn attach(cloud: &Cloud<'_>, floating: &FloatingIp, port: Option<&str>) -> Result<()> {
    let what = format!("cannot attach or detach floating IP {}", floating.floating_ip_address);
    let ask = cloud.ask(Method::Put, Kind::Network, &format!("/floatingips/{}", floating.id), what)?;
    ask.json(&json!({"floatingip": {"port_id": port}}))?.send().map(|_| ())
}

fn remove(cloud: &Cloud<'_>, floating: &FloatingIp) -> Result<()> {
    let what = format!("cannot delete floating IP {}", floating.floating_ip_address);
    match cloud.ask(Method::Delete, Kind::Network, &format!("/floatingips/{}", floating.id), what)?.send() {
        Ok(_) | Err(CloudError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes the floating IP of a load balancer that is to go, if it was made for it.
pub(super) fn release(cloud: &Cloud<'_>, load_balancer: &LoadBalancer) -> Result<()> {
    match attached(cloud, load_balancer)?.filter(is_ours) {
        Some(floating) => remove(cloud, &floating),
        None => Ok(()),
    }
}

/// Marks the floating IP of a load balancer that is to go as one that stays: a later Service of this name is not to sweep it away.
pub(super) fn keep(cloud: &Cloud<'_>, service: &Service, load_balancer: &LoadBalancer) -> Result<()> {
    let made = names::floating_ip(cloud.cluster, service);
    let Some(floating) = attached(cloud, load_balancer)?.filter(|floating| floating.description == made) else {
        return Ok(());
    };
    let what = format!("cannot mark floating IP {} as kept", floating.floating_ip_address);
    let ask = cloud.ask(Method::Put, Kind::Network, &format!("/floatingips/{}", floating.id), what)?;
    ask.json(&json!({"floatingip": {"description": names::kept_floating_ip(cloud.cluster, service)}}))?
        .send()
        .map(|_| ())
}

/// Deletes floating IPs that were made for this Service and lead nowhere: their load balancer went without them.
pub(super) fn sweep(cloud: &Cloud<'_>, service: &Service) -> Result<()> {
    astray(cloud, service)?.iter().try_for_each(|floating| remove(cloud, floating))
}

/// Floating IPs that were made for this Service and lead nowhere.
pub(super) fn astray(cloud: &Cloud<'_>, service: &Service) -> Result<Vec<FloatingIp>> {
    let description = names::floating_ip(cloud.cluster, service);
    let query = vec![("description", description.as_str())];
    let mut found: Vec<FloatingIp> = match cloud.list(Kind::Network, "/floatingips", query) {
        // A Neutron that cannot filter by description.
        Err(CloudError::Invalid(_)) => Vec::new(),
        other => other?,
    };
    found.retain(|floating| floating.description == description && floating.port_id.is_none());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floating(description: &str) -> FloatingIp {
        FloatingIp { id: "f".to_owned(), description: description.to_owned(), ..FloatingIp::default() }
    }

    fn want(internal: bool, keep: bool) -> Want {
        Want { internal, floating: Floating { keep, ..Floating::default() }, ..Want::default() }
    }

    #[test]
    fn only_the_owner_makes_a_floating_ip() {
        assert_eq!(decide(&want(false, false), true, None), Decision::Make);
        assert_eq!(decide(&want(false, false), false, None), Decision::OwnersOnly);
        assert_eq!(decide(&want(true, false), true, None), Decision::Vip);
    }

    #[test]
    fn what_is_attached_is_kept_by_an_external_service() {
        let other = floating("mine");
        assert_eq!(decide(&want(false, false), true, Some(&other)), Decision::Keep(&other));
        assert_eq!(decide(&want(false, false), false, Some(&other)), Decision::Keep(&other));
    }

    #[test]
    fn an_internal_service_deletes_its_own_and_detaches_others() {
        let ours = floating("Floating IP for Kubernetes external service a/b from cluster c");
        let other = floating("mine");
        let decision = |keep: bool, floating| match decide(&want(true, keep), true, Some(floating)) {
            Decision::Remove { delete, .. } => Some(delete),
            _ => None,
        };
        assert_eq!(decision(false, &ours), Some(true));
        assert_eq!(decision(true, &ours), Some(false));
        assert_eq!(decision(false, &other), Some(false));
    }
}
