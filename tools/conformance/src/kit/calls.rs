//! Calls about nodes, of maintenance, with unusual objects, and many calls of each function.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use skydock_cloud::{ArgumentKind, Arguments, Capability, Function, Node};

use crate::{
    Verdict,
    harness::{loaded_plugin::LoadedPlugin, objects, observation::Observation},
    judge::{self, equal},
};

/// Observations of calls about nodes.
#[derive(Default)]
pub(super) struct CallObservations {
    once: Vec<Observation>,
    again: Vec<Observation>,
    /// Answers to the reversed list, in the order of the list.
    reversed: Vec<Observation>,
    /// Answers to single questions, put together.
    single: Vec<Observation>,
    /// Answers to the list, and others that are not here, to the list with unusual nodes behind it.
    mixed: Vec<Observation>,
    fresh: Vec<Observation>,
    /// Answers to the list, and those of several calls at a time.
    concurrent: Vec<(Observation, Observation)>,
    others: Vec<Observation>,
    pub(super) empty: Vec<Observation>,
    pub(super) unusual: Vec<Observation>,
}

const UNUSUAL: &str = "unusual objects";

/// Asks all functions about nodes.
async fn ask(plugin: &LoadedPlugin, with: &'static str, nodes: &[Arc<Node>]) -> Vec<Observation> {
    let mut arguments = Arguments {
        nodes: nodes.to_vec(),
        ..Arguments::default()
    };
    plugin.call_all(with, &mut arguments, is_about_nodes).await
}

/// Returns true for a function that is called with nodes alone.
fn is_about_nodes(function: Function) -> bool {
    function.arguments() == [ArgumentKind::Nodes]
}

/// Calls the functions in `plugin`, and in `fresh`, which has an instance for each call.
pub(super) async fn run(
    plugin: &LoadedPlugin,
    fresh: &LoadedPlugin,
    nodes: &[Arc<Node>],
) -> CallObservations {
    let once = ask(plugin, "nodes", nodes).await;
    let again = ask(plugin, "the same nodes again", nodes).await;

    let turned: Vec<_> = nodes.iter().rev().cloned().collect();
    let mut reversed = ask(plugin, "nodes in reverse order", &turned).await;
    for it in &mut reversed {
        if let Ok(elements) = &mut it.answer {
            elements.reverse();
        }
    }

    let mut single = Vec::new();
    for node in nodes {
        single.push(ask(plugin, "one node", std::slice::from_ref(node)).await);
    }

    let concurrent =
        join_all((0..4).map(|_| ask(fresh, "nodes, four calls at a time", nodes))).await;
    let concurrent = concurrent
        .into_iter()
        .flat_map(|seen| once.iter().cloned().zip(seen))
        .collect();

    let mixed = mixed(plugin, nodes).await;
    let unusual = unusual(plugin, nodes).await;

    let is_maintenance = |it: Function| it.capability() == Capability::Maintenance;
    let others = plugin
        .call_all("nothing", &mut Arguments::default(), is_maintenance)
        .await;

    CallObservations {
        single: joined(&once, &single),
        mixed,
        fresh: ask(fresh, "nodes in a fresh instance", nodes).await,
        empty: ask(plugin, "no nodes", &[]).await,
        once,
        again,
        reversed,
        concurrent,
        others,
        unusual,
    }
}

/// Asks about the nodes together with unusual ones.
async fn mixed(plugin: &LoadedPlugin, nodes: &[Arc<Node>]) -> Vec<Observation> {
    let info = plugin.info();
    let mut all = nodes.to_vec();
    all.extend(objects::unusual_nodes(&info));
    all.truncate(info.max_batch);

    let mut seen = ask(plugin, "nodes with unusual ones", &all).await;
    for it in &mut seen {
        // Of the wrong length, it was rejected.
        let _ = it
            .answer
            .as_mut()
            .map(|elements| elements.truncate(nodes.len()));
        it.questions = nodes.len();
    }

    seen
}

/// Calls the functions with unusual objects. Maintenance is about none.
async fn unusual(plugin: &LoadedPlugin, nodes: &[Arc<Node>]) -> Vec<Observation> {
    let mut arguments = objects::unusual_arguments(&plugin.info(), nodes);
    plugin
        .call_all(UNUSUAL, &mut arguments, |it| {
            it.capability() != Capability::Maintenance
        })
        .await
}

/// Puts the answers to single questions together, for each function.
fn joined(once: &[Observation], single: &[Vec<Observation>]) -> Vec<Observation> {
    let of = |index: usize| {
        let parts: Vec<_> = single
            .iter()
            .filter_map(|seen| seen.get(index).cloned())
            .collect();
        Observation::together(&parts).map(|it| Observation {
            with: "one node at a time",
            ..it
        })
    };

    (0..once.len()).filter_map(of).collect()
}

fn pairs(one: &[Observation], other: &[Observation]) -> Vec<(Observation, Observation)> {
    one.iter().cloned().zip(other.iter().cloned()).collect()
}

