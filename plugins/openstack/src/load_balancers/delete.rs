//! Deletes a load balancer and everything that was created for it.

use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, Service},
};

use super::{
    annotation, at_work, create,
    find::{Found, called, find, whose},
    floating, forget, is_noted, names,
    plan::{plan_removal, remove},
    read::{Depth, read},
    security, served,
    step::Step,
    todo,
    tree::{Ownership, Tree},
    want::Want,
};
use crate::{
    cloud::Cloud,
    host::Event,
    octavia::{LoadBalancer, Member, Phase},
};

/// What happens to a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was created for this Service, or for one that has left it, and no other Service uses it, so it is deleted.
    Goes,
    /// It is kept, without the parts of this Service.
    Stays,
}

/// Decides what happens to a load balancer. Upstream deletes every load balancer that was created for any Service and has no
/// other tag. Here, a load balancer that this Service was never attached to is kept.
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
    let keep = annotation::boolean(service, annotation::KEEP_FLOATING_IP, false);
    let deleting = Service { deleting: true, ..service.clone() };
    let Some(found) = find(cloud, &want.id, &want.name, &deleting)? else {
        return remains(cloud, service, &want, keep);
    };
    let (id, by_name) = (found.load_balancer.id.clone(), found.by_name);
    take_off(cloud, service, &want, found, keep)?;
    if !by_name {
        // A load balancer may have been created for this Service before it was switched to another one.
        for load_balancer in called(cloud, &want.name)?.into_iter().filter(|own| own.id != id) {
            if leads_here(cloud, &want, &load_balancer)? {
                take_off(cloud, service, &want, Found { load_balancer, by_name: true }, keep)?;
            } else {
                let message = format!(
                    "Load balancer {} has the name for this Service, which uses another one, and its members do not belong to this cluster: \
                     it is not changed",
                    load_balancer.id
                );
                cloud.host.tell(service, &Event::warning("LoadBalancerLeft", message));
            }
        }
    }
    security::remove(cloud, service)
}

/// Returns true if all members of a load balancer are nodes of this cluster: another cluster may have the same name and a Service
/// with this name.
fn leads_here(cloud: &Cloud<'_>, want: &Want, balancer: &LoadBalancer) -> Result<bool> {
    let tree = read(cloud, balancer.clone(), want, &Ownership { owner: true, ..Ownership::default() }, Depth::Members)?;
    let nodes = cloud.host.nodes().unwrap_or_default();
    let is_node = |member: &Member| {
        nodes.iter().any(|node| node.addresses.iter().any(|address| address.address == member.address))
    };
    let mut members = tree.members.values().flatten().peekable();
    Ok(members.peek().is_some() && members.all(is_node))
}

/// Deletes a load balancer, or the parts of this Service if it is kept. Succeeds if it is kept.
///
/// # Errors
/// See [`ensure_deleted`]. Also returns "in progress" after the deletion was requested.
fn take_off(cloud: &Cloud<'_>, service: &Service, want: &Want, found: Found, keep: bool) -> Result<()> {
    let balancer = found.load_balancer;
    let ownership = whose(cloud, &balancer, want, service, found.by_name)?;
    let fate = fate(&balancer, &ownership);
    match balancer.phase() {
        Phase::Going => return Err(at_work(cloud, &balancer.id, "is being deleted")),
        Phase::Pending => return Err(at_work(cloud, &balancer.id, "is being changed and will be deleted afterwards")),
        Phase::Failed if fate == Fate::Stays => {
            return Err(CloudError::unavailable(format!(
                "load balancer {} is in ERROR and cannot be changed: listeners of this Service cannot be deleted",
                balancer.id
            )));
        }
        Phase::Failed | Phase::Active => {}
    }
    match fate {
        Fate::Goes => {
            if keep {
                floating::keep(cloud, service, &balancer)?;
            } else {
                floating::release(cloud, &balancer)?;
            }
            security::remove(cloud, service)?;
            delete(cloud, service, want, balancer, &ownership)
        }
        Fate::Stays => {
            let id = balancer.id.clone();
            let tree = read(cloud, balancer, want, &ownership, Depth::Listeners)?;
            todo::begin(cloud, service, &id, 0, &leave(want, &tree, &ownership))
        }
    }
}

/// Deletes other load balancers with this name, which are for a Service that never had an address: two clients that did not know
/// of each other may both have created one.
///
/// # Errors
/// Returns "in progress" until the others are being deleted, otherwise the error that prevents it.
pub(super) fn rivals(cloud: &Cloud<'_>, service: &Service, want: &Want, kept: &LoadBalancer) -> Result<()> {
    if kept.name != want.name || served(service) {
        return Ok(());
    }
    for rival in called(cloud, &want.name)?.into_iter().filter(|rival| rival.id != kept.id) {
        let ownership = whose(cloud, &rival, want, service, true)?;
        match rival.phase() {
            Phase::Going => {}
            _ if fate(&rival, &ownership) == Fate::Stays => {}
            Phase::Pending => return Err(at_work(cloud, &rival.id, "was created twice and will be deleted")),
            Phase::Active | Phase::Failed => {
                floating::release(cloud, &rival)?;
                return delete(cloud, service, want, rival, &ownership);
            }
        }
    }
    Ok(())
}

/// Deletes the floating IP and the security group that remain without their load balancer.
///
/// # Errors
/// Returns "in progress" as long as an unconfirmed creation can still succeed.
fn remains(cloud: &Cloud<'_>, service: &Service, want: &Want, keep: bool) -> Result<()> {
    if create::is_unanswered(cloud, &want.name) {
        let message = format!("creation of load balancer {} was not confirmed, and may still succeed", want.name);
        return Err(CloudError::in_progress(create::UNANSWERED / 3, message));
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
        // All listeners are deleted regardless of their tags, because the load balancer cannot be deleted without them.
        let mut steps: Vec<Step> = tree.listeners.iter().flat_map(|listener| remove(&tree, listener)).collect();
        let unused = tree.pools.iter().filter(|pool| pool.listeners.is_empty());
        steps.extend(unused.map(|pool| Step::delete("pool", &pool.id)));
        todo::begin(cloud, service, &id, 0, &steps)?;
    }
    let query = if cascade { "?cascade=true" } else { "" };
    let step = Step {
        method: Method::Delete,
        path: format!("/lbaas/loadbalancers/{id}{query}"),
        body: None,
        what: format!("cannot delete load balancer {id}"),
        optional: None,
    };
    step.take(cloud)?;
    Err(at_work(cloud, &id, "is being deleted"))
}

/// Returns the steps that delete this Service's listeners, then its tag.
fn leave(want: &Want, tree: &Tree, ownership: &Ownership) -> Vec<Step> {
    let mut steps = plan_removal(want, tree, ownership);
    let balancer = &tree.load_balancer;
    if ownership.attached && balancer.tags.contains(&want.name) {
        let tags: Vec<&String> = balancer.tags.iter().filter(|tag| **tag != want.name).collect();
        steps.push(Step {
            method: Method::Put,
            path: format!("/lbaas/loadbalancers/{}", balancer.id),
            body: Some(serde_json::json!({"loadbalancer": {"tags": tags}})),
            what: format!("cannot remove the Service from load balancer {}", balancer.id),
            optional: None,
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
        let want = Want { name: "kube_service_c_shop_web".to_owned(), ..Want::default() };
        let service = Service { namespace: "shop".to_owned(), name: "web".to_owned(), ..Service::default() };
        fate(&balancer, &Ownership::of(&balancer, &want, &service, "c", false, serves))
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
