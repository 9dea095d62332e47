//! Load balancers for Services: Octavia, with floating IPs and security groups of Neutron.
//!
//! Who is whose stands in the cloud: in names and tags, upstream's. The annotation with the ID leads there faster, and is the
//! only way to a load balancer that is shared. Nothing here waits: while Octavia is at work, the answer is "in progress".

use std::time::Duration;

use skydock_sdk::{
    Lookup as _, Result,
    load_balancers::Target,
    types::{CloudError, Node, Service},
};

use crate::{cloud::Cloud, host::Event};

pub mod annotation;
mod body;
mod create;
mod delete;
mod doubt;
mod ensure;
mod find;
mod floating;
pub mod members;
pub mod names;
pub mod plan;
mod read;
mod security;
mod status;
mod todo;
pub mod tree;
mod update;
pub mod want;

pub use delete::ensure_deleted;
pub use ensure::ensure;
pub use status::get;
pub use update::update_nodes;

use want::Want;

/// The nodes that a call was lent; asked only for as much as is needed.
pub trait Nodes {
    /// By what most is done.
    fn targets(&self) -> Vec<Target>;
    /// With their labels.
    fn nodes(&self) -> Vec<Node>;
}

/// The nodes behind a load balancer, of those there are.
fn targets(nodes: &dyn Nodes, want: &Want) -> Vec<Target> {
    if want.selects() { members::selected(nodes.nodes(), &want.node_selector) } else { nodes.targets() }
}

/// What this Service asks for.
fn wanted(cloud: &Cloud<'_>, service: &Service) -> Result<Want> {
    Want::of(cloud.config, cloud.cluster, cloud.features()?, service).map_err(CloudError::invalid)
}

/// Tells what is asked for in vain, unless the Service has its address already: then it was told before.
fn tell_ignored(cloud: &Cloud<'_>, service: &Service, want: &Want) {
    if service.status.ingress.is_empty() {
        for (reason, message) in &want.ignored {
            cloud.host.tell(service, &Event::warning(reason, message.clone()));
        }
    }
}

/// True if this Service has had an address: then its load balancer was once complete.
fn served(service: &Service) -> bool {
    !service.status.ingress.is_empty() || !annotation::text(service, annotation::LOAD_BALANCER_ADDRESS, "").is_empty()
}

/// Notes which load balancer is this Service's. An address beside the ID, an empty one at first, tells later that nobody else has named it.
fn note(cloud: &Cloud<'_>, service: &Service, id: &str) {
    cloud.host.annotate(service, annotation::LOAD_BALANCER_ID, Some(id));
    if !is_noted(service) {
        cloud.host.annotate(service, annotation::LOAD_BALANCER_ADDRESS, Some(""));
    }
}

/// True if the ID among the annotations was noted here, or by upstream.
fn is_noted(service: &Service) -> bool {
    service.annotations.lookup(annotation::LOAD_BALANCER_ADDRESS).is_some()
}

/// Takes the note back: it would lead a Service of this name nowhere, for ever.
fn forget(cloud: &Cloud<'_>, service: &Service) {
    for key in [annotation::LOAD_BALANCER_ID, annotation::LOAD_BALANCER_ADDRESS] {
        cloud.host.annotate(service, key, None);
    }
}

/// The answer while Octavia is at work with a load balancer: soon at first, then less often.
fn at_work(cloud: &Cloud<'_>, id: &str, doing: &str) -> CloudError {
    at_work_after(cloud, id, doing, 0)
}

/// The answer while a load balancer is being made, which no Octavia does in a second.
fn being_made(cloud: &Cloud<'_>, id: &str) -> CloudError {
    at_work_after(cloud, id, "is being made", SOON)
}

fn at_work_after(cloud: &Cloud<'_>, id: &str, doing: &str, least: u8) -> CloudError {
    let key = format!("waits {id}");
    let times = cloud.host.kept(&key).and_then(|kept| kept.first().copied()).unwrap_or_default().max(least);
    cloud.host.keep(&key, &[times.saturating_add(1)], WAITS);
    CloudError::in_progress(pause(times), format!("load balancer {id} {doing}"))
}

/// So many looks come after a second each.
const SOON: u8 = 3;

/// How long it is remembered how often a load balancer was waited for.
const WAITS: Duration = Duration::from_secs(60);

/// How long to wait for the next look, after so many.
fn pause(times: u8) -> Duration {
    Duration::from_millis(match times {
        0..SOON => 1000,
        SOON..6 => 2000,
        6..10 => 4000,
        _ => 8000,
    })
}

/// Forgets how often a load balancer was waited for.
fn waited(cloud: &Cloud<'_>, id: &str) {
    cloud.host.forget(&format!("waits {id}"));
}

#[cfg(test)]
mod tests;
