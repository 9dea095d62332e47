use std::time::Duration;

use serde_json::{Value, json};

use super::{
    super::{
        state::Work,
        testing::{OLD, PHASES, attempt, broken, changed, entry, gone, state, status},
    },
    *,
};
use crate::{
    calls::retry::Again,
    objects::constants::{ANNOTATION_CLASS, FINALIZER},
    testing::{every_error, with},
};

fn finalizer() -> Value {
    json!({"metadata": {"finalizers": [FINALIZER]}})
}

/// Returns a state in which this was announced.
fn announced(phase: Phase, announced: Option<Announced>) -> State {
    State {
        work: Some(Work {
            announced,
            ..Work::default()
        }),
        ..state(phase, OLD)
    }
}

// Holds: S-30, S-31
#[test]
fn the_cloud_is_asked_first_unless_a_request_is_unfinished() {
    let entry = entry(&finalizer());
    for phase in PHASES {
        let (after, turn) = attempt(Goal::CleanUp, &entry).start(state(phase, OLD));
        if phase.requested() {
            assert_eq!(
                (turn.step, turn.events),
                (Step::Delete, vec![Event::Deleting]),
                "{phase:?}"
            );
            assert_eq!(
                after,
                announced(Phase::Deleting, Some(Announced::Deleting)),
                "{phase:?}"
            );
        } else {
            assert_eq!(
                (turn.step, turn.events),
                (Step::Look(Why::CleanUp), vec![]),
                "{phase:?}"
            );
            assert_eq!(after, announced(phase, None), "{phase:?}");
        }
    }
}

// Holds: S-30, S-31, S-32
#[test]
fn what_the_cloud_does_not_report_is_deleted_without_an_event() {
    let entry = entry(&finalizer());
    let release = Step::RemoveFinalizer { note: false };
    for (found, before, step, told) in [
        (Ok(Some(status("192.0.2.1"))), None, Step::Delete, true),
        (
            Ok(Some(status("192.0.2.1"))),
            Some(Announced::Ensuring),
            Step::Delete,
            true,
        ),
        (
            Ok(Some(status("192.0.2.1"))),
            Some(Announced::Deleting),
            Step::Delete,
            false,
        ),
        (Ok(None), None, Step::Delete, false),
        (
            Err(CloudError::NotFound("none".into())),
            None,
            Step::Delete,
            false,
        ),
        (Err(CloudError::ImplementedElsewhere), None, release, false),
    ] {
        let elsewhere = step != Step::Delete;
        let phase = if step == Step::Delete {
            Phase::Deleting
        } else {
            Phase::Elsewhere
        };
        let attempt = attempt(Goal::CleanUp, &entry);
        let (after, turn) = attempt.after_look(
            announced(Phase::Present, before),
            Why::CleanUp,
            found.clone(),
        );
        assert_eq!((turn.step, after.phase), (step, phase), "{found:?}");
        let events = match (told, elsewhere) {
            (true, _) => vec![Event::Deleting],
            (false, true) => vec![Event::HandedOver { may_stay: true }],
            (false, false) => vec![],
        };
        assert_eq!(turn.events, events, "{found:?}");
    }
}

/// Returns the expected retry and warning for each error of [`every_error`], unless it is a
/// success.
fn retries() -> [Option<(Again, bool)>; 9] {
    let delay = Again::After(Duration::from_secs(7));
    let back_off = Some((Again::BackOff, true));
    let (soon, rejected) = (Some((Again::Soon, false)), Some((Again::OnChange, true)));
    [
        back_off,
        None,
        soon,
        Some((delay, true)),
        Some((delay, false)),
        back_off,
        rejected,
        back_off,
        back_off,
    ]
}

fn requeue(again: Again) -> Vec<Requeue> {
    if again == Again::OnChange {
        vec![Requeue::Reset, Requeue::Check]
    } else {
        vec![Requeue::Retry(again)]
    }
}

// Holds: S-30, S-39
#[test]
fn the_finalizer_stays_if_the_cloud_cannot_say_what_it_has() {
    let entry = entry(&finalizer());
    for (error, expected) in every_error().into_iter().zip(retries()).skip(2) {
        let (again, warns) = expected.unwrap();
        let attempt = attempt(Goal::CleanUp, &entry);
        let (after, turn) =
            attempt.after_look(state(Phase::Present, OLD), Why::CleanUp, Err(error.clone()));
        assert_eq!(
            (turn.step, after.phase),
            (Step::Done(requeue(again)), Phase::Present),
            "{error}"
        );
        assert_eq!(turn.events.len(), usize::from(warns), "{error}");
    }
}

