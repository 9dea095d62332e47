//! Follows all outcomes of all steps.

use std::time::Duration;

use serde_json::{Value, json};
use skydock_cloud::CloudError;
use skydock_kube::api::ApiError;

use super::{
    super::{
        has_finalizer,
        state::{Phase, Sent},
        step::{Requeue, Step, Why},
        testing::{
            OLD, PHASES, attempt, broken, changed, choice, entry, forbidden, gone, refused, state,
            status,
        },
    },
    *,
};
use crate::{
    objects::constants::{ANNOTATION_CLASS, FINALIZER},
    service::Classes,
    testing::every_error,
};

const CLASS: &str = "example.com/internal";

/// One way through an attempt.
#[derive(Clone, Debug, Default)]
struct Path {
    /// The steps that were performed, and whether they succeeded.
    steps: Vec<(&'static str, bool)>,
    /// A failure was reported.
    failed: bool,
    /// The cloud answered that another implementation is responsible.
    elsewhere: bool,
    /// The cloud rejected nodes as invalid: only other nodes can help.
    rejected: bool,
    /// A step wrote or removed the annotation with the class.
    noted: bool,
    requeue: Vec<Requeue>,
}

impl Path {
    fn done(&self, step: &str) -> bool {
        self.steps.contains(&(name(step), true))
    }

    fn has(&self, step: &str) -> bool {
        self.steps
            .iter()
            .any(|(performed, _)| *performed == name(step))
    }

    /// Returns this path with one more step.
    fn with(&self, step: &Step, result: Result<(), &CloudError>, good: bool) -> Self {
        let mut path = self.clone();
        path.steps.push((name(&format!("{step:?}")), good));
        path.elsewhere |= !matches!(step, Step::Look(Why::NotUpdated { .. }))
            && matches!(result, Err(CloudError::ImplementedElsewhere));
        path.rejected |= matches!(
            (step, result),
            (Step::UpdateNodes { .. }, Err(CloudError::Invalid(_)))
        );
        path.noted |= matches!(
            step,
            Step::AddFinalizer { note: Some(_) } | Step::RemoveFinalizer { note: true }
        );
        path
    }
}

const NAMES: &[&str] = &[
    "AddFinalizer",
    "SelectNodes",
    "Ensure",
    "UpdateNodes",
    "Look",
    "Delete",
    "WriteStatus",
    "ClearStatus",
    "RemoveFinalizer",
    "Forget",
    "SetAside",
];

/// Returns the name of this step, which must exist.
fn name(step: &str) -> &'static str {
    NAMES
        .iter()
        .copied()
        .find(|name| step.starts_with(name))
        .unwrap()
}

