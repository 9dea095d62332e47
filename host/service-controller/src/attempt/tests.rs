//! Follows all answers to all calls.

use serde_json::{Value, json};
use skydock_controller_base::{
    objects::constants::{ANNOTATION_CLASS, FINALIZER},
    testing::every_error,
};
use tokio::time::Instant;

use super::*;
use crate::{
    attempt::testing::{
        Answers, Call, Given, OLD, PHASES, Ran, broken, changed, choice, entry, forbidden, given,
        gone, rejected, state, status,
    },
    known::state::{LoadBalancerPhase, SentNodes, State},
    plan::has_finalizer,
};

const CLASS: &str = "example.com/internal";

/// One way through an attempt.
#[derive(Clone, Debug, Default)]
struct Path {
    /// The calls that were made, and whether they succeeded.
    calls: Vec<(&'static str, bool)>,
    /// A failure was reported.
    failed: bool,
    /// The cloud answered that another implementation is responsible.
    elsewhere: bool,
    /// The cloud rejected nodes as invalid: only other nodes can help.
    rejected: bool,
    /// A call wrote or removed the class annotation.
    annotated: bool,
    requeue: Vec<Requeue>,
}

impl Path {
    fn done(&self, call: &str) -> bool {
        self.calls.contains(&(name(call), true))
    }

    fn has(&self, call: &str) -> bool {
        self.calls.iter().any(|(made, _)| *made == name(call))
    }

    /// Returns the way that was gone with the answers with these numbers.
    fn of(given: &Given<'_>, numbers: &[(&'static str, usize)], ran: Ran) -> Self {
        let has = has_finalizer(&given.entry.object).then_some(("AddFinalizer", true));
        let mut path = Self {
            calls: has.into_iter().collect(),
            ..Self::default()
        };

        for &(name, number) in numbers {
            let answer = answer(&mut Answers::default(), name, number).unwrap();
            path.calls.push((name, answer.is_ok()));
            let judges = given.goal != Goal::UpdateNodes || name != "GetLoadBalancer";
            path.elsewhere |= judges && answer == Err(Some(CloudError::ImplementedElsewhere));
            path.rejected |=
                name == "UpdateNodes" && matches!(answer, Err(Some(CloudError::Invalid(_))));
        }

        assert!(path.calls.len() <= 6, "{path:?}");

        for stage in ran.0 {
            path.failed |= stage.failure.is_some();
            match stage.call {
                Call::AddFinalizer {
                    class_annotation: Some(_),
                }
                | Call::RemoveFinalizer {
                    class_annotation: true,
                } => {
                    path.annotated = true;
                }
                Call::Done(requeue) => path.requeue = requeue,
                _ => {}
            }
        }
        path
    }
}

const NAMES: &[&str] = &[
    "AddFinalizer",
    "SelectNodes",
    "Ensure",
    "UpdateNodes",
    "GetLoadBalancer",
    "Delete",
    "WriteStatus",
    "ClearStatus",
    "RemoveFinalizer",
    "DropKnown",
    "SetAside",
];

/// Returns the name of this call, which must exist.
fn name(call: &str) -> &'static str {
    NAMES
        .iter()
        .copied()
        .find(|name| call.starts_with(name))
        .unwrap()
}

/// Sets the answer with this number to the call with this name. Returns whether it is a success, or
/// an error of the cloud or of the API server; `None` if there are fewer answers.
fn answer(
    answers: &mut Answers,
    name: &str,
    number: usize,
) -> Option<Result<(), Option<CloudError>>> {
    // A success, and each error of the API server.
    let write = || {
        let errors = [gone(), changed(), broken(), forbidden(), rejected()];
        [Ok(())].into_iter().chain(errors.map(Err)).nth(number)
    };
    // The same for the cloud.
    let call = |number| {
        let errors = every_error().map(Err);
        [Ok(())].into_iter().chain(errors).nth(number)
    };
    let of = |answer: &Result<(), CloudError>| answer.clone().map_err(Some);

    match name {
        "AddFinalizer" | "RemoveFinalizer" | "WriteStatus" | "ClearStatus" => {
            let written = match name {
                "AddFinalizer" => &mut answers.added,
                "RemoveFinalizer" => &mut answers.removed,
                _ => &mut answers.written,
            };
            *written = write()?;
            Some(written.as_ref().copied().map_err(|_| None))
        }
        "SelectNodes" => {
            answers.nodes = choice([&[][..], &["n1"]].get(number)?);
            Some(Ok(()))
        }
        "Ensure" => {
            let answer = call(number)?;
            answers.ensured = answer.clone().map(|()| status("192.0.2.1"));
            Some(of(&answer))
        }
        "UpdateNodes" => {
            answers.updated = call(number)?;
            Some(of(&answers.updated))
        }
        // The first two are successes.
        "GetLoadBalancer" => {
            let answer = call(number.saturating_sub(1))?;
            let found = (number > 0).then(|| status("192.0.2.1"));
            answers.found = answer.clone().map(|()| found);
            Some(of(&answer))
        }
        "Delete" => {
            answers.deleted = call(number)?;
            Some(of(&answers.deleted))
        }
        _ => (number == 0).then_some(Ok(())),
    }
}

