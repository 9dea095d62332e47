//! Load balancers for Services: Octavia, with floating IPs and security groups of Neutron.
//!
//! Ownership is stored in the cloud, in names and tags that are the same as upstream's. The
//! annotation with the ID is a faster way to find a load balancer, and the only way to find a
//! shared one. No call waits: while Octavia is changing a load balancer, the result is "in
//! progress".

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use skydock_sdk::{
    Lookup as _, Result,
    load_balancers::Target,
    types::{CloudError, Node, Service},
};

use crate::{cloud::Cloud, host_functions::Event};

pub mod annotation;
pub mod desired_load_balancer;
mod floating_ip;
mod immutable;
pub mod members;
pub mod names;
pub mod observed_load_balancer;
mod operations;
pub mod plan;
mod security_group;

pub use operations::{ensure, ensure_deleted, get, update_nodes};

use desired_load_balancer::DesiredLoadBalancer;
use members::MemberNode;

/// The nodes of a call, which are only read if they are needed.
pub trait Nodes {
    /// Returns the nodes without labels, which is sufficient in most cases.
    fn targets(&self) -> Rc<[Target]>;
    /// Returns the nodes with their labels.
    fn nodes(&self) -> Vec<Node>;
}

/// What is done for a Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    cloud: &'a Cloud<'a>,
    service: &'a Service,
    desired: &'a DesiredLoadBalancer,
}

/// Returns the nodes that belong behind a load balancer.
fn targets(nodes: &dyn Nodes, desired: &DesiredLoadBalancer) -> Rc<[Target]> {
    if desired.selects() {
        members::selected(nodes.nodes(), &desired.node_selector).into()
    } else {
        nodes.targets()
    }
}

/// Warns about a load balancer without members, unless the cluster has no nodes: the host warns then.
fn warn_no_members(context: Context<'_>, targets: &[Target], member_nodes: &[MemberNode]) {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let why = if !member_nodes.is_empty() {
        String::new()
    } else if !targets.is_empty() {
        let family = desired.family.map_or("IP", desired_load_balancer::version);
        format!("no node has an {family} address")
    } else if desired.selects() {
        let selector = annotation::text(
            service,
            annotation::NODE_SELECTOR,
            &cloud.config.load_balancer.node_selector,
        );
        format!("no node has the labels of the node selector `{selector}`")
    } else {
        String::new()
    };

    let message = if why.is_empty() {
        why
    } else {
        format!("The load balancer has no members: {why}")
    };

    warn_once(cloud, service, NO_MEMBERS, &message);
}

/// The reason of the event about a load balancer without members.
const NO_MEMBERS: &str = "LoadBalancerWithoutMembers";

/// The reason of the event about settings that apply only to a new load balancer.
const SETTINGS_IGNORED: &str = "LoadBalancerSettingsIgnored";

/// Returns the request of this Service.
fn requested(cloud: &Cloud<'_>, service: &Service) -> Result<DesiredLoadBalancer> {
    DesiredLoadBalancer::of(cloud.config, cloud.cluster, cloud.features()?, service)
        .map_err(CloudError::invalid)
}

/// Publishes events about ignored settings.
fn warn_ignored(context: Context<'_>) {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    for reason in desired_load_balancer::IGNORED {
        let messages: Vec<&str> = desired
            .ignored
            .iter()
            .filter(|(other, _)| *other == reason)
            .map(|(_, message)| message.as_str())
            .collect();
        warn_once(cloud, service, reason, &messages.join(". "));
    }
}

/// How long it is remembered that a warning was published.
const WARNED: Duration = Duration::from_secs(24 * 3600);