impl CallObservations {
    /// Returns the calls that were made one after the other.
    pub(super) fn sequential(&self) -> impl Iterator<Item = &Observation> {
        let nodes = [
            &self.once,
            &self.again,
            &self.reversed,
            &self.single,
            &self.mixed,
            &self.fresh,
        ];
        nodes
            .into_iter()
            .chain([&self.others, &self.empty, &self.unusual])
            .flatten()
    }

    /// Returns the calls that were made at the same time. What ended an instance, was rejected or was
    /// denied meanwhile may be that of another one: the metrics are those of all.
    pub(super) fn concurrent(&self) -> impl Iterator<Item = &Observation> {
        self.concurrent.iter().map(|(_, it)| it)
    }

    pub(super) fn is_unusual(&self, seen: &Observation) -> bool {
        seen.with == UNUSUAL
    }

    pub(super) fn order(&self) -> Verdict {
        let mut all = pairs(&self.once, &self.reversed);
        all.extend(pairs(&self.once, &self.single));
        all.extend(pairs(&self.once, &self.mixed));
        judge::order(&all)
    }

    pub(super) fn repeatable(&self) -> Verdict {
        equal(
            &pairs(&self.once, &self.again),
            "the same answer",
            "answer from the cloud's state only",
        )
    }

    pub(super) fn two_instances(&self) -> Verdict {
        equal(
            &self.concurrent,
            "the same answers",
            "declare `overlap` if calls may not run at the same time",
        )
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
pub(super) async fn lookup(plugin: &LoadedPlugin, nodes: &[Arc<Node>]) -> Verdict {
    if !plugin.info().can(Capability::Instances) {
        return judge::skipped("it does not export `instances`");
    }

    // A node with a provider ID would be found by that, not by its name.
    let mut unset = nodes.iter().filter(|node| node.provider_id.is_none());
    let (Some(one), Some(other)) = (unset.next(), unset.next()) else {
        return judge::skipped("it takes one node at a time");
    };

    let describe = async |node: &Arc<Node>| {
        let arguments = Arguments {
            nodes: vec![Arc::clone(node)],
            ..Arguments::default()
        };
        plugin
            .call(Function::Describe, "one node", &arguments)
            .await
    };

    let first = describe(one).await;
    let second = describe(other).await;
    let provider_id = plugin.provider_id(one).await;

    let by_id = describe(&Arc::new(Node {
        provider_id,
        ..Node::clone(other)
    }))
    .await;

    judge::lookup(&first, &second, &by_id)
}

/// Makes many calls of each function in one instance, until it is certain whether memory grows.
pub(super) async fn no_growth(plugin: &LoadedPlugin, nodes: &[Arc<Node>], calls: usize) -> Verdict {
    let before = plugin.reading();
    let mut peaks = Vec::new();
    let mut rounds = 0;
    let begun = Instant::now();

    loop {
        // Each peak is that after twice as many calls as the one before: `judge::flat` compares
        // them.
        let end = (calls / 2).max(1) << peaks.len();
        while rounds < end {
            // What a round creates, it deletes.
            let mut arguments = objects::arguments(nodes);
            let made = plugin.call_all("objects", &mut arguments, |_| true).await;
            rounds += 1;

            if made.is_empty() {
                return judge::skipped("it exports no function that can be called often");
            }

            let ended = plugin.reading().ended_since(&before);
            if ended.iter().any(|kind| judge::is_late(kind)) {
                return judge::skipped("a call exceeded its time: see `deadlines`");
            }

            if begun.elapsed() > PATIENCE {
                let each = begun.elapsed() / u32::try_from(rounds).unwrap_or(u32::MAX);
                return judge::skipped(format!(
                    "its functions take {each:.1?} together, which is too long"
                ));
            }
        }

        let reading = plugin.reading();
        peaks.push(reading.memory);
        if let Some(verdict) = judge::flat(&peaks, &reading.ended_since(&before), rounds) {
            return verdict;
        }
    }
}

/// Time for all calls. Hundreds of calls that wait would take hours.
const PATIENCE: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use skydock_cloud::CloudError;

    use super::{super::Observed, *};
    use crate::{
        Report, Subjects,
        judge::samples::{seen, value},
        kit::{balancers::LoadBalancerObservations, life::Life, volumes::VolumeObservations},
    };

    #[test]
    fn a_plugin_that_traps_in_concurrent_calls_only_is_found() {
        let one = seen("instances.check", Ok(vec![value("running", false)]));
        let trapped = Observation {
            ended: vec!["trap".to_owned()],
            ..seen(
                "instances.check",
                Err(CloudError::Internal("it trapped".into())),
            )
        };
        for (concurrent, expected) in [(one.clone(), true), (trapped, false)] {
            let observed = Observed {
                calls: CallObservations {
                    once: vec![one.clone()],
                    concurrent: vec![(one.clone(), concurrent)],
                    ..CallObservations::default()
                },
                load_balancers: LoadBalancerObservations::default(),
                routes: Life::default(),
                volumes: VolumeObservations::default(),
            };
            let mut report = Report::new(Subjects::Conformance);
            observed.judge_calls(&mut report, judge::skipped(""));
            assert_eq!(report.is_ok(), expected, "{report:?}");
        }
    }
}
