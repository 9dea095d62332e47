//! Deletes a load balancer and everything that was created for it.

use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, Service},
};

use crate::{
    cloud::{Cloud, Kind},
    host_functions::Event,
    load_balancers::{
        Context, annotation, being_deleted,
        desired_load_balancer::{DesiredLoadBalancer, FloatingIpSettings},
        floating_ip, had_address, in_progress, is_id_stored, names,
        observed_load_balancer::{
            ObservedLoadBalancer, Ownership,
            cluster_check::{self, Location},
            find::{Found, find, ownership_of, tagged, with_name},
            read::{Depth, read},
        },
        operations::{create, previous_process},
        plan::{plan_removal, remove, step::Step, stored_plan},
        remove_annotations, retries, security_group,
    },
    services::octavia::{Listener, LoadBalancer, Phase},
};

/// How often a Service that was switched to another load balancer waits for the previous one, for
/// about a minute.
const MAX_RETRIES: u8 = 16;

/// The reason of the event about a load balancer that is kept although its Service is deleted.
const KEPT: &str = "LoadBalancerLeft";

/// What happens to a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposal {
    /// It was created for this Service, or for one that has left it, and no other Service uses it,
    /// so it is deleted.
    Delete,
    /// It is kept, without the parts of this Service.
    Keep,
}

/// Decides what happens to a load balancer. Upstream deletes every load balancer that was created
/// for any Service and has no other tag. Here, a load balancer that this Service was never attached
/// to is kept.
fn disposal(balancer: &LoadBalancer, ownership: &Ownership) -> Disposal {
    let created_for_a_service = ownership.owner || balancer.name.starts_with(names::SERVICE_PREFIX);
    if created_for_a_service && (ownership.owner || ownership.attached) && !ownership.is_shared() {
        Disposal::Delete
    } else {
        Disposal::Keep
    }
}

/// Deletes the load balancer of this Service. Succeeds if there is none.
///
/// # Errors
/// Returns "in progress" while Octavia is working, otherwise the error that prevents the deletion.
pub fn ensure_deleted(cloud: &Cloud<'_>, service: &Service) -> Result<()> {
    let desired = DesiredLoadBalancer {
        name: names::load_balancer(cloud.cluster, service),
        id: annotation::text(service, annotation::LOAD_BALANCER_ID, "").to_owned(),
        features: cloud.features()?,
        floating: FloatingIpSettings {
            keep: annotation::keeps_floating_ip(service),
            ..FloatingIpSettings::default()
        },
        ..DesiredLoadBalancer::default()
    };
    let context = Context {
        cloud,
        service,
        desired: &desired,
    };

    // A Service that changes its type is not deleted, but leaves no load balancer behind either.
    let deleting = Service {
        deleting: true,
        ..service.clone()
    };

    let found = find(cloud, &desired.id, &desired.name, &deleting)?;
    let id = found.as_ref().map(|found| found.load_balancer.id.clone());
    let by_name = found.as_ref().is_none_or(|found| found.by_name);

    let mut is_used = false;
    if let Some(found) = found {
        if cluster_check::is_foreign(context, &found, None)? {
            warn_kept(cloud, service, &found);
        } else {
            is_used = true;
            delete_or_leave(context, found, Location::Here)?;
        }
    }

    for other in others(context, id.as_deref(), by_name)? {
        match cluster_check::location(context, &other)? {
            Location::Elsewhere => warn_kept(cloud, service, &other),
            location => delete_or_leave(context, other, location)?,
        }
    }

    if !is_used {
        delete_leftovers(context)
    } else {
        security_group::remove(cloud, service)
    }
}

fn warn_kept(cloud: &Cloud<'_>, service: &Service, found: &Found) {
    let message = format!(
        "Load balancer {} has the name or the tag of this Service, but the Service does not use it, and its members do not belong to \
         this cluster. It is not changed: delete it if nobody needs it",
        found.load_balancer.id
    );
    cloud.host.publish(service, &Event::warning(KEPT, message));
}

