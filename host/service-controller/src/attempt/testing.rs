//! A scripted [`Io`], and values for the tables of attempts.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::FutureExt;
use serde_json::Value;
use skydock_cloud::{CloudError, Ingress, LoadBalancerStatus, NodeSet};
use skydock_controller_base::testing::{node_set, service, with};
use skydock_kube::{
    api::{Action, ApiError},
    informer::Entry,
    queue::Priority,
};

use super::{Attempt, Failure, Requeue, apply::Write, event::Event, io::Io};
use crate::{
    Classes, ServiceEntry,
    known::{
        KnownService,
        fingerprint::Fingerprint,
        own_load_balancer::OwnLoadBalancer,
        state::{LoadBalancerPhase, SentNodes, State},
    },
    nodes::selection::SelectedNodes,
    plan::goal::Goal,
};

static CLASSES: Classes = Classes {
    named: BTreeSet::new(),
    unnamed: true,
};

/// Nodes that were sent, and others.
pub(crate) const OLD: SentNodes = SentNodes::Nodes(Fingerprint::of(1));
pub(crate) const NEW: SentNodes = SentNodes::Nodes(Fingerprint::of(2));

pub(crate) const PHASES: [LoadBalancerPhase; 10] = [
    LoadBalancerPhase::Absent,
    LoadBalancerPhase::Present,
    LoadBalancerPhase::Ensuring { exists: false },
    LoadBalancerPhase::Ensuring { exists: true },
    LoadBalancerPhase::Rejected {
        exists: false,
        requested: false,
    },
    LoadBalancerPhase::Rejected {
        exists: false,
        requested: true,
    },
    LoadBalancerPhase::Rejected {
        exists: true,
        requested: false,
    },
    LoadBalancerPhase::Rejected {
        exists: true,
        requested: true,
    },
    LoadBalancerPhase::Deleting,
    LoadBalancerPhase::LeftToOthers,
];

pub(crate) fn state(phase: LoadBalancerPhase, sent: SentNodes) -> State {
    State {
        phase,
        sent,
        ..State::new(false)
    }
}

pub(crate) fn entry(change: &Value) -> ServiceEntry {
    Arc::new(Entry::new(with(&service("web"), change)))
}

/// An attempt to be run.
pub(crate) struct Given<'a> {
    pub(crate) goal: Goal,
    pub(crate) entry: &'a ServiceEntry,
    pub(crate) priority: Priority,
    pub(crate) classes: &'a Classes,
}

/// Returns an attempt after a change.
pub(crate) fn given(goal: Goal, entry: &ServiceEntry) -> Given<'_> {
    Given {
        goal,
        entry,
        priority: Priority::Change,
        classes: &CLASSES,
    }
}

impl Given<'_> {
    /// Runs the attempt with what is known before, and these answers.
    pub(crate) fn run(&self, before: State, answers: Answers) -> Ran {
        let known = KnownService::new(Arc::clone(self.entry), None);
        known.update(|state| *state = before);
        let attempt = Attempt {
            goal: self.goal,
            entry: self.entry,
            known: &known,
            priority: self.priority,
            classes: self.classes,
        };

        let mut script = Script {
            known: &known,
            answers,
            failure: None,
            events: Vec::new(),
            stages: Vec::new(),
        };
        let requeue = attempt.run(&mut script).now_or_never().unwrap();
        script.call(Call::Done(requeue));
        Ran(script.stages)
    }
}

/// What the cloud, the API server and the caches answer. Each is called at most once.
pub(crate) struct Answers {
    pub(crate) present: Option<ServiceEntry>,
    pub(crate) nodes: SelectedNodes,
    pub(crate) ensured: Result<LoadBalancerStatus, CloudError>,
    pub(crate) updated: Result<(), CloudError>,
    pub(crate) found: Result<Option<LoadBalancerStatus>, CloudError>,
    pub(crate) deleted: Result<(), CloudError>,
    pub(crate) added: Result<(), ApiError>,
    pub(crate) removed: Result<(), ApiError>,
    pub(crate) written: Result<(), ApiError>,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            present: None,
            nodes: choice(&["n1"]),
            ensured: Ok(status("192.0.2.1")),
            updated: Ok(()),
            found: Ok(None),
            deleted: Ok(()),
            added: Ok(()),
            removed: Ok(()),
            written: Ok(()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    SelectNodes,
    Ensure(NodeSet),
    UpdateNodes(NodeSet),
    GetLoadBalancer,
    Delete,
    AddFinalizer {
        class_annotation: Option<String>,
    },
    RemoveFinalizer {
        class_annotation: bool,
    },
    LeaveFinalizer {
        class_annotation: String,
    },
    WriteStatus(LoadBalancerStatus),
    ClearStatus,
    DropKnown,
    SetAside,
    /// The attempt has ended.
    Done(Vec<Requeue>),
}

/// A call, and what was reported since the call before it.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The name of the failure.
    pub(crate) failure: Option<String>,
    pub(crate) events: Vec<Event>,
    pub(crate) call: Call,
    /// What is known while the call is in flight.
    pub(crate) state: State,
}

