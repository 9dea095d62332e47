//! Descriptions that tell for whom floating IPs were created, and whether they are kept.

use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{addresses, requests::is_free};
use crate::{
    cloud::{Cloud, Kind},
    load_balancers::names,
    services::network::FloatingIp,
};

/// Returns true if the floating IP was created for a Service, by this provider or by upstream, and
/// is not kept.
pub(super) fn is_ours(floating: &FloatingIp) -> bool {
    floating.description.contains(names::FLOATING_IP_MARK)
        && !floating.description.starts_with(names::KEPT_MARK)
}

/// Returns the change that marks a floating IP created for a Service as kept, so that it is not
/// deleted with a later Service that uses it.
pub(super) fn mark_kept(floating: &FloatingIp) -> Map<String, Value> {
    described(floating, &names::kept_floating_ip(&floating.description))
}

/// Returns the change that sets the description of a floating IP created for a Service.
pub(super) fn described(floating: &FloatingIp, description: &str) -> Map<String, Value> {
    let mark = ("description".to_owned(), json!(description));
    is_ours(floating).then_some(mark).into_iter().collect()
}

/// Returns the floating IPs with this description.
pub(super) fn with_description(cloud: &Cloud<'_>, description: &str) -> Result<Vec<FloatingIp>> {
    let query = vec![("description", description)];
    let mut found: Vec<FloatingIp> = match cloud.list(Kind::Network, "/floatingips", query) {
        // Not every Neutron supports this filter.
        Err(CloudError::Invalid(_)) => cloud.list(Kind::Network, "/floatingips", Vec::new())?,
        listed => listed?,
    };
    found.retain(|floating| floating.description == description);
    Ok(found)
}

/// Returns true if the floating IP was created for this Service, was its address, and is not
/// attached.
pub(super) fn is_left_by(service: &Service, cloud: &Cloud<'_>, floating: &FloatingIp) -> bool {
    floating.description == names::floating_ip(cloud.cluster, service)
        && is_free(floating)
        && addresses(service).contains(&floating.floating_ip_address.as_str())
}