/// Returns the load balancers that this Service may have used before it was switched to the one
/// with this ID: those that were created for it, and those that it shared. `by_name` is true if
/// those with its name are known.
fn others(context: Context<'_>, id: Option<&str>, by_name: bool) -> Result<Vec<Found>> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let mut others = Vec::new();
    if !by_name {
        let own = with_name(cloud, &desired.name)?.into_iter();
        others.extend(own.map(|load_balancer| Found {
            load_balancer,
            by_name: true,
        }));
    }

    if desired.features.tags {
        let shared = tagged(cloud, &desired.name)?
            .into_iter()
            .filter(|balancer| balancer.name != desired.name);
        others.extend(shared.map(|load_balancer| Found {
            by_name: names::is_of(&load_balancer.name, &desired.name, service),
            load_balancer,
        }));
    }

    others.retain(|other| id != Some(other.load_balancer.id.as_str()));
    Ok(others)
}

/// Leaves the shared load balancers that this Service used until it was switched to the one with
/// this ID and address: their ports are needed by others, and their owners cannot delete them
/// otherwise. The addresses in its status prove that it used them.
///
/// # Errors
/// See [`ensure_deleted`].
pub(crate) fn leave_previous(context: Context<'_>, id: &str, address: &str) -> Result<()> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    if !desired.features.tags || !floating_ip::had_other_address(service, address) {
        return Ok(());
    }

    for load_balancer in tagged(cloud, &desired.name)? {
        // The one that was created for this Service is deleted with it, so that the user can switch
        // back.
        let is_shared =
            load_balancer.id != id && !names::is_of(&load_balancer.name, &desired.name, service);

        // One that accepts no change is left when the Service is deleted.
        let changes = !matches!(load_balancer.phase(), Phase::Deleting | Phase::Failed);
        if !is_shared || !changes || !floating_ip::serves(cloud, service, &load_balancer)? {
            continue;
        }

        let previous = load_balancer.id.clone();
        let found = Found {
            load_balancer,
            by_name: false,
        };
        match delete_or_leave(context, found, Location::Here) {
            // The Service may have been switched because of this. It leaves when it is deleted.
            Err(CloudError::InProgress(_)) if retries(cloud, &previous) > MAX_RETRIES => {}
            other => other?,
        }
    }
    Ok(())
}

/// Deletes a load balancer, or the parts of this Service if it is kept. Succeeds if it is kept. Unless
/// it leads to this cluster, it may be that of another one, and is kept.
///
/// # Errors
/// See [`ensure_deleted`]. Also returns "in progress" after the deletion was requested.
fn delete_or_leave(context: Context<'_>, found: Found, location: Location) -> Result<()> {
    let cloud = context.cloud;
    let keep = context.desired.floating.keep;
    let is_proven = location == Location::Here;
    let balancer = found.load_balancer;
    let ownership = ownership_of(context, &balancer, found.by_name)?;

    match balancer.phase() {
        Phase::Deleting => return Err(being_deleted(cloud, &balancer.id)),
        Phase::Pending => {
            return Err(in_progress(
                cloud,
                &balancer.id,
                "is being changed and will be deleted afterwards",
            ));
        }
        Phase::Failed | Phase::Active => {}
    }

    let disposal = disposal(&balancer, &ownership);
    let needed = disposal == Disposal::Delete
        && (!is_proven || serves_others(context, &balancer, &ownership)?);
    let stays = needed || disposal == Disposal::Keep;

    if stays && balancer.phase() == Phase::Failed {
        return Err(CloudError::unavailable(format!(
            "load balancer {0} is in ERROR, so listeners of this Service cannot be deleted: try `openstack loadbalancer \
             failover {0}`",
            balancer.id
        )));
    }

    if !stays {
        // First, because it is found by the port of the load balancer.
        floating_ip::release(cloud, &balancer, keep)?;
        return delete(context, balancer, &ownership);
    }

    // Otherwise it is deleted with the last Service on the load balancer.
    if keep && ownership.owner {
        floating_ip::release(cloud, &balancer, keep)?;
    }
    let id = balancer.id.clone();
    leave(context, balancer, &ownership)?;

    let why = if needed && is_proven {
        "has listeners that do not belong to this Service"
    } else if needed {
        "has no members that show whether it belongs to this cluster"
    } else if !ownership.is_shared() {
        "was not created for this Service"
    } else {
        return Ok(());
    };
    let event = Event {
        warning: needed,
        reason: KEPT,
        message: format!("Load balancer {id} {why}, and is not deleted"),
    };
    cloud.host.publish(context.service, &event);
    Ok(())
}

