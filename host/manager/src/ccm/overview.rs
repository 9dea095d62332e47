//! The page `/statusz/overview`, for people. What it shows is asked for when somebody looks, of those
//! who know it.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock, Weak},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use skydock_cloud::{
    Cluster, Node, Service,
    text::{SENTENCE, shown},
};
use skydock_controllers::{Metrics as ControllerMetrics, node::plan::uninitialized};
use skydock_egress::Minute;
use skydock_kube::{election::Leadership, events::Recorder};
use skydock_sandbox::{GenerationInfo, Plugin, SwapOutcome, SwapReport};
use skydock_serving::overview::{
    Objects, Overview, PluginChange, PluginInService, RuleMinutes, Waiting,
};
use tokio::sync::{
    broadcast::{Receiver, error::RecvError},
    watch,
};
use tokio_util::sync::CancellationToken;

use crate::egress::Egress;

/// Maximum number of changes of the plugin that are remembered.
const CHANGES: usize = 50;

/// Those who know what the process does.
pub(super) struct Sources {
    /// `None` without leader election.
    leadership: Option<watch::Receiver<Leadership>>,
    egress: Arc<Egress>,
    /// It is not kept alive for the page.
    plugin: OnceLock<Weak<Plugin>>,
    history: Mutex<History>,
    /// Set while controllers run.
    controllers: Mutex<Option<ControllerSources>>,
}

#[derive(Default)]
struct History {
    /// Since when the generation is in service.
    since: Timestamp,
    /// Attempts to change it, the newest first.
    changes: VecDeque<PluginChange>,
}

struct ControllerSources {
    cluster: Arc<dyn Cluster>,
    recorder: Recorder,
    metrics: ControllerMetrics,
}

impl Sources {
    pub(super) fn new(
        leadership: Option<watch::Receiver<Leadership>>,
        egress: Arc<Egress>,
    ) -> Arc<Self> {
        Arc::new(Self {
            leadership,
            egress,
            plugin: OnceLock::new(),
            history: Mutex::default(),
            controllers: Mutex::default(),
        })
    }

    /// Remembers changes of this plugin until the process ends.
    pub(super) fn follow(self: &Arc<Self>, plugin: &Arc<Plugin>, process: &CancellationToken) {
        let reports = plugin.reports();
        self.history
            .lock()
            .note(Timestamp::now(), &SwapOutcome::Swapped(plugin.generation()));
        // It is only called once.
        let _ = self.plugin.set(Arc::downgrade(plugin));

        let following = Arc::clone(self).remember(reports);
        tokio::spawn(process.clone().run_until_cancelled_owned(following));
    }

