//! Creates or updates the load balancer of a Service.

use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, LoadBalancerStatus, Service},
};

use super::{
    Nodes, SETTINGS_IGNORED, annotation, at_work, being_made, create, delete,
    find::{Found, find_or_none, whose},
    fixed, floating, forget,
    members::Backend,
    note,
    plan::plan,
    proof,
    read::{Depth, read},
    security, served, status, subnet, targets, tell_ignored, tell_no_members, tell_once,
    todo::{self, Left},
    tree::Ownership,
    waited,
    want::Want,
    wanted,
};
use crate::{
    cloud::{Cloud, Kind},
    host::Event,
    services::octavia::{LoadBalancer, Phase},
};

/// Creates or updates the load balancer of this Service, and returns its status when it is
/// complete.
///
/// # Errors
/// Returns "in progress" while Octavia is working, otherwise the error that prevents the change.
pub fn ensure(
    cloud: &Cloud<'_>,
    service: &Service,
    nodes: &dyn Nodes,
) -> Result<LoadBalancerStatus> {
    let mut want = wanted(cloud, service)?;
    tell_ignored(cloud, service, &want);
    if let Some(reason) = &want.rejected {
        return Err(CloudError::invalid(reason.as_str()));
    }

    let found = find_or_none(cloud, &want, service)?;
    let Some(found) = found else {
        create::check_tls(cloud, &want)?;
        let targets = targets(nodes, &want);
        return Err(create::create(cloud, service, &want, &targets)?);
    };

    if proof::is_foreign(cloud, service, &want, &found, Some(nodes))? {
        return Err(proof::rejection(cloud, &found.load_balancer));
    }

    let Found {
        load_balancer,
        by_name,
    } = found;
    let id = load_balancer.id.clone();
    let ownership = whose(cloud, &load_balancer, &want, service, by_name)?;
    may_share(cloud, &want, &ownership, &load_balancer)?;

    let differences = fixed::differences(service, &want, &load_balancer, &ownership);
    tell_once(cloud, service, SETTINGS_IGNORED, &differences);

    // The ID is also stored if this call fails, so that the next one finds the same load balancer.
    if want.id != id && load_balancer.phase() != Phase::Going {
        note(cloud, service, &id);
    }

    match load_balancer.phase() {
        Phase::Pending if load_balancer.provisioning_status == "PENDING_CREATE" => {
            return Err(being_made(cloud, &id));
        }
        Phase::Pending => return Err(at_work(cloud, &id, "is being changed")),
        Phase::Going => {
            return Err(at_work(
                cloud,
                &id,
                "is being deleted; another one is created afterwards",
            ));
        }
        Phase::Failed => return Err(failed(cloud, service, &want, &load_balancer, &ownership)?),
        // The next change is awaited with short delays again.
        Phase::Active => waited(cloud, &id),
    }

    if ownership.owner {
        delete::rivals(cloud, service, &want, &load_balancer)?;
    } else {
        // Before any change: a Service that is rejected has no tag and no listener.
        floating::may_share(cloud, &want, &load_balancer)?;
    }

    create::check_tls(cloud, &want)?;
    let targets = targets(nodes, &want);
    let backends = subnet::of_members(cloud, &mut want, &targets, &load_balancer)?;
    tell_no_members(cloud, service, &want, &targets, &backends);

    let mut left = Left::Nothing;
    if !create::is_as_made(cloud, &id, &want, &backends) {
        create::forget_made(cloud, &id);
        let digest = create::number("ensure", &want, &backends);
        left = todo::resume(cloud, service, &id, digest)?;
        if left == Left::Unknown {
            left = repair(
                cloud,
                service,
                &want,
                &backends,
                &load_balancer,
                &ownership,
                digest,
            )?;
        }
    }

    let changed = left.complete();
    // A Service that was complete before does not lose the rest.
    if !served(service) {
        changed.clone()?;
    }

    // Neither depends on the other, so an error of one does not stop the other.
    let address = floating::ensure(cloud, service, &want, &load_balancer, &ownership);
    let secured = security::ensure(cloud, service, &want, &load_balancer, &backends);
    let address = address?;
    changed.and(secured)?;

    // Not before this load balancer is complete: until then, the previous one serves.
    delete::previous(cloud, service, &want, &id, &address)?;

    if annotation::text(service, annotation::LOAD_BALANCER_ADDRESS, "") != address {
        cloud
            .host
            .annotate(service, annotation::LOAD_BALANCER_ADDRESS, Some(&address));
    }

    // Later calls read the parts, to repair changes by others.
    create::forget_made(cloud, &id);
    Ok(status::of(cloud.config, service, &want, &address))
}