/// Deletes the parts of this Service from a load balancer that is kept.
fn leave(context: Context<'_>, balancer: LoadBalancer, ownership: &Ownership) -> Result<()> {
    let Context { cloud, desired, .. } = context;
    let id = balancer.id.clone();
    let observed = read(context, balancer, ownership, Depth::Listeners)?;
    let steps = steps_to_leave(desired, &observed, ownership, cloud.cluster);
    stored_plan::begin(context, &id, 0, &steps, None)?.complete()
}

/// Returns true if a load balancer that seems to be used only by this Service has listeners of
/// others. Tags can be lost when two Services change them at the same time, and load balancers from
/// before tags were used have none.
fn serves_others(
    context: Context<'_>,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<bool> {
    let Context { cloud, desired, .. } = context;
    if !desired.features.tags {
        return Ok(false);
    }
    let query = vec![("loadbalancer_id", balancer.id.as_str())];
    let listeners: Vec<Listener> = cloud.list(Kind::LoadBalancer, "/lbaas/listeners", query)?;

    let is_own = |tag: &String| ownership.is_own_tag(tag, desired, cloud.cluster);
    let is_others = |listener: &Listener| {
        let of_service = listener
            .tags
            .iter()
            .any(|tag| tag.starts_with(names::SERVICE_PREFIX));
        // Like upstream, the owner deletes what somebody added without a Service.
        !listener.tags.iter().any(is_own) && (of_service || !ownership.owner)
    };
    Ok(listeners.iter().any(is_others))
}

/// Deletes other load balancers with this name, which are for a Service that never had an address:
/// two clients that did not know of each other may both have created one. One that serves another
/// cluster is not changed.
///
/// # Errors
/// Returns "in progress" until the others are being deleted, otherwise the error that prevents it.
pub(crate) fn delete_duplicates(context: Context<'_>, kept: &LoadBalancer) -> Result<()> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    if kept.name != desired.name || had_address(service) {
        return Ok(());
    }

    for duplicate in with_name(cloud, &desired.name)?
        .into_iter()
        .filter(|duplicate| duplicate.id != kept.id)
    {
        let ownership = ownership_of(context, &duplicate, true)?;
        let found = Found {
            load_balancer: duplicate,
            by_name: true,
        };
        if cluster_check::is_foreign(context, &found, None)? {
            continue;
        }

        let duplicate = found.load_balancer;
        match duplicate.phase() {
            Phase::Deleting => {}
            _ if disposal(&duplicate, &ownership) == Disposal::Keep => {}
            Phase::Pending => {
                return Err(in_progress(
                    cloud,
                    &duplicate.id,
                    "is a duplicate and will be deleted",
                ));
            }
            Phase::Active | Phase::Failed => {
                floating_ip::release(cloud, &duplicate, desired.floating.keep)?;
                return delete(context, duplicate, &ownership);
            }
        }
    }

    Ok(())
}

/// Deletes the floating IP and the security group that remain without their load balancer.
///
/// # Errors
/// Returns "in progress" as long as an unconfirmed creation, of this process or the one before, can
/// still succeed.
fn delete_leftovers(context: Context<'_>) -> Result<()> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let unknown = !had_address(service) && previous_process::may_have_requested(cloud);
    if unknown || create::is_unanswered(cloud, &desired.name) {
        return Err(CloudError::in_progress(
            create::UNANSWERED / 3,
            create::unconfirmed(&desired.name),
        ));
    }

    if !desired.floating.keep {
        floating_ip::delete_unattached(cloud, service)?;
    }
    security_group::remove(cloud, service)?;

    if is_id_stored(service) || !desired.id.is_empty() {
        remove_annotations(cloud, service);
    }
    Ok(())
}