/// Adds all paths that begin with this one.
fn follow(attempt: &Attempt<'_>, (state, turn): Next, path: &Path, all: &mut Vec<Path>) {
    assert!(path.steps.len() <= 6, "{path:?}");
    let path = Path {
        failed: path.failed || turn.failure.is_some(),
        ..path.clone()
    };
    if let Step::Done(requeue) = turn.step {
        all.push(Path { requeue, ..path });
        return;
    }
    let (step, now) = (turn.step, Instant::now());
    let state = || state.clone();
    // A success, and each error of the API server.
    let write = |all: &mut Vec<Path>, after: &dyn Fn(Result<(), ApiError>) -> Next| {
        for written in [
            Ok(()),
            Err(gone()),
            Err(changed()),
            Err(broken()),
            Err(forbidden()),
            Err(refused()),
        ] {
            let path = path.with(&step, Ok(()), written.is_ok());
            follow(attempt, after(written), &path, all);
        }
    };
    // The same for the cloud. `None` means success.
    let call = |all: &mut Vec<Path>, after: &dyn Fn(Option<CloudError>) -> Next| {
        for error in every_error().map(Some).into_iter().chain([None]) {
            let path = path.with(&step, error.as_ref().map_or(Ok(()), Err), error.is_none());
            follow(attempt, after(error), &path, all);
        }
    };
    let answer = |error: Option<CloudError>| error.map_or(Ok(()), Err);
    match &step {
        Step::AddFinalizer { .. } => write(all, &|it| attempt.after_add_finalizer(state(), it)),
        Step::WriteStatus(_) => write(all, &|it| attempt.after_write_status(state(), it)),
        Step::ClearStatus => write(all, &|it| attempt.after_clear_status(state(), it)),
        Step::RemoveFinalizer { .. } => {
            write(all, &|it| attempt.after_remove_finalizer(state(), it));
        }
        Step::SelectNodes => {
            for names in [&[][..], &["n1"]] {
                let next = attempt.after_select_nodes(state(), choice(names), now);
                follow(attempt, next, &path.with(&step, Ok(()), true), all);
            }
        }
        Step::Ensure { before, .. } => {
            call(all, &|it| {
                attempt.after_ensure(state(), *before, answer(it).map(|()| status("192.0.2.1")))
            });
        }
        Step::UpdateNodes { nodes, before } => {
            call(all, &|it| {
                attempt.after_update_nodes(state(), nodes.clone(), *before, (answer(it), now))
            });
        }
        Step::Look(why) => {
            for found in [None, Some(status("192.0.2.1"))] {
                let why = || match why {
                    Why::CleanUp => Why::CleanUp,
                    Why::NotUpdated { nodes, error } => Why::NotUpdated {
                        nodes: nodes.clone(),
                        error: error.clone(),
                    },
                };
                call(all, &|it| {
                    attempt.after_look(state(), why(), answer(it).map(|()| found.clone()))
                });
            }
        }
        Step::Delete => call(all, &|it| attempt.after_delete(state(), answer(it))),
        Step::Forget => follow(
            attempt,
            attempt.after_forget(state()),
            &path.with(&step, Ok(()), true),
            all,
        ),
        Step::SetAside => follow(
            attempt,
            attempt.after_set_aside(state()),
            &path.with(&step, Ok(()), true),
            all,
        ),
        Step::LeaveFinalizer { .. } | Step::Done(_) => unreachable!(),
    }
}

/// A Service and what is known about it.
#[derive(Clone, Debug)]
struct Case {
    goal: Goal,
    phase: Phase,
    sent: Sent,
    change: Value,
}

/// Returns all paths of these goals from all phases, with all that may have been sent, for Services
/// without and with a finalizer, a status, a class, and the annotation with the class.
fn paths(goals: &[Goal]) -> Vec<(Case, Path)> {
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}});
    let class = json!({"spec": {"loadBalancerClass": CLASS}});
    let note = json!({"metadata": {"annotations": {ANNOTATION_CLASS: format!("{CLASS}@uid-web")}}});
    let classes = Classes {
        named: [CLASS.to_owned()].into(),
        unnamed: true,
    };
    let later = Sent::Postponed(Instant::now() + Duration::from_secs(3600));
    let mut paths = Vec::new();
    for changes in [
        vec![],
        vec![&finalizer],
        vec![&finalizer, &status],
        vec![&class],
        vec![&finalizer, &class, &note],
    ] {
        let change = changes.into_iter().fold(json!({}), merged);
        let entry = entry(&change);
        for (goal, phase) in goals
            .iter()
            .flat_map(|goal| PHASES.map(|phase| (*goal, phase)))
        {
            for sent in [OLD, Sent::Unknown, Sent::Failed, later] {
                let attempt = Attempt {
                    classes: &classes,
                    ..attempt(goal, &entry)
                };
                let has = has_finalizer(&entry.object).then_some(("AddFinalizer", true));
                let begin = Path {
                    steps: has.into_iter().collect(),
                    ..Path::default()
                };
                let mut all = Vec::new();
                follow(
                    &attempt,
                    attempt.start(state(phase, sent)),
                    &begin,
                    &mut all,
                );
                let case = Case {
                    goal,
                    phase,
                    sent,
                    change: change.clone(),
                };
                paths.extend(all.into_iter().map(|path| (case.clone(), path)));
            }
        }
    }
    paths
}

/// Merges the fields of two objects.
fn merged(mut into: Value, from: &Value) -> Value {
    for (key, value) in from.as_object().unwrap() {
        let known = into.get(key).cloned();
        into[key] = known
            .filter(Value::is_object)
            .map_or_else(|| value.clone(), |known| merged(known, value));
    }
    into
}

