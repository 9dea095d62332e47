//! The life of a load balancer, as controllers call it.

use std::sync::Arc;

use skydock_cloud::{Answer, Capability, CloudError, Function, LoadBalancerStatus, Node};

use crate::{
    Verdict,
    harness::{
        fake_cluster::FakeCluster, loaded_plugin::LoadedPlugin, objects, observation::Observation,
    },
    judge::{self, difference, failed, sequence, skipped},
};

/// The calls in their order.
struct Life {
    before: Observation,
    missing: Observation,
    first: Observation,
    again: Observation,
    get: Observation,
    get_twice: Observation,
    without_nodes: Observation,
    update: Observation,
    get_again: Observation,
    delete: Observation,
    delete_again: Observation,
    gone: Observation,
}

/// The same life in one instance, and in a fresh instance for each call.
#[derive(Default)]
pub(super) struct LoadBalancerObservations {
    kept: Option<Life>,
    fresh: Option<Life>,
}

pub(super) async fn run(
    plugin: &LoadedPlugin,
    fresh: &LoadedPlugin,
    nodes: &[Arc<Node>],
    cluster: &FakeCluster,
) -> LoadBalancerObservations {
    if !plugin.info().can(Capability::LoadBalancers) {
        return LoadBalancerObservations::default();
    }
    LoadBalancerObservations {
        kept: Some(live(plugin, nodes, cluster).await),
        fresh: Some(live(fresh, nodes, cluster).await),
    }
}

async fn live(plugin: &LoadedPlugin, nodes: &[Arc<Node>], cluster: &FakeCluster) -> Life {
    let mut with = objects::arguments(nodes);
    cluster.set_service(Some(&with.service));

    let unknown = "a Service without a load balancer";
    let before = plugin.call(Function::Get, unknown, &with).await;
    let missing = plugin.call(Function::UpdateNodes, unknown, &with).await;

    let (first, answer) = plugin.answer(Function::Ensure, "a Service", &with).await;
    // Controllers pass the status that they have written.
    if let Some(Answer::Ensure(status)) = answer {
        with.service.status = status;
    }
    cluster.set_service(Some(&with.service));

    let again = plugin
        .call(Function::Ensure, "the same Service again", &with)
        .await;

    let get = plugin.call(Function::Get, "a Service", &with).await;
    let get_twice = plugin.call(Function::Get, "a Service again", &with).await;

    let nodes = std::mem::take(&mut with.node_set);
    let without_nodes = plugin
        .call(Function::Ensure, "a Service and no nodes", &with)
        .await;
    with.node_set = nodes;
    let update = plugin.call(Function::UpdateNodes, "a Service", &with).await;
    let get_again = plugin.call(Function::Get, "a Service", &with).await;

    // The Service still exists: Kubernetes deletes it when its finalizer is removed.
    with.service.deleting = true;
    cluster.set_service(Some(&with.service));
    let delete = plugin
        .call(Function::EnsureDeleted, "a Service", &with)
        .await;
    let delete_again = plugin
        .call(Function::EnsureDeleted, "a deleted Service", &with)
        .await;

    with.service.status = LoadBalancerStatus::default();
    cluster.set_service(None);
    let gone = plugin.call(Function::Get, "a deleted Service", &with).await;

    Life {
        before,
        missing,
        first,
        again,
        get,
        get_twice,
        without_nodes,
        update,
        get_again,
        delete,
        delete_again,
        gone,
    }
}

impl Life {
    fn all(&self) -> [&Observation; 12] {
        [
            &self.before,
            &self.missing,
            &self.first,
            &self.again,
            &self.get,
            &self.get_twice,
            &self.without_nodes,
            &self.update,
            &self.get_again,
            &self.delete,
            &self.delete_again,
            &self.gone,
        ]
    }
}

