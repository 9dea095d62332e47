//! Follows all outcomes of all steps.

use serde_json::json;

use super::{
    super::{
        state::Phase,
        testing::{OLD, PHASES, attempt, broken, changed, choice, entry, gone, state, status},
    },
    *,
};
use crate::{constants::FINALIZER, testing::every_error};

/// One way through an attempt.
#[derive(Clone, Debug, Default)]
struct Path {
    /// The steps that were performed, and whether they succeeded.
    steps: Vec<(&'static str, bool)>,
    /// A failure was reported.
    failed: bool,
    /// The cloud answered that another implementation is responsible.
    elsewhere: bool,
    requeue: Vec<Requeue>,
}

impl Path {
    fn done(&self, step: &str) -> bool {
        self.steps.contains(&(name(step), true))
    }

    fn has(&self, step: &str) -> bool {
        self.steps.iter().any(|(performed, _)| *performed == name(step))
    }
}

/// Returns the name of this step, which must exist.
fn name(step: &str) -> &'static str {
    const NAMES: [&str; 11] = [
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
    NAMES.into_iter().find(|name| step.starts_with(name)).unwrap()
}

/// Returns a success, and each error of the API server.
fn writes() -> Vec<Result<(), ApiError>> {
    vec![Ok(()), Err(gone()), Err(changed()), Err(broken())]
}

/// Returns successes, and each error of the cloud.
fn calls<T>(answers: Vec<T>) -> Vec<Result<T, CloudError>> {
    answers.into_iter().map(Ok).chain(every_error().into_iter().map(Err)).collect()
}

/// Adds all paths that begin with this one.
fn follow(attempt: &Attempt<'_>, (state, turn): Next, path: &Path, all: &mut Vec<Path>) {
    assert!(path.steps.len() <= 6, "{path:?}");
    let mut path = Path { failed: path.failed || turn.failure.is_some(), ..path.clone() };
    let step = if let Step::Done(requeue) = turn.step {
        path.requeue = requeue;
        all.push(path);
        return;
    } else {
        turn.step
    };
    let performed = name(&format!("{step:?}"));
    let mut go = |good: bool, elsewhere: bool, next: Next| {
        let mut path = path.clone();
        path.steps.push((performed, good));
        path.elsewhere |= elsewhere;
        follow(attempt, next, &path, all);
    };
    let now = || state.clone();
    match step {
        Step::AddFinalizer { .. } => {
            writes().into_iter().for_each(|it| go(it.is_ok(), false, attempt.after_add_finalizer(now(), it)));
        }
        Step::WriteStatus(_) => {
            writes().into_iter().for_each(|it| go(it.is_ok(), false, attempt.after_write_status(now(), it)));
        }
        Step::ClearStatus => {
            writes().into_iter().for_each(|it| go(it.is_ok(), false, attempt.after_clear_status(now(), it)));
        }
        Step::RemoveFinalizer { .. } => {
            writes().into_iter().for_each(|it| go(it.is_ok(), false, attempt.after_remove_finalizer(now(), it)));
        }
        Step::SelectNodes => {
            [&[][..], &["n1"]]
                .into_iter()
                .for_each(|it| go(true, false, attempt.after_select_nodes(now(), choice(it), Instant::now())));
        }
        Step::Ensure { before, .. } => calls(vec![status("192.0.2.1")]).into_iter().for_each(|it| {
            let elsewhere = matches!(it, Err(CloudError::ImplementedElsewhere));
            go(it.is_ok(), elsewhere, attempt.after_ensure(now(), before, it));
        }),
        Step::UpdateNodes { nodes, before } => calls(vec![()]).into_iter().for_each(|it| {
            let elsewhere = matches!(it, Err(CloudError::ImplementedElsewhere));
            go(it.is_ok(), elsewhere, attempt.after_update_nodes(now(), nodes.clone(), before, (it, Instant::now())));
        }),
        Step::Look(Why::CleanUp) => calls(vec![None, Some(status("192.0.2.1"))]).into_iter().for_each(|it| {
            let elsewhere = matches!(it, Err(CloudError::ImplementedElsewhere));
            go(it.is_ok(), elsewhere, attempt.after_look(now(), Why::CleanUp, it));
        }),
        Step::Look(Why::NotUpdated { nodes, error }) => calls(vec![None]).into_iter().for_each(|it| {
            let why = Why::NotUpdated { nodes: nodes.clone(), error: error.clone() };
            go(it.is_ok(), false, attempt.after_look(now(), why, it));
        }),
        Step::Delete => calls(vec![()]).into_iter().for_each(|it| {
            let elsewhere = matches!(it, Err(CloudError::ImplementedElsewhere));
            go(it.is_ok(), elsewhere, attempt.after_delete(now(), it));
        }),
        Step::Forget => go(true, false, attempt.after_forget(now())),
        Step::SetAside => go(true, false, attempt.after_set_aside(now())),
        Step::Done(_) => unreachable!(),
    }
}

/// Returns all paths of these goals from all phases, for a Service without and with a finalizer.
fn paths(goals: &[Goal]) -> Vec<(Goal, Phase, Path)> {
    let mut paths = Vec::new();
    for change in [json!({}), json!({"metadata": {"finalizers": [FINALIZER]}})] {
        let entry = entry(&change);
        let finalizer = change != json!({});
        for (goal, phase) in goals.iter().flat_map(|goal| PHASES.map(|phase| (*goal, phase))) {
            let attempt = attempt(goal, &entry);
            let mut all = Vec::new();
            let begin =
                Path { steps: finalizer.then_some(("AddFinalizer", true)).into_iter().collect(), ..Path::default() };
            follow(&attempt, attempt.start(state(phase, OLD)), &begin, &mut all);
            paths.extend(all.into_iter().map(|path| (goal, phase, path)));
        }
    }
    paths
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
    assert!(paths.iter().any(|(.., path)| path.done("WriteStatus")));
    for (_, phase, path) in paths {
        assert!(!path.has("Ensure") || path.done("AddFinalizer"), "{phase:?} {path:?}");
    }
}

// Holds: S-30, S-31, S-33
#[test]
fn no_service_is_released_before_the_cloud_has_deleted() {
    let paths = paths(&[Goal::CleanUp, Goal::Forget { recreated: false }, Goal::Forget { recreated: true }]);
    assert!(paths.iter().any(|(.., path)| path.done("RemoveFinalizer") && path.done("Forget")));
    for (goal, phase, path) in paths {
        let released = path.has("RemoveFinalizer") || path.has("ClearStatus") || path.has("Forget");
        assert_eq!(released, path.done("Delete") || path.elsewhere, "{goal:?} {phase:?} {path:?}");
    }
}

#[test]
fn each_failed_attempt_is_retried_or_checked_later() {
    for (goal, phase, path) in paths(&GOALS) {
        let again = |requeue: &Requeue| !matches!(requeue, Requeue::Reset | Requeue::UpdateNodes);
        let left = goal == Goal::UpdateNodes && path.requeue == [Requeue::Reset];
        assert!(!path.failed || left || path.requeue.iter().any(again), "{goal:?} {phase:?} {path:?}");
        assert!(!path.has("SetAside") || goal == (Goal::Forget { recreated: true }), "{goal:?} {phase:?} {path:?}");
    }
}
