//! Requests about floating IPs.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use skydock_sdk::{Result, http::Method};

use super::is_v6;
use crate::{
    cloud::{Cloud, Kind},
    services::{network::FloatingIp, octavia::LoadBalancer},
};

#[derive(Deserialize)]
struct Answer {
    floatingip: FloatingIp,
}

/// Returns the floating IP attached to the port of a load balancer.
pub(in crate::load_balancers) fn attached(
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

/// Returns the floating IP of the project with this address.
pub(in crate::load_balancers) fn with_address(
    cloud: &Cloud<'_>,
    address: &str,
) -> Result<Option<FloatingIp>> {
    let query = vec![("floating_ip_address", address)];
    let found: Vec<FloatingIp> = cloud.list(Kind::Network, "/floatingips", query)?;
    Ok(found
        .into_iter()
        .find(|floating| floating.floating_ip_address == *address))
}

/// Returns a floating IP as it is, or `None` if it was attached or deleted since it was detached.
pub(super) fn still_free(cloud: &Cloud<'_>, floating: &FloatingIp) -> Result<Option<FloatingIp>> {
    let found = with_address(cloud, &floating.floating_ip_address)?;
    Ok(found.filter(|found| found.id == floating.id && is_free(found)))
}

/// Returns true if the floating IP is not attached.
pub(super) fn is_free(floating: &FloatingIp) -> bool {
    floating.port_id.as_deref().unwrap_or_default().is_empty()
}

/// Detaches a floating IP, with another change.
pub(super) fn detach(
    cloud: &Cloud<'_>,
    floating: &FloatingIp,
    mut change: Map<String, Value>,
) -> Result<()> {
    let what = format!("cannot detach floating IP {}", floating.floating_ip_address);
    change.insert("port_id".to_owned(), Value::Null);
    update(cloud, floating, &change, what)
}

/// Attaches a floating IP, with another change.
pub(super) fn attach_with(
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

/// Creates a floating IP and returns its address.
pub(super) fn create(cloud: &Cloud<'_>, floating: &Map<String, Value>) -> Result<String> {
    let request = cloud.request(
        Method::Post,
        Kind::Network,
        "/floatingips",
        "cannot create a floating IP",
    )?;
    let created: Answer = request
        .json(&json!({"floatingip": floating}))?
        .send()?
        .json()?;
    Ok(created.floatingip.floating_ip_address)
}

/// Changes a floating IP unless it was changed since it was read: two Services may request the same
/// address.
pub(super) fn update(
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

/// Deletes a floating IP unless it was changed since it was read: another Service may have attached
/// it.
pub(super) fn remove(cloud: &Cloud<'_>, floating: &FloatingIp) -> Result<()> {
    let what = format!("cannot delete floating IP {}", floating.floating_ip_address);
    let request = cloud.request(
        Method::Delete,
        Kind::Network,
        &format!("/floatingips/{}", floating.id),
        what,
    )?;
    request
        .if_revision(floating.revision_number)
        .send_for("NeutronError")
        .map(|_| ())
}