    async fn remember(self: Arc<Self>, mut reports: Receiver<SwapReport>) {
        loop {
            match reports.recv().await {
                Ok(report) => self.history.lock().note(Timestamp::now(), &report.outcome),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Controllers run with this view of the cluster, publish their events with this recorder, and
    /// count with these metrics.
    pub(super) fn controllers_begin(
        &self,
        cluster: Arc<dyn Cluster>,
        recorder: Recorder,
        metrics: ControllerMetrics,
    ) {
        *self.controllers.lock() = Some(ControllerSources {
            cluster,
            recorder,
            metrics,
        });
    }

    pub(super) fn controllers_end(&self) {
        *self.controllers.lock() = None;
    }

    /// Returns what is known now.
    pub(super) fn overview(&self) -> Overview {
        let history = self.history.lock();
        let (since, changes) = (history.since, history.changes.iter().cloned().collect());
        drop(history);

        let plugin = self.plugin.get().and_then(Weak::upgrade);
        let plugin = plugin.map(|plugin| {
            let generation = plugin.generation();
            PluginInService {
                name: format!("{}: {}", plugin.name(), named(&generation)),
                generation: generation.number,
                digest: generation.digest,
                since,
            }
        });

        let leadership = self.leadership.as_ref();
        let objects = self.controllers.lock().as_ref().map(|sources| {
            let warning = |kind: &str, namespace: &str, name: &str| {
                let last = sources.recorder.last_warning(kind, namespace, name)?;
                Some((last.at, format!("{}: {}", last.reason, last.message)))
            };
            Objects {
                failing: sources.metrics.failing_services().unwrap_or_default(),
                ..objects(
                    &sources.cluster.nodes(),
                    &sources.cluster.services(),
                    &warning,
                )
            }
        });
        let minutes = self.egress.last_minutes();
        Overview {
            role: role(leadership.map(|it| it.borrow().clone()).as_ref()),
            plugin,
            changes,
            objects,
            egress: minutes.into_iter().filter_map(of_rule).collect(),
        }
    }
}

impl History {
    fn note(&mut self, at: Timestamp, outcome: &SwapOutcome) {
        if matches!(outcome, SwapOutcome::Swapped(_)) {
            self.since = at;
        }
        self.changes.truncate(CHANGES - 1);
        self.changes.push_front(change(at, outcome));
    }
}

fn change(at: Timestamp, outcome: &SwapOutcome) -> PluginChange {
    let (text, is_rejected) = match outcome {
        SwapOutcome::Swapped(now) => {
            let mut text = format!("generation {}: {}", now.number, named(now));
            if !now.added.is_empty() {
                text = format!("{text}; it needs in addition: {}", now.added.join(", "));
            }
            (text, false)
        }
        SwapOutcome::Rejected {
            stage,
            reason,
            kept,
        } => {
            let text =
                format!("rejected at stage {stage}, generation {kept} stays in service: {reason}");
            (text, true)
        }
    };

    PluginChange {
        at,
        text: shown(&text, SENTENCE).into_owned(),
        is_rejected,
    }
}

fn named(generation: &GenerationInfo) -> String {
    let text = format!("{} {}", generation.name, generation.version);
    shown(&text, SENTENCE).into_owned()
}

fn role(leadership: Option<&Leadership>) -> &'static str {
    match leadership {
        None => "runs without leader election",
        Some(Leadership::Standby) => "stands by",
        Some(Leadership::Leading(_)) => "leads",
        Some(Leadership::Lost(_)) => "has lost the Lease",
        Some(Leadership::Released) => "has released the Lease",
    }
}

/// Returns the last warning about an object of this kind, namespace and name.
type WarningAbout<'a> = &'a dyn Fn(&str, &str, &str) -> Option<(Timestamp, String)>;

fn objects(nodes: &[Arc<Node>], services: &[Arc<Service>], warning: WarningAbout<'_>) -> Objects {
    let waits = |node: &&Arc<Node>| uninitialized(node);
    let waiting_nodes = nodes.iter().filter(waits).map(|node| {
        let created = i64::try_from(node.creation_timestamp).ok();
        Waiting {
            name: node.name.clone(),
            since: created.and_then(|seconds| Timestamp::from_second(seconds).ok()),
            warning: warning("Node", "", &node.name),
        }
    });
    let mut all = Objects {
        nodes: nodes.len(),
        waiting_nodes: waiting_nodes.collect(),
        ..Objects::default()
    };
    // Those that wait longest are shown if there are too many.
    all.waiting_nodes.sort_by_key(|node| node.since);

    for service in services {
        let waiting = || Waiting {
            name: format!("{}/{}", service.namespace, service.name),
            since: None,
            warning: warning("Service", &service.namespace, &service.name),
        };
        if service.deleting {
            all.deleting_services.push(waiting());
        } else if service.status.ingress.is_empty() {
            all.waiting_services.push(waiting());
        } else {
            all.served += 1;
        }
    }
    all
}

/// Returns the minutes of a rule; of requests without a rule, only if there were some.
fn of_rule((rule, minutes): (Arc<str>, Vec<Minute>)) -> Option<RuleMinutes> {
    let minutes = minutes.iter();
    let minutes: Vec<_> = minutes
        .map(|minute| [minute.ended, minute.failed, minute.denied])
        .collect();
    let is_quiet = minutes.iter().flatten().all(|requests| *requests == 0);
    (!rule.is_empty() || !is_quiet).then(|| RuleMinutes {
        rule: rule.as_ref().to_owned(),
        minutes,
    })
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{Ingress, LoadBalancerStatus, Taint, TaintEffect};
    use skydock_controllers::constants::TAINT_UNINITIALIZED;
    use skydock_sandbox::Stage;

    use super::*;

    fn node(name: &str, created: u64, taint: Option<&str>) -> Arc<Node> {
        Arc::new(Node {
            name: name.to_owned(),
            creation_timestamp: created,
            taints: taint
                .map(|key| Taint {
                    key: key.to_owned(),
                    value: String::new(),
                    effect: TaintEffect::NoSchedule,
                })
                .into_iter()
                .collect(),
            ..Node::default()
        })
    }

    fn service(name: &str, deleting: bool, is_served: bool) -> Arc<Service> {
        let ingress = is_served.then(Ingress::default);
        Arc::new(Service {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            deleting,
            status: LoadBalancerStatus {
                ingress: ingress.into_iter().collect(),
            },
            ..Service::default()
        })
    }

    #[test]
    fn objects_that_wait_have_their_last_warning() {
        let nodes = [
            node("new", 20, Some(TAINT_UNINITIALIZED)),
            node("old", 10, Some(TAINT_UNINITIALIZED)),
            node("ready", 5, None),
            node("dedicated", 5, Some("example.com/dedicated")),
        ];
        let services = [
            service("served", false, true),
            service("waits", false, false),
            service("leaves", true, true),
        ];
        let warning = |kind: &str, namespace: &str, name: &str| {
            let about = format!("{kind} {namespace} {name}");
            (name != "new").then_some((Timestamp::UNIX_EPOCH, about))
        };

        let found = objects(&nodes, &services, &warning);
        let told = |waiting: &[Waiting]| -> Vec<(String, Option<String>)> {
            let waiting = waiting.iter();
            let pair = |it: &Waiting| (it.name.clone(), it.warning.clone().map(|it| it.1));
            waiting.map(pair).collect()
        };
        let pair = |name: &str, warning: Option<&str>| {
            let warning = warning.map(str::to_owned);
            (name.to_owned(), warning)
        };
        assert_eq!((found.nodes, found.served), (4, 1));
        assert_eq!(
            told(&found.waiting_nodes),
            [pair("old", Some("Node  old")), pair("new", None)]
        );
        assert_eq!(
            told(&found.waiting_services),
            [pair("ns/waits", Some("Service ns waits"))]
        );
        assert_eq!(
            told(&found.deleting_services),
            [pair("ns/leaves", Some("Service ns leaves"))]
        );
    }

    #[test]
    fn the_newest_changes_of_the_plugin_are_remembered() {
        let mut history = History::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        for second in 0..60 {
            let rejected = SwapOutcome::Rejected {
                stage: Stage::Compile,
                reason: "a\nb".to_owned(),
                kept: 1,
            };
            history.note(at(second), &rejected);
        }
        assert_eq!(history.changes.len(), CHANGES);
        assert_eq!(history.since, Timestamp::default());
        let newest = history.changes.front().unwrap();
        let expected = "rejected at stage compile, generation 1 stays in service: a\\nb";
        assert_eq!((newest.at, newest.text.as_str()), (at(59), expected));
        assert!(newest.is_rejected);
    }

    #[test]
    fn denials_without_a_rule_are_shown_if_there_are_some() {
        let quiet = vec![Minute::default(); 2];
        let busy = vec![
            Minute::default(),
            Minute {
                ended: 3,
                failed: 1,
                denied: 2,
            },
        ];
        for (rule, minutes, expected) in [
            ("", &quiet, None),
            ("api", &quiet, Some([0; 3])),
            ("", &busy, Some([3, 1, 2])),
        ] {
            let found = of_rule((rule.into(), minutes.clone()));
            assert_eq!(found.map(|it| it.minutes[1]), expected, "{rule:?}");
        }
    }

    #[test]
    fn every_state_of_the_election_is_a_role() {
        let leading = Leadership::Leading(std::time::Instant::now());
        for (leadership, expected) in [
            (None, "runs without leader election"),
            (Some(Leadership::Standby), "stands by"),
            (Some(leading), "leads"),
            (Some(Leadership::Lost("x".to_owned())), "has lost the Lease"),
            (Some(Leadership::Released), "has released the Lease"),
        ] {
            assert_eq!(role(leadership.as_ref()), expected);
        }
    }
}
