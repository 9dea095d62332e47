//! Takes a load balancer away, with all that was made for it.

use skydock_sdk::{
    Result,
    http::Method,
    types::{CloudError, Service},
};

use super::{
    annotation, at_work, create,
    ensure::take,
    find::{Found, called, find},
    floating, forget, is_noted, names,
    plan::{Step, plan_removal},
    read::{Depth, read},
    security, served, todo,
    tree::{Ownership, Tree},
    want::Want,
};
use crate::{
    cloud::Cloud,
    octavia::{LoadBalancer, Phase},
};

/// What is to become of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was made for this Service, or for one that has left it, and serves no other: it goes.
    Goes,
    /// It stays, without what this Service has on it.
    Stays,
}

/// Upstream deletes whatever was made for any Service and has no other tag; one that this Service was never put on stays here.
fn fate(balancer: &LoadBalancer, ownership: &Ownership) -> Fate {
    let made_for_a_service = ownership.owner || balancer.name.starts_with(names::SERVICE_PREFIX);
    if made_for_a_service && (ownership.owner || ownership.attached) && !ownership.is_shared() {
        Fate::Goes
    } else {
        Fate::Stays
    }
}

/// Takes the load balancer of this Service away. Success if there is none.
///
/// # Errors
/// "In progress" while Octavia is at work; else what keeps it from going.
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
        // One was made for this Service before it was led to another.
        let own = called(cloud, &want.name)?.into_iter().find(|own| own.id != id);
        if let Some(load_balancer) = own {
            take_off(cloud, service, &want, Found { load_balancer, by_name: true }, keep)?;
        }
    }
    security::remove(cloud, service)
}

/// Deletes a load balancer, or what this Service has on it if it stays. Success if it stays.
///
/// # Errors
/// As [`ensure_deleted`]; "in progress", too, once its deletion was asked for.
fn take_off(cloud: &Cloud<'_>, service: &Service, want: &Want, found: Found, keep: bool) -> Result<()> {
    let balancer = found.load_balancer;
    let ownership = Ownership::of(&balancer, want, service, cloud.cluster, found.by_name);
    let fate = fate(&balancer, &ownership);
    match balancer.phase() {
        Phase::Going => return Err(at_work(cloud, &balancer.id, "is being deleted")),
        Phase::Pending => return Err(at_work(cloud, &balancer.id, "is being changed, and deleted then")),
        Phase::Failed if fate == Fate::Stays => {
            return Err(CloudError::unavailable(format!(
                "load balancer {} is in ERROR and takes no changes: listeners of this Service cannot be deleted",
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

/// Takes away what else was made under this name for a Service that was never served: two who did not know of each other may both have
/// asked for it.
///
/// # Errors
/// "In progress" until the others are on their way; else what keeps one from going.
pub(super) fn rivals(cloud: &Cloud<'_>, service: &Service, want: &Want, kept: &LoadBalancer) -> Result<()> {
    if kept.name != want.name || served(service) {
        return Ok(());
    }
    for rival in called(cloud, &want.name)?.into_iter().filter(|rival| rival.id != kept.id) {
        let ownership = Ownership::of(&rival, want, service, cloud.cluster, true);
        match rival.phase() {
            Phase::Going => {}
            _ if fate(&rival, &ownership) == Fate::Stays => {}
            Phase::Pending => return Err(at_work(cloud, &rival.id, "was made twice, and is deleted then")),
            Phase::Active | Phase::Failed => {
                floating::release(cloud, &rival)?;
                return delete(cloud, service, want, rival, &ownership);
            }
        }
    }
    Ok(())
}

/// With a load balancer that is gone its floating IP and security group go, too.
///
/// # Errors
/// "In progress" as long as one may still come that was asked for.
fn remains(cloud: &Cloud<'_>, service: &Service, want: &Want, keep: bool) -> Result<()> {
    if create::is_unanswered(cloud, &want.name) {
        let message = format!("load balancer {} was asked for without an answer, and may still come", want.name);
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
    let cascade = cloud.config.load_balancer.cascade_delete;
    if !cascade {
        let tree = read(cloud, balancer, want, ownership, Depth::Listeners)?;
        let all = Ownership { owner: true, ..ownership.clone() };
        let mut steps = plan_removal(want, &tree, &all);
        steps.extend(tree.pools.iter().filter(|pool| pool.listeners.is_empty()).map(|pool| Step {
            method: Method::Delete,
            path: format!("/lbaas/pools/{}", pool.id),
            body: None,
            what: format!("cannot delete pool {}", pool.id),
            optional: None,
        }));
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
    take(cloud, &step)?;
    Err(at_work(cloud, &id, "is being deleted"))
}

/// This Service's listeners go, then its tag.
fn leave(want: &Want, tree: &Tree, ownership: &Ownership) -> Vec<Step> {
    let mut steps = plan_removal(want, tree, ownership);
    let balancer = &tree.load_balancer;
    if ownership.attached && balancer.tags.contains(&want.name) {
        let tags: Vec<&String> = balancer.tags.iter().filter(|tag| **tag != want.name).collect();
        steps.push(Step {
            method: Method::Put,
            path: format!("/lbaas/loadbalancers/{}", balancer.id),
            body: Some(serde_json::json!({"loadbalancer": {"tags": tags}})),
            what: format!("cannot take the Service off load balancer {}", balancer.id),
            optional: None,
        });
    }
    steps
}

#[cfg(test)]
mod tests {
    use skydock_sdk::types::Ingress;

    use super::*;

    fn fate_of(name: &str, tags: &[&str], has_address: bool) -> Fate {
        let balancer = LoadBalancer {
            name: name.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..LoadBalancer::default()
        };
        let want = Want { name: "kube_service_c_shop_web".to_owned(), ..Want::default() };
        let mut service = Service { namespace: "shop".to_owned(), name: "web".to_owned(), ..Service::default() };
        service.status.ingress.extend(has_address.then(Ingress::default));
        fate(&balancer, &Ownership::of(&balancer, &want, &service, "c", false))
    }

    #[test]
    fn a_load_balancer_goes_with_its_last_service() {
        let (own, other) = ("kube_service_c_shop_web", "kube_service_c_shop_other");
        assert_eq!(fate_of(own, &[own], true), Fate::Goes);
        assert_eq!(fate_of(own, &[], true), Fate::Goes);
        assert_eq!(fate_of(own, &[own, other], true), Fate::Stays);
        assert_eq!(fate_of(own, &[other], true), Fate::Stays);
        assert_eq!(fate_of(other, &[own], true), Fate::Goes);
        assert_eq!(fate_of(other, &[own, other], true), Fate::Stays);
        assert_eq!(fate_of("mine", &[own], true), Fate::Stays);
        // Made for another Service before there were tags, and never this one's.
        assert_eq!(fate_of(other, &[], true), Fate::Stays);
    }

    #[test]
    fn a_service_of_a_cluster_that_was_renamed_is_the_same() {
        let old = "kube_service_old_shop_web";
        assert_eq!(fate_of(old, &[old], true), Fate::Goes);
    }

    #[test]
    fn a_copied_manifest_deletes_nothing_of_the_first_cluster() {
        let theirs = "kube_service_old_shop_web";
        assert_eq!(fate_of(theirs, &[theirs], false), Fate::Stays);
    }
}
