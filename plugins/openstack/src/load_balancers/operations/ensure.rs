//! Creates or updates the load balancer of a Service.

use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, LoadBalancerStatus, Service},
};

use crate::{
    cloud::{Cloud, Kind},
    host_functions::Event,
    load_balancers::{
        Context, Nodes, SETTINGS_IGNORED, annotation, being_created, floating_ip, had_address,
        immutable, in_progress,
        members::{MemberNode, subnet},
        observed_load_balancer::{
            Ownership, cluster_check,
            find::{Found, find_or_none, ownership_of},
            read::{Depth, read},
        },
        operations::{
            create::{self, Purpose},
            delete, status, tls_container,
        },
        plan::{
            Plan, plan,
            stored_plan::{self, Outcome},
        },
        remove_annotations, requested, reset_retries, security_group, store_id, targets,
        warn_ignored, warn_no_members, warn_once,
    },
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
    let desired = requested(cloud, service)?;
    let context = Context {
        cloud,
        service,
        desired: &desired,
    };
    warn_ignored(context);
    if let Some(reason) = &desired.rejected {
        return Err(CloudError::invalid(reason.as_str()));
    }

    let found = find_or_none(cloud, &desired, service)?;
    let Some(found) = found else {
        tls_container::check(cloud, &desired)?;
        let targets = targets(nodes, &desired);
        return Err(create::create(context, &targets)?);
    };

    if cluster_check::is_foreign(context, &found, Some(nodes))? {
        return Err(cluster_check::rejection(cloud, &found.load_balancer));
    }

    ensure_existing(context, nodes, found)
}

/// Changes a load balancer to what is requested.
fn ensure_existing(
    context: Context<'_>,
    nodes: &dyn Nodes,
    found: Found,
) -> Result<LoadBalancerStatus> {
    let Context { cloud, service, .. } = context;
    let Found {
        load_balancer,
        by_name,
    } = found;
    let id = load_balancer.id.clone();
    let ownership = ownership_of(context, &load_balancer, by_name)?;
    check(context, &load_balancer, &ownership)?;

    let mut desired = context.desired.clone();
    let targets = targets(nodes, &desired);
    let member_nodes = subnet::of_members(cloud, &mut desired, &targets, &load_balancer)?;
    let context = Context {
        desired: &desired,
        ..context
    };
    warn_no_members(context, &targets, &member_nodes);

    let outcome = change_parts(context, &member_nodes, &load_balancer, &ownership)?;
    let changed = outcome.complete();
    // A Service that was complete before does not lose the rest.
    if !had_address(service) {
        changed.clone()?;
    }

    // Neither depends on the other, so an error of one does not stop the other.
    let address = floating_ip::ensure(context, &load_balancer, &ownership);
    let secured = security_group::ensure(context, &load_balancer, &member_nodes);
    let address = address?;
    changed.and(secured)?;

    // Not before this load balancer is complete: until then, the previous one serves.
    delete::leave_previous(context, &id, &address)?;

    if annotation::text(service, annotation::LOAD_BALANCER_ADDRESS, "") != address {
        cloud
            .host
            .annotate(service, annotation::LOAD_BALANCER_ADDRESS, Some(&address));
    }

    // Later calls read the parts, to repair changes by others.
    create::forget_creation(cloud, &id);
    Ok(status::of(cloud.config, service, &desired, &address))
}

/// Checks that the load balancer can be changed for the Service, and that it is the only one with its
/// name.
fn check(context: Context<'_>, load_balancer: &LoadBalancer, ownership: &Ownership) -> Result<()> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    may_share(context, load_balancer, ownership)?;

    let differences = immutable::differences(service, desired, load_balancer, ownership);
    warn_once(cloud, service, SETTINGS_IGNORED, &differences);

    // The ID is also stored if this call fails, so that the next one finds the same load balancer.
    if desired.id != load_balancer.id && load_balancer.phase() != Phase::Deleting {
        store_id(cloud, service, &load_balancer.id);
    }
    check_phase(context, load_balancer, ownership)?;

    if ownership.owner {
        delete::delete_duplicates(context, load_balancer)?;
    } else {
        // Before any change: a Service that is rejected has no tag and no listener.
        floating_ip::may_share(cloud, desired, load_balancer)?;
    }
    tls_container::check(cloud, desired)
}

/// Returns an error unless the load balancer accepts changes.
fn check_phase(
    context: Context<'_>,
    load_balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<()> {
    let Context { cloud, .. } = context;
    let id = load_balancer.id.as_str();
    match load_balancer.phase() {
        Phase::Pending if load_balancer.provisioning_status == "PENDING_CREATE" => {
            Err(being_created(cloud, id))
        }
        Phase::Pending => Err(in_progress(cloud, id, "is being changed")),
        Phase::Deleting => Err(in_progress(
            cloud,
            id,
            "is being deleted; another one is created afterwards",
        )),
        Phase::Failed => Err(failed(context, load_balancer, ownership)?),
        // The next change is awaited with short delays again.
        Phase::Active => {
            reset_retries(cloud, id);
            Ok(())
        }
    }
}

/// Changes listeners, pools, members and monitors: continues a stored plan, or makes one.
fn change_parts(
    context: Context<'_>,
    member_nodes: &[MemberNode],
    load_balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<Outcome> {
    let Context { cloud, desired, .. } = context;
    let id = load_balancer.id.as_str();
    if create::is_as_created(cloud, id, desired, member_nodes) {
        return Ok(Outcome::Done);
    }

    create::forget_creation(cloud, id);
    let digest = create::request_hash(Purpose::Ensure, desired, member_nodes);
    match stored_plan::resume(context, id, digest)? {
        Some(outcome) => Ok(outcome),
        None => start_changes(context, member_nodes, load_balancer, ownership, digest),
    }
}

/// Checks whether the Service may use this load balancer.
fn may_share(
    context: Context<'_>,
    load_balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<()> {
    let Context { cloud, desired, .. } = context;
    if ownership.owner {
        return Ok(());
    }

    let id = &load_balancer.id;
    if !desired.features.tags {
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
    context: Context<'_>,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<CloudError> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let id = &balancer.id;
    // A load balancer that never served is deleted and created again. One that has served keeps its
    // address, and an operator has to check it.
    if ownership.owner && !ownership.is_shared() && !had_address(service) {
        floating_ip::release(cloud, balancer, desired.floating.keep)?;
        let what = format!("cannot delete load balancer {id}, which is in ERROR");
        let path = format!("/lbaas/loadbalancers/{id}");
        cloud
            .request(Method::Delete, Kind::LoadBalancer, &path, what)?
            .query(&[("cascade", "true")])
            .send()?;
        remove_annotations(cloud, service);

        let message = format!(
            "Octavia failed to create load balancer {id}; Skydock deletes and recreates it"
        );
        cloud
            .host
            .publish(service, &Event::warning("LoadBalancerFailed", message));

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
fn start_changes(
    context: Context<'_>,
    member_nodes: &[MemberNode],
    load_balancer: &LoadBalancer,
    ownership: &Ownership,
    digest: u64,
) -> Result<Outcome> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let observed = read(context, load_balancer.clone(), ownership, Depth::Whole)?;
    let Plan { steps, shortfall } =
        plan(desired, member_nodes, &observed, ownership, cloud.cluster);

    // The owner of a required port may release it.
    if let Some(taken) = shortfall
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
        cloud.host.publish(
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
        _ = security_group::open(context, load_balancer, member_nodes);
    }

    stored_plan::begin(context, &load_balancer.id, digest, &steps, shortfall)
}
