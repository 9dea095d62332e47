//! The life of a load balancer, and of routes, as controllers call it.

use std::sync::Arc;

use skydock_cloud::{Capability, CloudError, LoadBalancerStatus, Node, NodeSet};

use crate::{
    Verdict,
    judge::{self, difference, failed, sequence, skipped},
    objects,
    observation::Observation,
    scene::Scene,
    stage::Stage,
};

/// The calls in their order.
struct Life {
    missing: Observation,
    first: Observation,
    again: Observation,
    get: Observation,
    without_nodes: Observation,
    update: Observation,
    get_again: Observation,
    delete: Observation,
    delete_again: Observation,
    gone: Observation,
}

/// The same life in one instance, and in a fresh instance for each call.
pub(super) struct Balanced {
    kept: Option<Life>,
    fresh: Option<Life>,
}

pub(super) async fn run(scene: &Scene, fresh: &Scene, nodes: &[Arc<Node>], stage: &Stage) -> Balanced {
    if !scene.info().can(Capability::LoadBalancers) {
        return Balanced { kept: None, fresh: None };
    }
    Balanced { kept: Some(live(scene, nodes, stage).await), fresh: Some(live(fresh, nodes, stage).await) }
}

async fn live(scene: &Scene, nodes: &[Arc<Node>], stage: &Stage) -> Life {
    let (mut service, nodes): (_, NodeSet) = (objects::service(), nodes.to_vec().into());
    stage.serve(Some(&service));
    let missing = scene.update("a Service without a load balancer", &service, &nodes).await;
    let (first, status) = scene.ensure("a Service", &service, &nodes).await;
    service.status = status.unwrap_or_default();
    stage.serve(Some(&service));
    let (again, _) = scene.ensure("the same Service again", &service, &nodes).await;
    let get = scene.get("a Service", &service).await;
    let (without_nodes, _) = scene.ensure("a Service and no nodes", &service, &NodeSet::default()).await;
    let update = scene.update("a Service", &service, &nodes).await;
    let get_again = scene.get("a Service", &service).await;
    service.deleting = true;
    stage.serve(Some(&service));
    let delete = scene.delete("a Service", &service).await;
    let delete_again = scene.delete("a deleted Service", &service).await;
    service.status = LoadBalancerStatus::default();
    stage.serve(None);
    let gone = scene.get("a deleted Service", &service).await;
    Life { missing, first, again, get, without_nodes, update, get_again, delete, delete_again, gone }
}

impl Life {
    fn all(&self) -> [&Observation; 10] {
        [
            &self.missing,
            &self.first,
            &self.again,
            &self.get,
            &self.without_nodes,
            &self.update,
            &self.get_again,
            &self.delete,
            &self.delete_again,
            &self.gone,
        ]
    }
}

impl Balanced {
    fn lives(&self) -> impl Iterator<Item = &Life> {
        self.kept.iter().chain(&self.fresh)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Observation> {
        self.lives().flat_map(Life::all)
    }

    /// Returns the calls that must have the same answers in both lives.
    pub(super) fn pairs(&self) -> Vec<(Observation, Observation)> {
        let (Some(kept), Some(fresh)) = (&self.kept, &self.fresh) else { return Vec::new() };
        kept.all().into_iter().cloned().zip(fresh.all().into_iter().cloned()).collect()
    }

    /// Returns the verdict of `problem` about the first life that has one.
    fn judged(&self, needs: fn(&Life) -> Vec<&Observation>, problem: fn(&Life) -> Option<Verdict>) -> Verdict {
        for life in self.lives() {
            if let Some(verdict) = sequence(&needs(life)).or_else(|| problem(life)) {
                return verdict;
            }
        }
        if self.kept.is_none() { skipped("it does not export `load-balancers`") } else { Verdict::Ok }
    }

    pub(super) fn ensure_again(&self) -> Verdict {
        self.judged(
            |it| vec![&it.first, &it.again, &it.get, &it.get_again],
            |it| {
                let pairs = [(&it.first, &it.again), (&it.first, &it.get), (&it.get, &it.get_again)];
                let found = pairs.into_iter().find_map(|(one, other)| {
                    difference(one, other).map(|seen| format!("{}, then {}: {seen}", one.call(), other.call()))
                });
                found.map(|seen| failed("the same complete status", seen, "find what exists before you create it"))
            },
        )
    }

    pub(super) fn update_missing(&self) -> Verdict {
        self.judged(
            |it| if it.missing.denied > 0 { vec![&it.missing] } else { vec![&it.first] },
            |it| {
                match &it.missing.answer {
                    Err(CloudError::NotFound(_)) => None,
                    Err(error) => Some(error.to_string()),
                    Ok(_) => Some("success".to_owned()),
                }
                .map(|seen| {
                    failed("`not-found`", seen, "look for the load balancer in `update-nodes`, and do not create it")
                })
            },
        )
    }

    pub(super) fn delete_twice(&self) -> Verdict {
        self.judged(
            |it| vec![&it.delete],
            |it| {
                let hint = "treat what does not exist as deleted";
                if let Some(error) = it.delete_again.errors().first() {
                    return Some(failed("success", error.to_string(), hint));
                }
                let is_gone = it.gone.elements().iter().all(|it| it.as_ref().is_ok_and(|value| value.denies));
                let seen = || format!("{}: {:?}", it.gone.call(), it.gone.answer);
                (!is_gone).then(|| failed("no load balancer after `ensure-deleted`", seen(), "delete everything"))
            },
        )
    }

    /// Judges empty lists, and a load balancer without nodes.
    pub(super) fn empty(&self, lists: &[Observation]) -> Verdict {
        let worked = |it: &&Life| it.first.answer.is_ok() && it.without_nodes.answer.is_err();
        if let Some(life) = self.lives().find(worked) {
            let seen = format!("{}: {:?}", life.without_nodes.call(), life.without_nodes.errors());
            return failed("a load balancer without targets", seen, "accept that there are no nodes");
        }
        judge::empty(&lists.iter().collect::<Vec<_>>())
    }
}

/// Lists, creates twice, lists, deletes twice, lists.
pub(super) async fn routes(scene: &Scene, nodes: &[Arc<Node>]) -> Vec<Observation> {
    if !scene.info().can(Capability::Routes) {
        return Vec::new();
    }
    let wanted = objects::routes(nodes);
    let mut seen = vec![scene.create_routes("new routes", &wanted).await];
    seen.push(scene.create_routes("existing routes", &wanted).await);
    let (listed, routes) = scene.list_routes("nothing").await;
    seen.extend([listed, scene.list_routes("nothing").await.0]);
    let ours: Vec<_> =
        routes.into_iter().filter(|it| wanted.iter().any(|new| new.destination_cidr == it.destination_cidr)).collect();
    seen.push(scene.delete_routes("routes", &ours).await);
    seen.push(scene.delete_routes("deleted routes", &ours).await);
    seen
}

pub(super) fn routes_again(seen: &[Observation], exported: bool) -> Verdict {
    let [created, again, listed, listed_again, deleted, deleted_again] = seen else {
        return skipped(if exported { "the calls were not made" } else { "it does not export `routes`" });
    };
    if let Some(verdict) = sequence(&[created, listed, deleted]) {
        return verdict;
    }
    let repeated = [(created, again), (deleted, deleted_again), (listed, listed_again)];
    let found = repeated.into_iter().find_map(|(one, other)| {
        difference(one, other).map(|seen| format!("{}, then {}: {seen}", one.call(), other.call()))
    });
    found.map_or(Verdict::Ok, |seen| {
        failed("the same result", seen, "treat a route that is as it should be as a success")
    })
}
