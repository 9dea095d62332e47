//! Calls about nodes, and those of other interfaces that change nothing.

use std::sync::Arc;

use futures::future::join_all;
use skydock_cloud::{Capability, Node};

use crate::{
    Verdict,
    judge::{self, equal},
    objects,
    observation::Observation,
    scene::Scene,
};

/// Observations of calls about nodes.
pub(super) struct Calls {
    once: Vec<Observation>,
    again: Vec<Observation>,
    /// Answers to the reversed list, in the order of the list.
    reversed: Vec<Observation>,
    /// Answers to single questions, put together.
    single: Vec<Observation>,
    fresh: Vec<Observation>,
    concurrent: Vec<(Observation, Observation)>,
    others: Vec<Observation>,
    pub(super) empty: Vec<Observation>,
    pub(super) unusual: Vec<Observation>,
}

const UNUSUAL: &str = "unusual objects";

/// Asks all functions about nodes.
async fn ask(scene: &Scene, with: &'static str, nodes: &[Arc<Node>]) -> Vec<Observation> {
    let (info, mut seen) = (scene.info(), Vec::new());
    if info.can(Capability::Instances) {
        seen.push(scene.check(with, nodes).await);
        seen.push(scene.describe(with, nodes).await);
    }
    if info.can(Capability::Zones) {
        seen.push(scene.locate(with, nodes).await);
    }
    seen
}

/// Calls the functions in `scene`, and in `fresh`, which has an instance for each call.
pub(super) async fn run(scene: &Scene, fresh: &Scene, nodes: &[Arc<Node>]) -> Calls {
    let once = ask(scene, "nodes", nodes).await;
    let again = ask(scene, "the same nodes again", nodes).await;
    let turned: Vec<_> = nodes.iter().rev().cloned().collect();
    let mut reversed = ask(scene, "nodes in reverse order", &turned).await;
    for it in &mut reversed {
        if let Ok(elements) = &mut it.answer {
            elements.reverse();
        }
    }
    let mut single = Vec::new();
    for node in nodes {
        single.push(ask(scene, "one node", std::slice::from_ref(node)).await);
    }
    let concurrent = join_all((0..4).map(|_| ask(fresh, "nodes, four calls at a time", nodes))).await;
    let concurrent = concurrent.into_iter().flat_map(|seen| once.iter().cloned().zip(seen)).collect();
    let mut unusual = ask(scene, UNUSUAL, &objects::unusual_nodes(&scene.info())).await;
    if scene.info().can(Capability::LoadBalancers) {
        let service = objects::unusual_service();
        unusual.push(scene.get(UNUSUAL, &service).await);
        unusual.push(scene.delete(UNUSUAL, &service).await);
    }
    let mut others = Vec::new();
    if scene.info().can(Capability::Maintenance) {
        others.push(scene.maintain().await);
    }
    Calls {
        single: joined(&once, &single),
        fresh: ask(fresh, "nodes in a fresh instance", nodes).await,
        empty: ask(scene, "no nodes", &[]).await,
        once,
        again,
        reversed,
        concurrent,
        others,
        unusual,
    }
}

/// Puts the answers to single questions together, for each function.
fn joined(once: &[Observation], single: &[Vec<Observation>]) -> Vec<Observation> {
    let of = |(index, whole): (usize, &Observation)| {
        let parts: Vec<_> = single.iter().filter_map(|seen| seen.get(index)).collect();
        Observation {
            with: "one node at a time",
            answer: Ok(parts.iter().flat_map(|it| it.elements()).collect()),
            ended: parts.iter().flat_map(|it| it.ended.clone()).collect(),
            rejected: parts.iter().map(|it| it.rejected).sum(),
            denied: parts.iter().map(|it| it.denied).sum(),
            ..whole.clone()
        }
    };
    once.iter().enumerate().map(of).collect()
}

fn pairs(one: &[Observation], other: &[Observation]) -> Vec<(Observation, Observation)> {
    one.iter().cloned().zip(other.iter().cloned()).collect()
}

impl Calls {
    pub(super) fn all(&self) -> impl Iterator<Item = &Observation> {
        [&self.once, &self.again, &self.reversed, &self.single, &self.fresh, &self.others, &self.empty, &self.unusual]
            .into_iter()
            .flatten()
    }

    pub(super) fn is_unusual(&self, seen: &Observation) -> bool {
        seen.with == UNUSUAL
    }

    pub(super) fn order(&self) -> Verdict {
        let mut all = pairs(&self.once, &self.reversed);
        all.extend(pairs(&self.once, &self.single));
        equal(&all, "the answer of each node at its place, alone or with others", "answer in the order of the list")
    }

    pub(super) fn repeatable(&self) -> Verdict {
        equal(&pairs(&self.once, &self.again), "the same answer", "answer from the cloud's state only")
    }

    pub(super) fn two_instances(&self) -> Verdict {
        equal(&self.concurrent, "the same answers", "declare `overlap` if calls may not run at the same time")
    }

    pub(super) fn no_memory(&self, more: Vec<(Observation, Observation)>) -> Verdict {
        let mut all = pairs(&self.again, &self.fresh);
        all.extend(more);
        equal(
            &all,
            "the same answer from an instance that has just been created",
            "keep state in the cloud or in `cache`",
        )
    }
}

/// Asks about a node with the provider ID of one instance and the name of another.
pub(super) async fn lookup(scene: &Scene, nodes: &[Arc<Node>]) -> Verdict {
    if !scene.info().can(Capability::Instances) {
        return judge::skipped("it does not export `instances`");
    }
    let mut unset = nodes.iter().filter(|node| node.provider_id.is_none());
    let (Some(one), Some(other)) = (unset.next(), unset.next()) else {
        return judge::skipped("it takes one node at a time");
    };
    let describe = async |node: &Arc<Node>| scene.describe("one node", std::slice::from_ref(node)).await;
    let (first, second) = (describe(one).await, describe(other).await);
    let provider_id = scene.provider_id(one).await;
    let by_id = describe(&Arc::new(Node { provider_id, ..Node::clone(other) })).await;
    judge::lookup(&first, &second, &by_id)
}

/// Makes many calls in one instance.
pub(super) async fn flat(scene: &Scene, nodes: &[Arc<Node>], calls: usize) -> Verdict {
    let (info, service) = (scene.info(), objects::service());
    let (mut peaks, mut made, before) = (Vec::new(), 0, scene.reading());
    while made < calls {
        let seen = ask(scene, "nodes", nodes).await;
        made += seen.len();
        if info.can(Capability::LoadBalancers) {
            scene.get("a Service", &service).await;
            made += 1;
        }
        if info.can(Capability::Routes) {
            scene.list_routes("nothing").await;
            made += 1;
        }
        if made == 0 {
            return judge::skipped("it exports no function that can be called often");
        }
        if scene.reading().ended_since(&before).iter().any(|kind| judge::is_late(kind)) {
            // A thousand of them would take hours.
            return judge::skipped("a call exceeded its time: see `deadlines`");
        }
        if made >= calls * (peaks.len() + 1) / 4 {
            peaks.push(scene.reading().memory);
        }
    }
    judge::flat(&peaks, &scene.reading().ended_since(&before), calls)
}