impl LoadBalancerObservations {
    fn lives(&self) -> impl Iterator<Item = &Life> {
        self.kept.iter().chain(&self.fresh)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Observation> {
        self.lives().flat_map(Life::all)
    }

    /// Returns the calls that must have the same answers in both lives.
    pub(super) fn pairs(&self) -> Vec<(Observation, Observation)> {
        let (Some(kept), Some(fresh)) = (&self.kept, &self.fresh) else {
            return Vec::new();
        };
        kept.all()
            .into_iter()
            .cloned()
            .zip(fresh.all().into_iter().cloned())
            .collect()
    }

    /// Returns the verdict of `problem` about the first life that has one.
    fn judged(
        &self,
        needs: fn(&Life) -> Vec<&Observation>,
        problem: fn(&Life) -> Option<Verdict>,
    ) -> Verdict {
        for life in self.lives() {
            if let Some(verdict) = sequence(&needs(life)).or_else(|| problem(life)) {
                return verdict;
            }
        }

        if self.kept.is_none() {
            skipped("it does not export `load-balancers`")
        } else {
            Verdict::Ok
        }
    }

    pub(super) fn ensure_again(&self) -> Verdict {
        self.judged(
            |it| vec![&it.first, &it.again, &it.get, &it.get_again],
            |it| {
                let pairs = [
                    (&it.first, &it.again),
                    (&it.first, &it.get),
                    (&it.get, &it.get_twice),
                    (&it.get, &it.get_again),
                ];

                let found = pairs.into_iter().find_map(|(one, other)| {
                    difference(one, other)
                        .map(|seen| format!("{}, then {}: {seen}", one.call(), other.call()))
                });

                let hint = "find what exists before you create it, and change nothing in `get`";
                found
                    .map(|seen| failed("the same complete status", seen, hint))
                    .or_else(|| updated(&it.update))
            },
        )
    }

    pub(super) fn update_missing(&self) -> Verdict {
        self.judged(
            |it| {
                if it.missing.denied > 0 {
                    vec![&it.missing]
                } else {
                    vec![&it.first]
                }
            },
            |it| {
                match &it.missing.answer {
                    Err(CloudError::NotFound(_)) => None,
                    Err(error) => Some(error.to_string()),
                    Ok(_) => Some("success".to_owned()),
                }
                .map(|seen| {
                    failed(
                        "`not-found`",
                        seen,
                        "look for the load balancer in `update-nodes`, and do not create it",
                    )
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

                let is_gone = it
                    .gone
                    .elements()
                    .iter()
                    .all(|it| it.as_ref().is_ok_and(|value| value.denies));

                let seen = || format!("{}: {:?}", it.gone.call(), it.gone.answer);
                (!is_gone).then(|| {
                    failed(
                        "no load balancer after `ensure-deleted`",
                        seen(),
                        "delete everything",
                    )
                })
            },
        )
    }

    /// Judges empty lists, and a load balancer without nodes.
    pub(super) fn empty(&self, lists: &[Observation]) -> Verdict {
        let worked = |it: &&Life| it.first.answer.is_ok() && it.without_nodes.answer.is_err();
        if let Some(life) = self.lives().find(worked) {
            let seen = format!(
                "{}: {:?}",
                life.without_nodes.call(),
                life.without_nodes.errors()
            );
            return failed(
                "a load balancer without targets",
                seen,
                "accept that there are no nodes",
            );
        }

        judge::empty(&lists.iter().collect::<Vec<_>>())
    }
}

/// Judges `update-nodes` of a load balancer that exists. It may not be ready for a change.
fn updated(update: &Observation) -> Option<Verdict> {
    let error = update
        .errors()
        .into_iter()
        .next()
        .filter(|_| !update.is_hosts())?;

    let is_early = matches!(error, CloudError::InProgress(_) | CloudError::Throttled(_));
    let seen = format!("{}: {error}", update.call());
    (!is_early).then(|| {
        failed(
            "success",
            seen,
            "find the load balancer that `ensure` has created",
        )
    })
}
