//! Makes the load balancer of a Service: one request for all of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use skydock_sdk::{
    Result,
    http::{self, Method},
    types::{CloudError, Service},
};

use super::{annotation, being_made, body, doubt::doubt, members::Backend, note, security, want::Want};
use crate::{
    cloud::{Cloud, Kind},
    instances::ports_of,
    octavia::LoadBalancer,
    provider_id::{self, Machine},
};

/// How long it is remembered what a load balancer was made with.
const MADE: Duration = Duration::from_secs(3600);

/// How long a load balancer may still come that was asked for without an answer.
pub(super) const UNANSWERED: Duration = Duration::from_secs(15);

/// How long a TLS container that was there is not looked for again.
const SEEN: Duration = Duration::from_secs(600);

/// When to look again for a node whose subnet tells where the load balancer is to be.
const NO_NODE: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Answer {
    loadbalancer: LoadBalancer,
}

/// Asks Octavia for the load balancer. It is not there at once: the answer is "in progress".
pub(super) fn create(cloud: &Cloud<'_>, service: &Service, want: &Want, backends: &[Backend]) -> Result<CloudError> {
    let mut want = want.clone();
    if want.vip.port_id.is_empty() && want.vip.network_id.is_empty() && want.vip.subnet_id.is_empty() {
        let subnet = subnet_of_nodes(cloud, backends)?;
        if want.member_subnet.is_empty() {
            want.member_subnet.clone_from(&subnet);
        }
        want.vip.subnet_id = subnet;
    }
    let body = body::load_balancer(&want, backends);
    let what = format!("cannot make load balancer {}", want.name);
    let ask = cloud.ask(Method::Post, Kind::LoadBalancer, "/lbaas/loadbalancers", what)?.json(&body)?;
    let unanswered = unanswered_key(&want.name);
    cloud.host.keep(&unanswered, &[1], UNANSWERED);
    let answer = ask.send();
    if !matches!(answer, Err(CloudError::Unavailable(_) | CloudError::Internal(_))) {
        cloud.host.forget(&unanswered);
    }
    let id = answer.map_err(|error| doubt(cloud, error))?.json::<Answer>()?.loadbalancer.id;
    note(cloud, service, &id);
    security::none_yet(cloud, service);
    // One whose parts are made one by one is as nothing asks for.
    let made = if want.serial { Vec::new() } else { digest(&want, backends) };
    cloud.host.keep(&made_key(&id), &made, MADE);
    Ok(being_made(cloud, &id))
}

/// True if this load balancer was made with all that is asked for now: then its parts need not be read.
pub(super) fn is_as_made(cloud: &Cloud<'_>, id: &str, want: &Want, backends: &[Backend]) -> bool {
    cloud.host.kept(&made_key(id)).is_some_and(|kept| kept == digest(want, backends))
}

/// From now on its parts are read.
pub(super) fn forget_made(cloud: &Cloud<'_>, id: &str) {
    cloud.host.forget(&made_key(id));
}

/// True if a load balancer of this name was asked for of late, and it is not known whether it comes.
pub(super) fn is_unanswered(cloud: &Cloud<'_>, name: &str) -> bool {
    cloud.host.kept(&unanswered_key(name)).is_some()
}

fn unanswered_key(name: &str) -> String {
    format!("unanswered {name}")
}

fn made_key(id: &str) -> String {
    format!("made {id}")
}

/// A number for what a load balancer has besides its address.
fn digest(want: &Want, backends: &[Backend]) -> Vec<u8> {
    number("made", want, backends).to_be_bytes().to_vec()
}

/// A number for what a load balancer is to be, and who asks.
pub(super) fn number(who: &str, want: &Want, backends: &[Backend]) -> u64 {
    let want = Want { member_subnet: String::new(), serial: false, ..want.clone() };
    let mut body = body::load_balancer(&want, backends);
    let parts = body.get_mut("loadbalancer").and_then(|body| body.get_mut("listeners")).map(Value::take);
    let mut hasher = DefaultHasher::new();
    (who, parts.unwrap_or_default().to_string()).hash(&mut hasher);
    hasher.finish()
}

/// The subnet that the first node with a server has its address in.
fn subnet_of_nodes(cloud: &Cloud<'_>, backends: &[Backend]) -> Result<String> {
    let server =
        |backend: &&Backend| matches!(provider_id::read(cloud.config, &backend.provider_id), Machine::Server(_));
    let Some(backend) = backends.iter().find(server) else {
        let message = "no node tells in which subnet the load balancer is to be: set `subnet-id` or `network-id` in section \
                       `LoadBalancer`, or wait for a node";
        return Err(CloudError::in_progress(NO_NODE, message));
    };
    let Machine::Server(id) = provider_id::read(cloud.config, &backend.provider_id) else {
        return Err(CloudError::internal("a node lost its server"));
    };
    let ports = ports_of(cloud, &[id])?;
    let mut fixed = ports.iter().flat_map(|port| &port.fixed_ips);
    fixed.find(|fixed| fixed.ip_address == backend.address).map(|fixed| fixed.subnet_id.clone()).ok_or_else(|| {
        let Backend { name, address, .. } = backend;
        CloudError::not_found(format!(
            "no port of node {name} has the address {address}, whose subnet would be the load balancer's: set `subnet-id` in \
             section `LoadBalancer`"
        ))
    })
}

/// Looks whether Barbican has the TLS container, as upstream does, unless it is somebody else's.
pub(super) fn check_tls(cloud: &Cloud<'_>, want: &Want) -> Result<()> {
    let reference = want.listener.tls_container_ref.as_str();
    if reference.is_empty() || !cloud.config.load_balancer.barbican {
        return Ok(());
    }
    let key = format!("tls {reference}");
    if cloud.host.kept(&key).is_some() {
        return Ok(());
    }
    let invalid = |reason: &str| CloudError::invalid(format!("{}: {reason}", annotation::TLS_CONTAINER_REF));
    let mut parts = reference.rsplit('/');
    let (id, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if !matches!(kind, "containers" | "secrets") {
        return Err(invalid(
            "expected the address of a container or secret of Barbican: https://HOST/v1/containers/ID",
        ));
    }
    if !cloud.has(Kind::KeyManager)? {
        return Err(invalid(
            "the cloud has no key manager: set `container-store=external` if the container is somebody else's",
        ));
    }
    let path = format!("/{kind}/{}", http::segment(id)?);
    cloud.ask(Method::Get, Kind::KeyManager, &path, "cannot read the TLS container")?.send()?;
    cloud.host.keep(&key, &[1], SEEN);
    Ok(())
}