// Holds: S-31, S-33, S-39, S-44
#[test]
fn only_a_deleted_load_balancer_releases_the_service() {
    let entry = entry(&finalizer());
    for goal in [Goal::CleanUp, Goal::Forget { recreated: false }] {
        let cleanup = goal == Goal::CleanUp;
        let done = if cleanup {
            Step::RemoveFinalizer { note: false }
        } else {
            Step::Forget
        };
        let (after, turn) = attempt(goal, &entry).after_delete(state(Phase::Deleting, OLD), Ok(()));
        assert_eq!(
            (&turn.step, after.phase),
            (&done, Phase::Absent),
            "{goal:?}"
        );
        assert_eq!(turn.events == [Event::Deleted], !cleanup, "{goal:?}");
        for (error, expected) in every_error().into_iter().zip(retries()) {
            let (after, turn) =
                attempt(goal, &entry).after_delete(state(Phase::Deleting, OLD), Err(error.clone()));
            let Some((again, warns)) = expected else {
                assert_eq!(
                    (&turn.step, after.phase),
                    (&done, Phase::Elsewhere),
                    "{goal:?}"
                );
                let handed = vec![Event::HandedOver { may_stay: false }];
                let events = if cleanup { handed } else { vec![] };
                assert_eq!(turn.events, events, "{goal:?}");
                continue;
            };
            assert_eq!(
                (turn.step, after.phase),
                (Step::Done(requeue(again)), Phase::Deleting),
                "{goal:?} {error}"
            );
            let failed = if cleanup {
                Event::SyncFailed(format!("failed to delete load balancer: {error}"))
            } else {
                Event::DeleteFailed(error.to_string())
            };
            assert_eq!(
                turn.events,
                if warns { vec![failed] } else { vec![] },
                "{goal:?} {error}"
            );
        }
    }
}

// Holds: S-15
#[test]
fn only_an_undeletable_predecessor_is_set_aside() {
    let entry = entry(&finalizer());
    let goal = Goal::Forget { recreated: true };
    let (after, turn) = attempt(goal, &entry).start(state(Phase::Present, OLD));
    assert_eq!(
        (turn.step, turn.events, after.phase),
        (Step::Delete, vec![Event::Deleting], Phase::Deleting)
    );

    for error in every_error()
        .into_iter()
        .filter(|error| *error != CloudError::ImplementedElsewhere)
    {
        let rejected = matches!(error, CloudError::Invalid(_));
        let (_, turn) =
            attempt(goal, &entry).after_delete(state(Phase::Deleting, OLD), Err(error.clone()));
        assert_eq!(turn.step == Step::SetAside, rejected, "{error}");
        assert!(turn.failure.is_some(), "{error}");
    }
    let (_, turn) = attempt(goal, &entry).after_set_aside(state(Phase::Deleting, OLD));
    assert_eq!(turn.step, Step::Done(vec![Requeue::Reset, Requeue::Check]));
}

// Holds: S-33, S-34, S-36
#[test]
fn the_finalizer_is_removed_only_if_it_is_ours() {
    let class = |class: &str| json!({"spec": {"loadBalancerClass": class}});
    let note = json!({"metadata": {"annotations": {ANNOTATION_CLASS: "x.io/y@uid-web"}}});
    let both = with(&finalizer(), &class("x.io/y"));
    for (change, step) in [
        (finalizer(), Step::RemoveFinalizer { note: false }),
        (both.clone(), Step::RemoveFinalizer { note: false }),
        (with(&both, &note), Step::Forget),
        (json!({}), Step::Forget),
    ] {
        let entry = entry(&change);
        let (_, turn) =
            attempt(Goal::CleanUp, &entry).after_delete(state(Phase::Deleting, OLD), Ok(()));
        assert_eq!(
            turn.events == [Event::Deleted],
            step == Step::Forget,
            "{change}"
        );
        assert_eq!(turn.step, step, "{change}");
    }
}

// Holds: S-34, S-35
#[test]
fn a_status_in_cache_or_last_written_is_cleared() {
    let cached = with(
        &finalizer(),
        &json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
    );
    for (change, written, step) in [
        (finalizer(), None, Step::Forget),
        (
            finalizer(),
            Some(LoadBalancerStatus::default()),
            Step::Forget,
        ),
        (finalizer(), Some(status("192.0.2.1")), Step::ClearStatus),
        (cached.clone(), None, Step::ClearStatus),
        (
            cached,
            Some(LoadBalancerStatus::default()),
            Step::ClearStatus,
        ),
    ] {
        let entry = entry(&change);
        let before = || State {
            written: written.clone(),
            ..state(Phase::Absent, OLD)
        };
        for removed in [Ok(()), Err(gone())] {
            let (_, turn) =
                attempt(Goal::CleanUp, &entry).after_remove_finalizer(before(), removed);
            assert_eq!(
                (&turn.step, turn.events),
                (&step, vec![Event::Deleted]),
                "{change} {written:?}"
            );
        }
        let (_, turn) =
            attempt(Goal::Forget { recreated: false }, &entry).after_delete(before(), Ok(()));
        assert_eq!(
            (turn.step, turn.events),
            (Step::Forget, vec![Event::Deleted]),
            "there is no object"
        );
    }
}

