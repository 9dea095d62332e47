//! Creates the load balancer of a Service with one request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use skydock_sdk::{
    Result,
    http::{self, Method},
    load_balancers::Target,
    types::{CloudError, Service},
};

use super::{
    annotation, being_made, body, doubt::doubt, members::Backend, note, security, served, subnet,
    tell_no_members, want::Want,
};
use crate::{
    cloud::{Cloud, Kind},
    services::octavia::LoadBalancer,
};

/// How long it is remembered what a load balancer was created with.
const MADE: Duration = Duration::from_secs(3600);

/// How long a creation request without an answer can still succeed.
pub(super) const UNANSWERED: Duration = Duration::from_secs(15);

/// How long the requests of a process that this one has replaced, and that was killed, can still
/// succeed. A busy Octavia handles them late.
const REPLACED: Duration = Duration::from_secs(30);

/// Keys of a process that has begun, and for how long that is remembered: as long as possible.
const RUNNING: &str = "running";
const STARTING: &str = "starting";
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// How long the existence of a TLS container is cached.
const SEEN: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
struct Answer {
    loadbalancer: LoadBalancer,
}

/// Requests the creation of the load balancer. Octavia creates it asynchronously, so the result is
/// "in progress".
pub(super) fn create(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    targets: &[Target],
) -> Result<CloudError> {
    if is_unanswered(cloud, &want.name) {
        return Err(CloudError::unavailable(unconfirmed(&want.name)));
    }

    begin(cloud);
    let mut want = want.clone();
    let backends = &subnet::of_new(cloud, service, &mut want, targets)?;
    tell_no_members(cloud, service, &want, targets, backends);

    let body = body::load_balancer(&want, backends);
    let what = format!("cannot create load balancer {}", want.name);
    let ask = cloud
        .ask(
            Method::Post,
            Kind::LoadBalancer,
            "/lbaas/loadbalancers",
            what,
        )?
        .json(&body)?;

    // Stored before the request, because this call may end without an answer.
    let unanswered = unanswered_key(&want.name);
    cloud.host.keep(&unanswered, &[1], UNANSWERED);
    let answer = ask.send();

    // All other errors show that Octavia does not create it.
    if !matches!(
        answer,
        Err(CloudError::Unavailable(_) | CloudError::Internal(_))
    ) {
        cloud.host.forget(&unanswered);
    }

    let id = answer
        .map_err(|error| doubt(cloud, error))?
        .json::<Answer>()?
        .loadbalancer
        .id;

    note(cloud, service, &id);
    // A Service that had a load balancer may still have its security group.
    if !served(service) {
        security::none_yet(cloud, service);
    }

    // With serial API calls, the parts do not exist yet, so the stored digest must not match any
    // request.
    let made = if want.serial {
        Vec::new()
    } else {
        digest(&want, backends)
    };

    cloud.host.keep(&made_key(&id), &made, MADE);
    Ok(being_made(cloud, &id))
}

/// Returns true if this load balancer was created with exactly this request, so that its parts need
/// not be read.
pub(super) fn is_as_made(cloud: &Cloud<'_>, id: &str, want: &Want, backends: &[Backend]) -> bool {
    cloud
        .host
        .kept(&made_key(id))
        .is_some_and(|kept| kept == digest(want, backends))
}

/// Returns true if this load balancer was created a short time ago, and is not complete yet.
pub(super) fn was_made(cloud: &Cloud<'_>, id: &str) -> bool {
    cloud.host.kept(&made_key(id)).is_some()
}

/// Forgets what a load balancer was created with, so that its parts are read.
pub(super) fn forget_made(cloud: &Cloud<'_>, id: &str) {
    cloud.host.forget(&made_key(id));
}

/// Returns true if a load balancer with this name was recently requested and it is unknown whether
/// it will be created.
pub(super) fn is_unanswered(cloud: &Cloud<'_>, name: &str) -> bool {
    cloud.host.kept(&unanswered_key(name)).is_some()
}

/// Begins the time in which a process that this one has replaced may have requested load balancers.
fn begin(cloud: &Cloud<'_>) {
    if cloud.host.kept(RUNNING).is_none() {
        cloud.host.keep(RUNNING, &[1], REMEMBERED);
        cloud.host.keep(STARTING, &[1], REPLACED);
    }
}

/// Returns true if a process that this one has replaced may have requested a load balancer just
/// before. It is not known which.
pub(super) fn is_new_process(cloud: &Cloud<'_>) -> bool {
    begin(cloud);
    cloud.host.kept(STARTING).is_some()
}

/// Returns the message while it is unknown whether the load balancer will be created.
pub(super) fn unconfirmed(name: &str) -> String {
    format!("creation of load balancer {name} was not confirmed, and may still succeed")
}

fn unanswered_key(name: &str) -> String {
    format!("unanswered {name}")
}

fn made_key(id: &str) -> String {
    format!("made {id}")
}

/// Returns a digest of the listeners and their parts.
fn digest(want: &Want, backends: &[Backend]) -> Vec<u8> {
    number("made", want, backends).to_be_bytes().to_vec()
}

/// Returns a hash of the listeners with their parts, and of the caller.
pub(super) fn number(who: &str, want: &Want, backends: &[Backend]) -> u64 {
    let want = Want {
        member_subnet: String::new(),
        serial: false,
        ..want.clone()
    };

    let mut body = body::load_balancer(&want, backends);
    let parts = body
        .get_mut("loadbalancer")
        .and_then(|body| body.get_mut("listeners"))
        .map(Value::take);

    let mut hasher = DefaultHasher::new();
    (who, parts.unwrap_or_default().to_string()).hash(&mut hasher);
    hasher.finish()
}

/// Checks that the TLS container exists in Barbican, as upstream does, unless containers are
/// external.
pub(super) fn check_tls(cloud: &Cloud<'_>, want: &Want) -> Result<()> {
    let reference = want.listener.tls_container_ref.as_str();
    if reference.is_empty() || !cloud.config.load_balancer.barbican {
        return Ok(());
    }

    let key = format!("tls {reference}");
    if cloud.host.kept(&key).is_some() {
        return Ok(());
    }

    let invalid =
        |reason: &str| CloudError::invalid(format!("{}: {reason}", annotation::TLS_CONTAINER_REF));

    let mut parts = reference.rsplit('/');
    let id = parts.next().unwrap_or_default();
    let kind = parts.next().unwrap_or_default();

    if !matches!(kind, "containers" | "secrets") {
        return Err(invalid(
            "expected the URL of a container or secret of Barbican: https://HOST/v1/containers/ID",
        ));
    }

    if !cloud.has(Kind::KeyManager)? {
        return Err(CloudError::denied(format!(
            "{}: the cloud has no key manager: set `container-store=external` if the container is external",
            annotation::TLS_CONTAINER_REF
        )));
    }

    let path = format!("/{kind}/{}", http::segment(id)?);
    cloud
        .ask(
            Method::Get,
            Kind::KeyManager,
            &path,
            "cannot read the TLS container",
        )?
        .send()?;
    cloud.host.keep(&key, &[1], SEEN);
    Ok(())
}
