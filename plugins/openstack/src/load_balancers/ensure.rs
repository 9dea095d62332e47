//! Makes the load balancer of a Service, or brings it to what the Service asks for.

use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, LoadBalancerStatus, Service},
};

use super::{
    Nodes, annotation, at_work, being_made, create, delete,
    doubt::doubt,
    find::{Found, find_or_none},
    floating, forget,
    members::{Backend, backends},
    note,
    plan::{Step, plan},
    read::{Depth, read},
    security, served, status, targets, tell_ignored,
    todo::{self, Left},
    tree::Ownership,
    waited,
    want::Want,
    wanted,
};
use crate::{
    cloud::{Cloud, Kind},
    host::Event,
    octavia::{LoadBalancer, Phase},
};

/// Brings the load balancer of this Service to what is asked for; answers its status when it is there.
///
/// # Errors
/// "In progress" while Octavia is at work; else what keeps it from what is asked for.
pub fn ensure(cloud: &Cloud<'_>, service: &Service, nodes: &dyn Nodes) -> Result<LoadBalancerStatus> {
    let want = wanted(cloud, service)?;
    let found = find_or_none(cloud, &want, service)?;
    let Some(Found { load_balancer, by_name }) = found else {
        create::check_tls(cloud, &want)?;
        tell_ignored(cloud, service, &want);
        let backends = backends(&targets(nodes, &want), want.family);
        return Err(create::create(cloud, service, &want, &backends)?);
    };
    let id = load_balancer.id.clone();
    let ownership = Ownership::of(&load_balancer, &want, service, cloud.cluster, by_name);
    may_share(cloud, &want, &ownership, &load_balancer)?;
    if want.id != id && load_balancer.phase() != Phase::Going {
        note(cloud, service, &id);
    }
    match load_balancer.phase() {
        Phase::Pending if load_balancer.provisioning_status == "PENDING_CREATE" => return Err(being_made(cloud, &id)),
        Phase::Pending => return Err(at_work(cloud, &id, "is being changed")),
        Phase::Going => return Err(at_work(cloud, &id, "is being deleted; another is made when it is gone")),
        Phase::Failed => return Err(failed(cloud, service, &load_balancer, &ownership)?),
        Phase::Active => waited(cloud, &id),
    }
    if ownership.owner {
        delete::rivals(cloud, service, &want, &load_balancer)?;
    }
    create::check_tls(cloud, &want)?;
    let backends = backends(&targets(nodes, &want), want.family);
    if !create::is_as_made(cloud, &id, &want, &backends) {
        let digest = create::number("ensure", &want, &backends);
        if todo::resume(cloud, service, &id, digest)? == Left::Unknown {
            repair(cloud, service, &want, &backends, &load_balancer, &ownership, digest)?;
        }
    }
    let address = floating::ensure(cloud, service, &want, &load_balancer, &ownership)?;
    if annotation::text(service, annotation::LOAD_BALANCER_ADDRESS, "") != address {
        cloud.host.annotate(service, annotation::LOAD_BALANCER_ADDRESS, Some(&address));
    }
    security::ensure(cloud, service, &want, &load_balancer, &backends)?;
    create::forget_made(cloud, &id);
    Ok(status::of(cloud.config, service, &want, &address))
}

/// Whether the Service may use this load balancer.
fn may_share(cloud: &Cloud<'_>, want: &Want, ownership: &Ownership, load_balancer: &LoadBalancer) -> Result<()> {
    if ownership.owner {
        return Ok(());
    }
    let id = &load_balancer.id;
    if !want.features.tags {
        return Err(CloudError::invalid("sharing a load balancer needs the tags of Octavia 2.5"));
    }
    // Its floating IP would show an internal Service to the world.
    if want.internal {
        return Err(CloudError::invalid(format!("an internal Service cannot share load balancer {id}")));
    }
    if !ownership.attached && ownership.services + 1 > cloud.config.load_balancer.max_shared_lb {
        return Err(CloudError::invalid(format!(
            "load balancer {id} serves {} Services already, as many as `max-shared-lb` allows",
            ownership.services
        )));
    }
    Ok(())
}

/// What to do with a load balancer that Octavia could not make or change.
fn failed(cloud: &Cloud<'_>, service: &Service, balancer: &LoadBalancer, ownership: &Ownership) -> Result<CloudError> {
    let id = &balancer.id;
    // One that never came to be is made anew; one that serves keeps its address, and an operator looks at it.
    if ownership.owner && !ownership.is_shared() && !served(service) {
        let what = format!("cannot delete load balancer {id}, which is in ERROR");
        let path = format!("/lbaas/loadbalancers/{id}");
        cloud.ask(Method::Delete, Kind::LoadBalancer, &path, what)?.query(&[("cascade", "true")]).send()?;
        forget(cloud, service);
        let message = format!("Octavia could not make load balancer {id}; it is deleted, and made anew");
        cloud.host.tell(service, &Event::warning("LoadBalancerFailed", message));
        return Ok(at_work(cloud, id, "could not be made and is being deleted"));
    }
    Ok(CloudError::unavailable(format!(
        "load balancer {id} is in ERROR and takes no changes: see to it with `openstack loadbalancer failover {id}`"
    )))
}

/// Takes the first step to what is asked for; succeeds if there is none to take.
fn repair(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    backends: &[Backend],
    load_balancer: &LoadBalancer,
    ownership: &Ownership,
    digest: u64,
) -> Result<()> {
    let tree = read(cloud, load_balancer.clone(), want, ownership, Depth::Whole)?;
    let mut want = want.clone();
    if want.member_subnet.is_empty() && want.vip.network_id.is_empty() {
        // Where nothing is configured, the VIP was made in the subnet of the nodes.
        want.member_subnet = load_balancer.vip_subnet_id.clone().unwrap_or_default();
    }
    let steps = plan(&want, backends, &tree, ownership, cloud.cluster).map_err(CloudError::invalid)?;
    if let Some(old) = &ownership.renamed_from {
        let message = format!("Load balancer {} is renamed: the cluster was called {old}", load_balancer.id);
        cloud.host.tell(service, &Event { warning: false, reason: "LoadBalancerRename", message });
    }
    todo::begin(cloud, service, &load_balancer.id, digest, &steps)
}

/// One change. What is to be deleted and is gone is a success.
pub(super) fn take(cloud: &Cloud<'_>, step: &Step) -> Result<()> {
    let ask = cloud.ask(step.method, Kind::LoadBalancer, &step.path, step.what.as_str())?;
    let ask = if let Some(body) = &step.body { ask.json(body)? } else { ask };
    match ask.send() {
        Ok(_) => Ok(()),
        Err(CloudError::NotFound(_)) if step.method == Method::Delete => Ok(()),
        Err(error) => Err(doubt(cloud, error)),
    }
}