/// All calls of an attempt, in order. The last is [`Call::Done`].
#[derive(Debug)]
pub(crate) struct Ran(pub(crate) Vec<Stage>);

impl Ran {
    pub(crate) fn first(&self) -> &Stage {
        &self.0[0]
    }

    /// Returns what follows the call with this name.
    pub(crate) fn after(&self, name: &str) -> &Stage {
        let is = |stage: &Stage| format!("{:?}", stage.call).starts_with(name);
        let at = self.0.iter().position(is);
        let at = at.unwrap_or_else(|| panic!("no {name} in {self:?}"));
        &self.0[at + 1]
    }
}

/// Answers from a script, and records what is done.
struct Script<'a> {
    known: &'a KnownService,
    answers: Answers,
    failure: Option<String>,
    events: Vec<Event>,
    stages: Vec<Stage>,
}

impl Script<'_> {
    fn call(&mut self, call: Call) {
        self.stages.push(Stage {
            failure: self.failure.take(),
            events: std::mem::take(&mut self.events),
            call,
            state: self.known.read(State::clone),
        });
    }
}

#[async_trait]
impl Io for Script<'_> {
    fn present(&self) -> Option<ServiceEntry> {
        self.answers.present.clone()
    }

    async fn select_nodes(&mut self) -> SelectedNodes {
        self.call(Call::SelectNodes);
        self.answers.nodes.clone()
    }

    async fn ensure(&mut self, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError> {
        self.call(Call::Ensure(nodes.clone()));
        self.answers.ensured.clone()
    }

    async fn update_nodes(&mut self, nodes: &NodeSet) -> Result<(), CloudError> {
        self.call(Call::UpdateNodes(nodes.clone()));
        self.answers.updated.clone()
    }

    async fn get_load_balancer(&mut self) -> Result<Option<LoadBalancerStatus>, CloudError> {
        self.call(Call::GetLoadBalancer);
        self.answers.found.clone()
    }

    async fn delete(&mut self) -> Result<(), CloudError> {
        self.call(Call::Delete);
        self.answers.deleted.clone()
    }

    async fn write(&mut self, write: Write) -> Result<(), ApiError> {
        let answers = &mut self.answers;
        let (call, answer) = match write {
            Write::AddFinalizer { class_annotation } => {
                (Call::AddFinalizer { class_annotation }, &mut answers.added)
            }
            Write::RemoveFinalizer { class_annotation } => (
                Call::RemoveFinalizer { class_annotation },
                &mut answers.removed,
            ),
            Write::LeaveFinalizer { class_annotation } => (
                Call::LeaveFinalizer { class_annotation },
                &mut answers.removed,
            ),
            Write::Status(status) if status.ingress.is_empty() => {
                (Call::ClearStatus, &mut answers.written)
            }
            Write::Status(status) => (Call::WriteStatus(status), &mut answers.written),
        };
        let answer = std::mem::replace(answer, Ok(()));
        self.call(call);
        answer
    }

    fn drop_known(&mut self) {
        self.call(Call::DropKnown);
    }

    fn set_aside(&mut self) {
        self.call(Call::SetAside);
    }

    fn leave_to_others(&mut self, _: OwnLoadBalancer) -> bool {
        true
    }

    fn take_from_others(&mut self) {}

    fn log_and_count(&mut self, failure: &Failure) {
        let failure = format!("{failure:?}");
        let (name, _) = failure.split_once('(').unwrap();
        let earlier = self.failure.replace(name.to_owned());
        assert_eq!(earlier, None, "two failures in a row");
    }

    fn long_in_progress(&mut self, _: &CloudError) -> Option<Duration> {
        None
    }

    fn publish(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Returns the nodes of [`NEW`].
pub(crate) fn choice(names: &[&str]) -> SelectedNodes {
    SelectedNodes {
        nodes: node_set(names),
        fingerprint: Fingerprint::of(2),
    }
}

pub(crate) fn status(ip: &str) -> LoadBalancerStatus {
    LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some(ip.to_owned()),
            ..Ingress::default()
        }],
    }
}

fn action() -> Action {
    Action {
        verb: "patch",
        resource: "services/status".to_owned(),
    }
}

pub(crate) fn gone() -> ApiError {
    ApiError::Gone(action())
}

pub(crate) fn changed() -> ApiError {
    ApiError::Changed(action())
}

pub(crate) fn broken() -> ApiError {
    ApiError::Failed(action(), "down".to_owned())
}

pub(crate) fn forbidden() -> ApiError {
    ApiError::Forbidden(action(), "grant it".to_owned())
}

pub(crate) fn rejected() -> ApiError {
    ApiError::Rejected(action(), "by a webhook".to_owned())
}