const GOALS: [Goal; 5] = [
    Goal::Ensure,
    Goal::CleanUp,
    Goal::Forget { recreated: false },
    Goal::Forget { recreated: true },
    Goal::UpdateNodes,
];

// Holds: S-20
#[test]
fn the_cloud_creates_nothing_without_the_finalizer() {
    let paths = paths(&[Goal::Ensure]);
    assert!(paths.iter().any(|(_, path)| path.done("WriteStatus")));
    for (case, path) in paths {
        assert!(
            !path.has("Ensure") || path.done("AddFinalizer"),
            "{case:?} {path:?}"
        );
    }
}

// Holds: S-30, S-31, S-33
#[test]
fn no_service_is_released_before_the_cloud_has_deleted() {
    let paths = paths(&[
        Goal::CleanUp,
        Goal::Forget { recreated: false },
        Goal::Forget { recreated: true },
    ]);
    assert!(
        paths
            .iter()
            .any(|(_, path)| path.done("RemoveFinalizer") && path.done("Forget"))
    );
    assert!(
        paths
            .iter()
            .any(|(_, path)| path.done("ClearStatus") && path.done("Forget"))
    );
    for (case, path) in paths {
        let released = path.has("RemoveFinalizer") || path.has("ClearStatus") || path.has("Forget");
        assert_eq!(
            released,
            path.done("Delete") || path.elsewhere,
            "{case:?} {path:?}"
        );
    }
}

#[test]
fn a_service_of_another_implementation_keeps_nothing_but_its_status() {
    for (case, path) in paths(&[Goal::Ensure, Goal::CleanUp]) {
        let handed_over = path.elsewhere && !path.failed;
        // Another implementation may have added a finalizer that was there before.
        let metadata = &case.change["metadata"];
        let may_be_ours = metadata["finalizers"].is_null() || !metadata["annotations"].is_null();
        assert!(
            !handed_over || (path.has("Forget") && !path.has("ClearStatus")),
            "{case:?} {path:?}"
        );
        assert!(
            !handed_over
                || case.goal == Goal::CleanUp
                || path.has("RemoveFinalizer") == may_be_ours,
            "{case:?} {path:?}"
        );
    }
}

#[test]
fn each_failed_attempt_is_retried_or_checked_later() {
    let paths = paths(&GOALS);
    for &step in NAMES {
        for good in [true, false] {
            let never_fails = ["SelectNodes", "Forget", "SetAside"].contains(&step);
            let walked = paths
                .iter()
                .any(|(_, path)| path.steps.contains(&(step, good)));
            assert_eq!(walked, good || !never_fails, "{step} {good}");
        }
    }
    for (case, path) in paths {
        let again = |requeue: &Requeue| !matches!(requeue, Requeue::Reset | Requeue::UpdateNodes);
        assert!(
            !path.failed || path.rejected || path.requeue.iter().any(again),
            "{case:?} {path:?}"
        );
        assert!(
            !path.has("SetAside") || case.goal == (Goal::Forget { recreated: true }),
            "{case:?} {path:?}"
        );
    }
}

#[test]
fn nodes_wait_for_a_load_balancer_and_for_their_time() {
    for (case, path) in paths(&[Goal::UpdateNodes]) {
        let none = matches!(
            case.phase,
            Phase::Absent | Phase::Deleting | Phase::Elsewhere | Phase::Ensuring { exists: false }
        );
        let waits = matches!(case.sent, Sent::Postponed(_));
        assert_eq!(
            path.has("UpdateNodes"),
            !none && !waits,
            "{case:?} {path:?}"
        );
        assert!(
            !waits || none || !path.requeue.contains(&Requeue::Reset),
            "{case:?} {path:?}"
        );
    }
}

#[test]
fn the_class_is_noted_with_the_finalizer_and_removed_with_it() {
    for (case, path) in paths(&[Goal::Ensure, Goal::CleanUp]) {
        let (class, noted) = (
            !case.change["spec"].is_null(),
            !case.change["metadata"]["annotations"].is_null(),
        );
        let written = case.goal == Goal::Ensure && class && !noted;
        let removed = noted && path.has("RemoveFinalizer");
        assert_eq!(path.noted, written || removed, "{case:?} {path:?}");
    }
}
