//! Deletes a load balancer and everything that was created for it.

use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, Service},
};

use super::{
    annotation, at_work, being_deleted, create,
    find::{Found, called, find, tagged, whose},
    floating, forget, is_noted, names,
    plan::{plan_removal, remove},
    proof::{self, Leads},
    read::{Depth, read},
    security, served,
    step::Step,
    todo,
    tree::{Ownership, Tree},
    waits,
    want::Want,
};
use crate::{
    cloud::{Cloud, Kind},
    host::Event,
    services::octavia::{Listener, LoadBalancer, Phase},
};

/// How often a Service that was switched to another load balancer waits for the previous one, for
/// about a minute.
const PATIENCE: u8 = 16;

/// The reason of the event about a load balancer that is kept although its Service is deleted.
const LEFT: &str = "LoadBalancerLeft";

/// What happens to a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was created for this Service, or for one that has left it, and no other Service uses it,
    /// so it is deleted.
    Goes,
    /// It is kept, without the parts of this Service.
    Stays,
}

/// Decides what happens to a load balancer. Upstream deletes every load balancer that was created
/// for any Service and has no other tag. Here, a load balancer that this Service was never attached
/// to is kept.
fn fate(balancer: &LoadBalancer, ownership: &Ownership) -> Fate {
    let made_for_a_service = ownership.owner || balancer.name.starts_with(names::SERVICE_PREFIX);
    if made_for_a_service && (ownership.owner || ownership.attached) && !ownership.is_shared() {
        Fate::Goes
    } else {
        Fate::Stays
    }
}

/// Deletes the load balancer of this Service. Succeeds if there is none.
///
/// # Errors
/// Returns "in progress" while Octavia is working, otherwise the error that prevents the deletion.
pub fn ensure_deleted(cloud: &Cloud<'_>, service: &Service) -> Result<()> {
    let want = Want {
        name: names::load_balancer(cloud.cluster, service),
        id: annotation::text(service, annotation::LOAD_BALANCER_ID, "").to_owned(),
        features: cloud.features()?,
        ..Want::default()
    };

    let keep = annotation::keeps_floating_ip(service);

    // A Service that changes its type is not deleted, but leaves no load balancer behind either.
    let deleting = Service {
        deleting: true,
        ..service.clone()
    };

    let found = find(cloud, &want.id, &want.name, &deleting)?;
    let id = found.as_ref().map(|found| found.load_balancer.id.clone());
    let by_name = found.as_ref().is_none_or(|found| found.by_name);

    let mut is_used = false;
    if let Some(found) = found {
        if proof::is_foreign(cloud, service, &want, &found, None)? {
            tell_left(cloud, service, &found);
        } else {
            is_used = true;
            take_off(cloud, service, &want, found, keep, true)?;
        }
    }

    for other in others(cloud, service, &want, id.as_deref(), by_name)? {
        match proof::leads_here(cloud, service, &want, &other)? {
            Leads::Here => take_off(cloud, service, &want, other, keep, true)?,
            Leads::Perhaps => take_off(cloud, service, &want, other, keep, false)?,
            Leads::Elsewhere => tell_left(cloud, service, &other),
        }
    }

    if !is_used {
        remains(cloud, service, &want, keep)
    } else {
        security::remove(cloud, service)
    }
}

fn tell_left(cloud: &Cloud<'_>, service: &Service, found: &Found) {
    let message = format!(
        "Load balancer {} has the name or the tag of this Service, but the Service does not use it, and its members do not belong to \
         this cluster. It is not changed: delete it if nobody needs it",
        found.load_balancer.id
    );
    cloud.host.tell(service, &Event::warning(LEFT, message));
}