/// Checks whether the Service may use this load balancer.
fn may_share(
    cloud: &Cloud<'_>,
    want: &Want,
    ownership: &Ownership,
    load_balancer: &LoadBalancer,
) -> Result<()> {
    if ownership.owner {
        return Ok(());
    }

    let id = &load_balancer.id;
    if !want.features.tags {
        return Err(CloudError::denied(
            "sharing a load balancer requires tags (Octavia 2.5)",
        ));
    }

    if !ownership.attached && ownership.services + 1 > cloud.config.load_balancer.max_shared_lb {
        // Another Service may leave the load balancer.
        return Err(CloudError::unavailable(format!(
            "load balancer {id} already has {} Services, the maximum that `max-shared-lb` allows",
            ownership.services
        )));
    }
    Ok(())
}

/// Handles a load balancer that Octavia failed to create or change.
fn failed(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<CloudError> {
    let id = &balancer.id;
    // A load balancer that never served is deleted and created again. One that has served keeps its
    // address, and an operator has to check it.
    if ownership.owner && !ownership.is_shared() && !served(service) {
        floating::release(cloud, balancer, want.floating.keep)?;
        let what = format!("cannot delete load balancer {id}, which is in ERROR");
        let path = format!("/lbaas/loadbalancers/{id}");
        cloud
            .ask(Method::Delete, Kind::LoadBalancer, &path, what)?
            .query(&[("cascade", "true")])
            .send()?;
        forget(cloud, service);

        let message = format!(
            "Octavia failed to create load balancer {id}; Skydock deletes and recreates it"
        );
        cloud
            .host
            .tell(service, &Event::warning("LoadBalancerFailed", message));

        // An error instead of "in progress", so that retries back off: Octavia may be unable to
        // create any load balancer.
        return Ok(CloudError::unavailable(format!(
            "load balancer {id} could not be created and is being deleted"
        )));
    }
    Ok(CloudError::unavailable(format!(
        "load balancer {id} is in ERROR and cannot be changed: try `openstack loadbalancer failover {id}`"
    )))
}

/// Takes the first step of the necessary changes.
fn repair(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    backends: &[Backend],
    load_balancer: &LoadBalancer,
    ownership: &Ownership,
    digest: u64,
) -> Result<Left> {
    let tree = read(cloud, load_balancer.clone(), want, ownership, Depth::Whole)?;
    let (steps, taken) = plan(want, backends, &tree, ownership, cloud.cluster);

    // The owner of a required port may release it.
    if let Some(taken) = taken
        .clone()
        .filter(|_| !ownership.owner && !ownership.attached)
    {
        return Err(CloudError::unavailable(taken));
    }

    if let Some(old) = ownership.renamed_from.as_ref().filter(|_| ownership.owner) {
        let message = format!(
            "Load balancer {} is renamed: its name or its tags contain the previous name of the cluster, {old}",
            load_balancer.id
        );
        cloud.host.tell(
            service,
            &Event {
                warning: false,
                reason: "LoadBalancerRename",
                message,
            },
        );
    }

    if !steps.is_empty() {
        // Before traffic is sent there. An error is reported when everything else is complete.
        _ = security::open(cloud, service, want, load_balancer, backends);
    }

    todo::begin(cloud, service, &load_balancer.id, digest, &steps, taken)
}