/// Publishes a warning unless the last one with this reason was the same. An empty message means
/// that the reason does not apply any more.
fn warn_once(cloud: &Cloud<'_>, service: &Service, reason: &'static str, message: &str) {
    let key = format!("warned {reason} {}", service.uid);

    let published = cloud.host.cached(&key);
    if message.is_empty() {
        if published.is_some() {
            // If the same reason applies again later, it is published again.
            cloud.host.uncache(&key);
        }
        return;
    }

    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    let digest = hasher.finish().to_be_bytes();
    if published.as_deref() != Some(digest.as_slice()) {
        cloud.host.cache(&key, &digest, WARNED);
        cloud
            .host
            .publish(service, &Event::warning(reason, message.to_owned()));
    }
}

/// Returns true if this Service has had an address, which means that its load balancer was
/// complete.
fn had_address(service: &Service) -> bool {
    !service.status.ingress.is_empty()
        || !annotation::text(service, annotation::LOAD_BALANCER_ADDRESS, "").is_empty()
}

/// Stores the ID of the Service's load balancer in an annotation. The annotation with the address,
/// which is empty at first, shows later that the ID was not set by a user.
fn store_id(cloud: &Cloud<'_>, service: &Service, id: &str) {
    cloud
        .host
        .annotate(service, annotation::LOAD_BALANCER_ID, Some(id));

    if !is_id_stored(service) {
        cloud
            .host
            .annotate(service, annotation::LOAD_BALANCER_ADDRESS, Some(""));
    }
}

/// Returns true if the ID in the annotation was stored by this provider or by upstream.
fn is_id_stored(service: &Service) -> bool {
    service
        .annotations
        .lookup(annotation::LOAD_BALANCER_ADDRESS)
        .is_some()
}

/// Removes the annotations, so that they do not refer to a deleted load balancer.
fn remove_annotations(cloud: &Cloud<'_>, service: &Service) {
    for key in [
        annotation::LOAD_BALANCER_ID,
        annotation::LOAD_BALANCER_ADDRESS,
    ] {
        cloud.host.annotate(service, key, None);
    }
}

/// Returns the error while Octavia is changing a load balancer. The host retries soon at first,
/// then less often.
fn in_progress(cloud: &Cloud<'_>, id: &str, doing: &str) -> CloudError {
    in_progress_after(cloud, id, doing, 0)
}

/// Returns the error while a load balancer is being created, which always takes longer than a
/// second.
fn being_created(cloud: &Cloud<'_>, id: &str) -> CloudError {
    in_progress_after(cloud, id, "is being created", SOON)
}

/// Returns the error while a load balancer is being deleted: nobody waits for that as for an
/// address, so it is checked less often.
fn being_deleted(cloud: &Cloud<'_>, id: &str) -> CloudError {
    in_progress_after(cloud, id, "is being deleted", LATER)
}

fn in_progress_after(cloud: &Cloud<'_>, id: &str, doing: &str, least: u8) -> CloudError {
    let times = retries(cloud, id).max(least);
    cloud
        .host
        .cache(&format!("waits {id}"), &[times.saturating_add(1)], RETRIES);
    CloudError::in_progress(retry_delay(times), format!("load balancer {id} {doing}"))
}

/// Returns the number of retries for a load balancer.
fn retries(cloud: &Cloud<'_>, id: &str) -> u8 {
    cloud
        .host
        .cached(&format!("waits {id}"))
        .and_then(|cached| cached.first().copied())
        .unwrap_or_default()
}

/// The number of retries after one second each.
const SOON: u8 = 3;

/// The number of retries from which on the delays are 4 s four times, and then 8 s.
const LATER: u8 = 6;

/// How long the number of retries for a load balancer is remembered.
const RETRIES: Duration = Duration::from_secs(60);

/// Returns the delay before the next retry, by the number of previous ones.
fn retry_delay(times: u8) -> Duration {
    Duration::from_millis(match times {
        0..SOON => 1000,
        SOON..6 => 2000,
        6..10 => 4000,
        _ => 8000,
    })
}

/// Resets the number of retries for a load balancer.
fn reset_retries(cloud: &Cloud<'_>, id: &str) {
    cloud.host.uncache(&format!("waits {id}"));
}

#[cfg(test)]
mod tests;