fn delete(context: Context<'_>, balancer: LoadBalancer, ownership: &Ownership) -> Result<()> {
    let Context { cloud, .. } = context;
    let id = balancer.id.clone();

    // Individual parts of a load balancer in ERROR cannot be deleted.
    let cascade = cloud.config.load_balancer.cascade_delete || balancer.phase() == Phase::Failed;
    if !cascade {
        let observed = read(context, balancer, ownership, Depth::Listeners)?;

        // All listeners are deleted regardless of their tags, because the load balancer cannot be
        // deleted without them.
        let mut steps: Vec<Step> = observed
            .listeners
            .iter()
            .flat_map(|listener| remove(&observed, listener))
            .collect();

        let unused = observed
            .pools
            .iter()
            .filter(|pool| pool.listeners.is_empty());
        steps.extend(unused.map(|pool| Step::delete("pool", &pool.id)));
        stored_plan::begin(context, &id, 0, &steps, None)?.complete()?;
    }

    let query = if cascade { "?cascade=true" } else { "" };
    let step = Step {
        method: Method::Delete,
        path: format!("/lbaas/loadbalancers/{id}{query}"),
        body: None,
        what: format!("cannot delete load balancer {id}"),
        optional: None,
        follows: false,
    };
    step.take(cloud)?;
    Err(being_deleted(cloud, &id))
}

/// Returns the steps that delete this Service's listeners, then its tag.
fn steps_to_leave(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
    ownership: &Ownership,
    cluster: &str,
) -> Vec<Step> {
    let is_own = |tag: &String| ownership.is_own_tag(tag, desired, cluster);
    let mut observed = observed.clone();

    // `plan_removal` does not know the previous name of the cluster.
    for listener in observed
        .listeners
        .iter_mut()
        .filter(|listener| listener.tags.iter().any(is_own))
    {
        listener.tags.push(desired.name.clone());
    }

    let mut steps = plan_removal(desired, &observed, ownership);
    let balancer = &observed.load_balancer;
    if ownership.attached {
        let tags: Vec<&String> = balancer.tags.iter().filter(|tag| !is_own(tag)).collect();
        steps.push(Step {
            method: Method::Put,
            path: format!("/lbaas/loadbalancers/{}", balancer.id),
            body: Some(serde_json::json!({"loadbalancer": {"tags": tags}})),
            what: format!(
                "cannot remove the Service from load balancer {}",
                balancer.id
            ),
            optional: None,
            follows: false,
        });
    }

    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disposal_of(name: &str, tags: &[&str], serves: bool) -> Disposal {
        let balancer = LoadBalancer {
            name: name.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..LoadBalancer::default()
        };
        let desired = DesiredLoadBalancer {
            name: "kube_service_c_shop_web".to_owned(),
            ..DesiredLoadBalancer::default()
        };
        let service = Service {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            ..Service::default()
        };
        disposal(
            &balancer,
            &Ownership::of(&balancer, &desired, &service, "c", false, serves),
        )
    }

    #[test]
    fn a_load_balancer_is_deleted_with_its_last_service() {
        let (own, other) = ("kube_service_c_shop_web", "kube_service_c_shop_other");
        assert_eq!(disposal_of(own, &[own], true), Disposal::Delete);
        assert_eq!(disposal_of(own, &[], true), Disposal::Delete);
        assert_eq!(disposal_of(own, &[own, other], true), Disposal::Keep);
        assert_eq!(disposal_of(own, &[other], true), Disposal::Keep);
        assert_eq!(disposal_of(other, &[own], true), Disposal::Delete);
        assert_eq!(disposal_of(other, &[own, other], true), Disposal::Keep);
        assert_eq!(disposal_of("mine", &[own], true), Disposal::Keep);
        // It was created for another Service before tags were used, and never belonged to this one.
        assert_eq!(disposal_of(other, &[], true), Disposal::Keep);
    }

    #[test]
    fn a_renamed_cluster_still_owns_its_load_balancers() {
        let old = "kube_service_old_shop_web";
        assert_eq!(disposal_of(old, &[old], true), Disposal::Delete);
    }

    #[test]
    fn a_copied_manifest_deletes_nothing_of_the_other_cluster() {
        let theirs = "kube_service_old_shop_web";
        assert_eq!(disposal_of(theirs, &[theirs], false), Disposal::Keep);
    }
}