/// Adds all ways from this state.
fn follow(given: &Given<'_>, before: &State, all: &mut Vec<Path>) {
    let mut numbers: Vec<(&'static str, usize)> = Vec::new();
    loop {
        let mut answers = Answers::default();
        let first = NAMES.iter().map(|name| (*name, 0));
        for (name, number) in first.chain(numbers.iter().copied()) {
            assert!(answer(&mut answers, name, number).is_some());
        }

        let ran = given.run(before.clone(), answers);
        for stage in ran.0.iter().skip(numbers.len()) {
            if !matches!(stage.call, Call::Done(_)) {
                numbers.push((name(&format!("{:?}", stage.call)), 0));
            }
        }
        all.push(Path::of(given, &numbers, ran));

        // The next answer to the last call that has another one.
        loop {
            let Some((name, number)) = numbers.pop() else {
                return;
            };
            if answer(&mut Answers::default(), name, number + 1).is_some() {
                numbers.push((name, number + 1));
                break;
            }
        }
    }
}

/// A Service and what is known about it.
#[derive(Clone, Debug)]
struct Case {
    goal: Goal,
    phase: LoadBalancerPhase,
    sent: SentNodes,
    change: Value,
}

/// Returns all paths of these goals from all phases, with all that may have been sent, for Services
/// without and with a finalizer, a status, a class, and the class annotation.
fn paths(goals: &[Goal]) -> Vec<(Case, Path)> {
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}});
    let class = json!({"spec": {"loadBalancerClass": CLASS}});
    let annotation =
        json!({"metadata": {"annotations": {ANNOTATION_CLASS: format!("{CLASS}@uid-web")}}});
    let classes = Classes {
        named: [CLASS.to_owned()].into(),
        unnamed: true,
    };
    let later = SentNodes::Postponed(Instant::now() + Duration::from_secs(3600));
    let mut paths = Vec::new();
    for changes in [
        vec![],
        vec![&finalizer],
        vec![&finalizer, &status],
        vec![&class],
        vec![&finalizer, &class, &annotation],
    ] {
        let change = changes.into_iter().fold(json!({}), merged);
        let entry = entry(&change);
        for (goal, phase) in goals
            .iter()
            .flat_map(|goal| PHASES.map(|phase| (*goal, phase)))
        {
            for sent in [OLD, SentNodes::Unknown, SentNodes::Failed, later] {
                let given = Given {
                    classes: &classes,
                    ..given(goal, &entry)
                };
                let mut all = Vec::new();
                follow(&given, &state(phase, sent), &mut all);
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
    Goal::DeleteOrphan { recreated: false },
    Goal::DeleteOrphan { recreated: true },
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
        Goal::DeleteOrphan { recreated: false },
        Goal::DeleteOrphan { recreated: true },
    ]);
    assert!(
        paths
            .iter()
            .any(|(_, path)| path.done("RemoveFinalizer") && path.done("DropKnown"))
    );
    assert!(
        paths
            .iter()
            .any(|(_, path)| path.done("ClearStatus") && path.done("DropKnown"))
    );
    for (case, path) in paths {
        let released =
            path.has("RemoveFinalizer") || path.has("ClearStatus") || path.has("DropKnown");
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
            !handed_over || (path.has("DropKnown") && !path.has("ClearStatus")),
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
    for &call in NAMES {
        for good in [true, false] {
            let never_fails = ["SelectNodes", "DropKnown", "SetAside"].contains(&call);
            let walked = paths
                .iter()
                .any(|(_, path)| path.calls.contains(&(call, good)));
            assert_eq!(walked, good || !never_fails, "{call} {good}");
        }
    }
    for (case, path) in paths {
        let again = |requeue: &Requeue| !matches!(requeue, Requeue::Reset | Requeue::UpdateNodes);
        assert!(
            !path.failed || path.rejected || path.requeue.iter().any(again),
            "{case:?} {path:?}"
        );
        assert!(
            !path.has("SetAside") || case.goal == (Goal::DeleteOrphan { recreated: true }),
            "{case:?} {path:?}"
        );
    }
}

#[test]
fn nodes_wait_for_a_load_balancer_and_for_their_time() {
    for (case, path) in paths(&[Goal::UpdateNodes]) {
        let none = matches!(
            case.phase,
            LoadBalancerPhase::Absent
                | LoadBalancerPhase::Deleting
                | LoadBalancerPhase::LeftToOthers
                | LoadBalancerPhase::Ensuring { exists: false }
        );
        let waits = matches!(case.sent, SentNodes::Postponed(_));
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
fn the_class_annotation_is_written_and_removed_with_the_finalizer() {
    for (case, path) in paths(&[Goal::Ensure, Goal::CleanUp]) {
        let (class, annotated) = (
            !case.change["spec"].is_null(),
            !case.change["metadata"]["annotations"].is_null(),
        );
        let written = case.goal == Goal::Ensure && class && !annotated;
        let removed = annotated && path.has("RemoveFinalizer");
        assert_eq!(path.annotated, written || removed, "{case:?} {path:?}");
    }
}
