//! Creates the load balancer of a Service with one request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use skydock_sdk::{Result, http::Method, load_balancers::Target, types::CloudError};

use crate::{
    cloud::{Cloud, Kind},
    load_balancers::{
        Context, being_created,
        desired_load_balancer::DesiredLoadBalancer,
        had_address,
        members::{MemberNode, subnet},
        operations::previous_process,
        plan::{body, not_found::verify_not_found},
        security_group, store_id, warn_no_members,
    },
    services::octavia::LoadBalancer,
};

/// How long it is remembered what a load balancer was created with.
const CREATED: Duration = Duration::from_secs(3600);

/// How long a creation request without an answer can still succeed.
pub(crate) const UNANSWERED: Duration = Duration::from_secs(15);

/// What the hash of a request is compared with. A member update, for example, does not continue the
/// plan of a complete change.
#[derive(Clone, Copy, Hash)]
pub(crate) enum Purpose {
    /// What the load balancer was created with.
    Creation,
    /// The stored plan of a complete change.
    Ensure,
    /// The stored plan of a change of members.
    UpdateNodes,
}

#[derive(Deserialize)]
struct Answer {
    loadbalancer: LoadBalancer,
}

/// Requests the creation of the load balancer. Octavia creates it asynchronously, so also the result
/// of a success is an error for the caller to return: "in progress".
pub(crate) fn create(context: Context<'_>, targets: &[Target]) -> Result<CloudError> {
    let Context { cloud, service, .. } = context;
    if is_unanswered(cloud, &context.desired.name) {
        return Err(CloudError::unavailable(unconfirmed(&context.desired.name)));
    }

    previous_process::start(cloud);
    let mut desired = context.desired.clone();
    let member_nodes = &subnet::of_new(cloud, service, &mut desired, targets)?;
    let context = Context {
        desired: &desired,
        ..context
    };
    warn_no_members(context, targets, member_nodes);

    let id = request(context, member_nodes)?;
    store_id(cloud, service, &id);
    // A Service that had a load balancer may still have its security group.
    if !had_address(service) {
        security_group::cache_absence(cloud, service);
    }

    // With serial API calls, the parts do not exist yet, so the stored digest must not match any
    // request.
    let created_with = if desired.serial {
        Vec::new()
    } else {
        digest(&desired, member_nodes)
    };

    cloud.host.cache(&creation_key(&id), &created_with, CREATED);
    Ok(being_created(cloud, &id))
}

/// Sends the request, and returns the ID of the load balancer.
fn request(context: Context<'_>, member_nodes: &[MemberNode]) -> Result<String> {
    let Context { cloud, desired, .. } = context;
    let body = body::load_balancer(desired, member_nodes);
    let what = format!("cannot create load balancer {}", desired.name);
    let request = cloud
        .request(
            Method::Post,
            Kind::LoadBalancer,
            "/lbaas/loadbalancers",
            what,
        )?
        .json(&body)?;

    // Stored before the request, because this call may end without an answer.
    let unanswered = unanswered_key(&desired.name);
    cloud.host.cache(&unanswered, &[1], UNANSWERED);
    let answer = request.send();

    // All other errors show that Octavia does not create it.
    if !matches!(
        answer,
        Err(CloudError::Unavailable(_) | CloudError::Internal(_))
    ) {
        cloud.host.uncache(&unanswered);
    }

    let answer = answer.map_err(|error| verify_not_found(cloud, error))?;
    Ok(answer.json::<Answer>()?.loadbalancer.id)
}

/// Returns true if this load balancer was created with exactly this request, so that its parts need
/// not be read.
pub(crate) fn is_as_created(
    cloud: &Cloud<'_>,
    id: &str,
    desired: &DesiredLoadBalancer,
    member_nodes: &[MemberNode],
) -> bool {
    cloud
        .host
        .cached(&creation_key(id))
        .is_some_and(|cached| cached == digest(desired, member_nodes))
}

/// Returns true if this load balancer was created a short time ago, and is not complete yet.
pub(crate) fn was_created(cloud: &Cloud<'_>, id: &str) -> bool {
    cloud.host.cached(&creation_key(id)).is_some()
}

/// Forgets what a load balancer was created with, so that its parts are read.
pub(crate) fn forget_creation(cloud: &Cloud<'_>, id: &str) {
    cloud.host.uncache(&creation_key(id));
}

/// Returns true if a load balancer with this name was recently requested and it is unknown whether
/// it will be created.
pub(crate) fn is_unanswered(cloud: &Cloud<'_>, name: &str) -> bool {
    cloud.host.cached(&unanswered_key(name)).is_some()
}

/// Returns the message while it is unknown whether the load balancer will be created.
pub(crate) fn unconfirmed(name: &str) -> String {
    format!("creation of load balancer {name} was not confirmed, and may still succeed")
}

fn unanswered_key(name: &str) -> String {
    format!("unanswered {name}")
}

fn creation_key(id: &str) -> String {
    format!("created {id}")
}

/// Returns a digest of the listeners and their parts.
fn digest(desired: &DesiredLoadBalancer, member_nodes: &[MemberNode]) -> Vec<u8> {
    request_hash(Purpose::Creation, desired, member_nodes)
        .to_be_bytes()
        .to_vec()
}

/// Returns a hash of the purpose, and of the listeners with their parts.
pub(crate) fn request_hash(
    purpose: Purpose,
    desired: &DesiredLoadBalancer,
    member_nodes: &[MemberNode],
) -> u64 {
    let desired = DesiredLoadBalancer {
        member_subnet: String::new(),
        serial: false,
        ..desired.clone()
    };

    let mut body = body::load_balancer(&desired, member_nodes);
    let parts = body
        .get_mut("loadbalancer")
        .and_then(|body| body.get_mut("listeners"))
        .map(Value::take);

    let mut hasher = DefaultHasher::new();
    (purpose, parts.unwrap_or_default().to_string()).hash(&mut hasher);
    hasher.finish()
}