// Holds: S-18, S-33, S-35
#[test]
fn a_service_is_forgotten_after_its_object_is_clean() {
    let entry = entry(&finalizer());
    let attempt = attempt(Goal::CleanUp, &entry);

    let failed = |again| Step::Done(vec![Requeue::Retry(again)]);
    for (error, released, cleared) in [
        (gone(), Step::Forget, Step::Forget),
        (changed(), failed(Again::Soon), Step::Forget),
        (broken(), failed(Again::BackOff), failed(Again::BackOff)),
    ] {
        let again = match &error {
            ApiError::Gone(_) => gone(),
            ApiError::Changed(_) => changed(),
            _ => broken(),
        };
        assert_eq!(
            attempt
                .after_remove_finalizer(state(Phase::Absent, OLD), Err(error))
                .1
                .step,
            released
        );
        assert_eq!(
            attempt
                .after_clear_status(state(Phase::Absent, OLD), Err(again))
                .1
                .step,
            cleared
        );
    }
    assert_eq!(
        attempt
            .after_clear_status(state(Phase::Absent, OLD), Ok(()))
            .1
            .step,
        Step::Forget
    );
    assert_eq!(
        attempt.after_forget(state(Phase::Absent, OLD)).1.step,
        Step::Done(vec![Requeue::Reset])
    );
}

// Holds: S-24
#[test]
fn a_finalizer_that_another_implementation_may_have_added_stays_at_a_hand_over() {
    let served = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let note = json!({"metadata": {"annotations": {ANNOTATION_CLASS: "x.io/y@uid-web"}}});
    let noted = with::<Value>(&finalizer(), &note);
    let mut classes = crate::service::Classes::default();
    classes.named.insert("x.io/y".to_owned());
    for (change, ours, removed, may_stay) in [
        (json!({}), false, Some(false), false),
        (finalizer(), false, None, true),
        (finalizer(), true, Some(false), true),
        (noted, false, Some(true), true),
    ] {
        let entry = entry(&with::<Value>(&change, &served));
        let before = State {
            ours,
            ..state(Phase::Ensuring { exists: true }, OLD)
        };
        let attempt = Attempt {
            classes: &classes,
            ..attempt(Goal::Ensure, &entry)
        };
        let elsewhere = Err(CloudError::ImplementedElsewhere);
        let (after, turn) = attempt.after_ensure(before, OLD, elsewhere);
        let step = removed.map_or(Step::Forget, |note| Step::RemoveFinalizer { note });
        assert_eq!(
            (turn.step, after.phase),
            (step, Phase::Elsewhere),
            "{change}"
        );
        assert_eq!(turn.events, [Event::HandedOver { may_stay }], "{change}");
    }
}

#[test]
fn what_another_implementation_has_by_then_is_not_overwritten() {
    let ingress = |ip: &str| json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}});
    let of = |class: Option<&str>, status: &str, change: &Value| {
        let class = json!({"spec": {"loadBalancerClass": class}});
        let service = with::<Value>(&with::<Value>(&finalizer(), &class), &ingress(status));
        entry(&with::<Value>(&service, change))
    };
    let (ours, theirs, none) = ("192.0.2.1", "192.0.2.66", json!({}));
    let cluster_ip = json!({"spec": {"type": "ClusterIP"}});
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let free = json!({"metadata": {"finalizers": null}});
    let begun = entry(&finalizer());
    let attempt = attempt(Goal::CleanUp, &begun);
    let before = State {
        written: Some(status(ours)),
        ..state(Phase::Absent, OLD)
    };
    // Whether the status is written, the finalizer removed, and the status cleared.
    for (present, expected) in [
        (of(None, ours, &none), [true; 3]),
        (of(None, theirs, &none), [true; 3]),
        (of(None, ours, &cluster_ip), [false, true, true]),
        (of(Some("x.io/y"), ours, &none), [false, false, true]),
        (of(Some("x.io/y"), theirs, &none), [false, false, false]),
        (of(Some("x.io/y"), theirs, &deleting), [false, true, false]),
        (of(Some("x.io/y"), theirs, &free), [false, true, false]),
    ] {
        let steps = [
            Step::WriteStatus(status(ours)),
            Step::RemoveFinalizer { note: false },
            Step::ClearStatus,
        ];
        let instead = [
            Step::Done(vec![Requeue::Reset]),
            Step::LeaveFinalizer {
                note: "left:@uid-web".into(),
            },
            Step::Forget,
        ];
        for ((step, instead), same) in steps.into_iter().zip(instead).zip(expected) {
            let text = format!("{step:?} {:?}", present.object);
            let revised = attempt.revised(step, &before, &present);
            assert_eq!(revised != instead, same, "{text}");
        }
    }
}