/// Returns the load balancers that this Service may have used before it was switched to the one
/// with this ID: those that were created for it, and those that it shared. `by_name` is true if
/// those with its name are known.
fn others(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    id: Option<&str>,
    by_name: bool,
) -> Result<Vec<Found>> {
    let mut others = Vec::new();
    if !by_name {
        let own = called(cloud, &want.name)?.into_iter();
        others.extend(own.map(|load_balancer| Found {
            load_balancer,
            by_name: true,
        }));
    }

    if want.features.tags {
        let shared = tagged(cloud, &want.name)?
            .into_iter()
            .filter(|balancer| balancer.name != want.name);
        others.extend(shared.map(|load_balancer| Found {
            by_name: names::is_of(&load_balancer.name, &want.name, service),
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
pub(super) fn previous(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    id: &str,
    address: &str,
) -> Result<()> {
    if !want.features.tags || !floating::was_elsewhere(service, address) {
        return Ok(());
    }

    for load_balancer in tagged(cloud, &want.name)? {
        // The one that was created for this Service is deleted with it, so that the user can switch
        // back.
        let is_shared =
            load_balancer.id != id && !names::is_of(&load_balancer.name, &want.name, service);

        // One that accepts no change is left when the Service is deleted.
        let changes = !matches!(load_balancer.phase(), Phase::Going | Phase::Failed);
        if !is_shared || !changes || !floating::serves(cloud, service, &load_balancer)? {
            continue;
        }

        let previous = load_balancer.id.clone();
        match take_off(
            cloud,
            service,
            want,
            Found {
                load_balancer,
                by_name: false,
            },
            want.floating.keep,
            true,
        ) {
            // The Service may have been switched because of this. It leaves when it is deleted.
            Err(CloudError::InProgress(_)) if waits(cloud, &previous) > PATIENCE => {}
            other => other?,
        }
    }
    Ok(())
}

/// Deletes a load balancer, or the parts of this Service if it is kept. Succeeds if it is kept. Unless
/// `is_proven` is true, it may be that of another cluster, and is kept.
///
/// # Errors
/// See [`ensure_deleted`]. Also returns "in progress" after the deletion was requested.
fn take_off(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    found: Found,
    keep: bool,
    is_proven: bool,
) -> Result<()> {
    let balancer = found.load_balancer;
    let ownership = whose(cloud, &balancer, want, service, found.by_name)?;

    match balancer.phase() {
        Phase::Going => return Err(being_deleted(cloud, &balancer.id)),
        Phase::Pending => {
            return Err(at_work(
                cloud,
                &balancer.id,
                "is being changed and will be deleted afterwards",
            ));
        }
        Phase::Failed | Phase::Active => {}
    }

    let fate = fate(&balancer, &ownership);
    let needed =
        fate == Fate::Goes && (!is_proven || serves_others(cloud, &balancer, want, &ownership)?);
    let stays = needed || fate == Fate::Stays;

    if stays && balancer.phase() == Phase::Failed {
        return Err(CloudError::unavailable(format!(
            "load balancer {0} is in ERROR, so listeners of this Service cannot be deleted: try `openstack loadbalancer \
             failover {0}`",
            balancer.id
        )));
    }

    match fate {
        Fate::Goes if !stays => {
            // First, because it is found by the port of the load balancer.
            floating::release(cloud, &balancer, keep)?;
            delete(cloud, service, want, balancer, &ownership)
        }
        Fate::Goes | Fate::Stays => {
            // Otherwise it is deleted with the last Service on the load balancer.
            if keep && ownership.owner {
                floating::release(cloud, &balancer, keep)?;
            }
            let id = balancer.id.clone();
            let tree = read(cloud, balancer, want, &ownership, Depth::Listeners)?;

            todo::begin(
                cloud,
                service,
                &id,
                0,
                &leave(want, &tree, &ownership, cloud.cluster),
                None,
            )?
            .complete()?;

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
                reason: LEFT,
                message: format!("Load balancer {id} {why}, and is not deleted"),
            };
            cloud.host.tell(service, &event);
            Ok(())
        }
    }
}

/// Returns true if a load balancer that seems to be used only by this Service has listeners of
/// others. Tags can be lost when two Services change them at the same time, and load balancers from
/// before tags were used have none.
fn serves_others(
    cloud: &Cloud<'_>,
    balancer: &LoadBalancer,
    want: &Want,
    ownership: &Ownership,
) -> Result<bool> {
    if !want.features.tags {
        return Ok(false);
    }
    let query = vec![("loadbalancer_id", balancer.id.as_str())];
    let listeners: Vec<Listener> = cloud.list(Kind::LoadBalancer, "/lbaas/listeners", query)?;

    let is_own = |tag: &String| ownership.is_own_tag(tag, want, cloud.cluster);
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
pub(super) fn rivals(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    kept: &LoadBalancer,
) -> Result<()> {
    if kept.name != want.name || served(service) {
        return Ok(());
    }

    for rival in called(cloud, &want.name)?
        .into_iter()
        .filter(|rival| rival.id != kept.id)
    {
        let ownership = whose(cloud, &rival, want, service, true)?;
        let found = Found {
            load_balancer: rival,
            by_name: true,
        };
        if proof::is_foreign(cloud, service, want, &found, None)? {
            continue;
        }

        let rival = found.load_balancer;
        match rival.phase() {
            Phase::Going => {}
            _ if fate(&rival, &ownership) == Fate::Stays => {}
            Phase::Pending => {
                return Err(at_work(
                    cloud,
                    &rival.id,
                    "is a duplicate and will be deleted",
                ));
            }
            Phase::Active | Phase::Failed => {
                floating::release(cloud, &rival, want.floating.keep)?;
                return delete(cloud, service, want, rival, &ownership);
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
fn remains(cloud: &Cloud<'_>, service: &Service, want: &Want, keep: bool) -> Result<()> {
    let unknown = !served(service) && create::is_new_process(cloud);
    if unknown || create::is_unanswered(cloud, &want.name) {
        return Err(CloudError::in_progress(
            create::UNANSWERED / 3,
            create::unconfirmed(&want.name),
        ));
    }

    if !keep {
        floating::sweep(cloud, service)?;
    }
    security::remove(cloud, service)?;

    if is_noted(service) || !want.id.is_empty() {
        forget(cloud, service);
    }
    Ok(())
}

fn delete(
    cloud: &Cloud<'_>,
    service: &Service,
    want: &Want,
    balancer: LoadBalancer,
    ownership: &Ownership,
) -> Result<()> {
    let id = balancer.id.clone();

    // Individual parts of a load balancer in ERROR cannot be deleted.
    let cascade = cloud.config.load_balancer.cascade_delete || balancer.phase() == Phase::Failed;
    if !cascade {
        let tree = read(cloud, balancer, want, ownership, Depth::Listeners)?;

        // All listeners are deleted regardless of their tags, because the load balancer cannot be
        // deleted without them.
        let mut steps: Vec<Step> = tree
            .listeners
            .iter()
            .flat_map(|listener| remove(&tree, listener))
            .collect();

        let unused = tree.pools.iter().filter(|pool| pool.listeners.is_empty());
        steps.extend(unused.map(|pool| Step::delete("pool", &pool.id)));
        todo::begin(cloud, service, &id, 0, &steps, None)?.complete()?;
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
fn leave(want: &Want, tree: &Tree, ownership: &Ownership, cluster: &str) -> Vec<Step> {
    let is_own = |tag: &String| ownership.is_own_tag(tag, want, cluster);
    let mut tree = tree.clone();

    // `plan_removal` does not know the previous name of the cluster.
    for listener in tree
        .listeners
        .iter_mut()
        .filter(|listener| listener.tags.iter().any(is_own))
    {
        listener.tags.push(want.name.clone());
    }

    let mut steps = plan_removal(want, &tree, ownership);
    let balancer = &tree.load_balancer;
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

    fn fate_of(name: &str, tags: &[&str], serves: bool) -> Fate {
        let balancer = LoadBalancer {
            name: name.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..LoadBalancer::default()
        };
        let want = Want {
            name: "kube_service_c_shop_web".to_owned(),
            ..Want::default()
        };
        let service = Service {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            ..Service::default()
        };
        fate(
            &balancer,
            &Ownership::of(&balancer, &want, &service, "c", false, serves),
        )
    }

    #[test]
    fn a_load_balancer_is_deleted_with_its_last_service() {
        let (own, other) = ("kube_service_c_shop_web", "kube_service_c_shop_other");
        assert_eq!(fate_of(own, &[own], true), Fate::Goes);
        assert_eq!(fate_of(own, &[], true), Fate::Goes);
        assert_eq!(fate_of(own, &[own, other], true), Fate::Stays);
        assert_eq!(fate_of(own, &[other], true), Fate::Stays);
        assert_eq!(fate_of(other, &[own], true), Fate::Goes);
        assert_eq!(fate_of(other, &[own, other], true), Fate::Stays);
        assert_eq!(fate_of("mine", &[own], true), Fate::Stays);
        // It was created for another Service before tags were used, and never belonged to this one.
        assert_eq!(fate_of(other, &[], true), Fate::Stays);
    }

    #[test]
    fn a_renamed_cluster_still_owns_its_load_balancers() {
        let old = "kube_service_old_shop_web";
        assert_eq!(fate_of(old, &[old], true), Fate::Goes);
    }

    #[test]
    fn a_copied_manifest_deletes_nothing_of_the_other_cluster() {
        let theirs = "kube_service_old_shop_web";
        assert_eq!(fate_of(theirs, &[theirs], false), Fate::Stays);
    }
}
