use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use skydock_controller_base::{
    calls::retry::RetryWhen,
    objects::constants::{ANNOTATION_CLASS, FINALIZER},
    testing::{every_error, with},
};

use super::*;
use crate::{
    ServiceEntry,
    attempt::testing::{
        Answers, Call, Given, OLD, PHASES, broken, changed, entry, given, gone, state, status,
    },
    known::state::{State, UnfinishedSync},
    plan::finalizer::AddedBy,
};

/// Returns the answers with this one about whether there is a load balancer.
fn found(found: Result<Option<LoadBalancerStatus>, CloudError>) -> Answers {
    Answers {
        found,
        ..Answers::default()
    }
}

/// Returns the answers with this one of the call that deletes the load balancer.
fn deleted(deleted: Result<(), CloudError>) -> Answers {
    Answers {
        deleted,
        ..Answers::default()
    }
}

fn finalizer() -> Value {
    json!({"metadata": {"finalizers": [FINALIZER]}})
}

fn deleting() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

/// Returns a state in which this was announced.
fn announced(phase: LoadBalancerPhase, announced: Option<Announced>) -> State {
    State {
        unfinished_sync: Some(UnfinishedSync {
            announced,
            ..UnfinishedSync::default()
        }),
        ..state(phase, OLD)
    }
}

// Holds: S-30, S-31
#[test]
fn the_cloud_is_asked_first_unless_a_request_is_unfinished() {
    let entry = entry(&finalizer());
    for phase in PHASES {
        let ran = given(Goal::CleanUp, &entry).run(state(phase, OLD), Answers::default());
        let first = ran.first();
        if phase.requested() {
            assert_eq!(
                (&first.call, &first.events[..]),
                (&Call::Delete, &[Event::Deleting][..]),
                "{phase:?}"
            );
            assert_eq!(
                first.state,
                announced(LoadBalancerPhase::Deleting, Some(Announced::Deleting)),
                "{phase:?}"
            );
        } else {
            assert_eq!(
                (&first.call, &first.events[..]),
                (&Call::GetLoadBalancer, &[][..]),
                "{phase:?}"
            );
            assert_eq!(first.state, announced(phase, None), "{phase:?}");
        }
    }
}

// Holds: S-30, S-31, S-32
#[test]
fn what_the_cloud_does_not_report_is_deleted_without_an_event() {
    let entry = entry(&with(&finalizer(), &deleting()));
    let release = Call::RemoveFinalizer {
        class_annotation: false,
    };
    for (answer, before, call, reported) in [
        (Ok(Some(status("192.0.2.1"))), None, Call::Delete, true),
        (
            Ok(Some(status("192.0.2.1"))),
            Some(Announced::Ensuring),
            Call::Delete,
            true,
        ),
        (
            Ok(Some(status("192.0.2.1"))),
            Some(Announced::Deleting),
            Call::Delete,
            false,
        ),
        (Ok(None), None, Call::Delete, false),
        (
            Err(CloudError::NotFound("none".into())),
            None,
            Call::Delete,
            false,
        ),
        (Err(CloudError::ImplementedElsewhere), None, release, false),
    ] {
        let elsewhere = call != Call::Delete;
        let phase = if call == Call::Delete {
            LoadBalancerPhase::Deleting
        } else {
            LoadBalancerPhase::LeftToOthers
        };
        let before = announced(LoadBalancerPhase::Present, before);
        let ran = given(Goal::CleanUp, &entry).run(before, found(answer.clone()));
        let next = ran.after("GetLoadBalancer");
        assert_eq!((&next.call, next.state.phase), (&call, phase), "{answer:?}");
        let events = match (reported, elsewhere) {
            (true, _) => vec![Event::Deleting],
            (false, true) => vec![Event::HandedOver(OwnLoadBalancer::Possible)],
            (false, false) => vec![],
        };
        assert_eq!(next.events, events, "{answer:?}");
    }
}

/// Returns the expected retry and warning for each error of [`every_error`], unless it is a
/// success.
fn retries() -> [Option<(RetryWhen, bool)>; 9] {
    let delay = RetryWhen::After(Duration::from_secs(7));
    let back_off = Some((RetryWhen::BackOff, true));
    let (soon, rejected) = (
        Some((RetryWhen::Soon, false)),
        Some((RetryWhen::OnChange, true)),
    );
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

fn requeue(again: RetryWhen) -> Vec<Requeue> {
    if again == RetryWhen::OnChange {
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
        let before = state(LoadBalancerPhase::Present, OLD);
        let ran = given(Goal::CleanUp, &entry).run(before, found(Err(error.clone())));
        let done = ran.after("GetLoadBalancer");
        assert_eq!(
            (&done.call, done.state.phase),
            (&Call::Done(requeue(again)), LoadBalancerPhase::Present),
            "{error}"
        );
        assert_eq!(done.events.len(), usize::from(warns), "{error}");
    }
}

// Holds: S-31, S-33, S-39, S-44
#[test]
fn only_a_deleted_load_balancer_releases_the_service() {
    let entry = entry(&with(&finalizer(), &deleting()));
    for goal in [Goal::CleanUp, Goal::DeleteOrphan { recreated: false }] {
        let cleanup = goal == Goal::CleanUp;
        let released = if cleanup {
            Call::RemoveFinalizer {
                class_annotation: false,
            }
        } else {
            Call::DropKnown
        };
        let before = || state(LoadBalancerPhase::Deleting, OLD);
        let ran = given(goal, &entry).run(before(), deleted(Ok(())));
        let next = ran.after("Delete");
        assert_eq!(
            (&next.call, next.state.phase),
            (&released, LoadBalancerPhase::Absent),
            "{goal:?}"
        );
        assert_eq!(next.events == [Event::Deleted], !cleanup, "{goal:?}");
        for (error, expected) in every_error().into_iter().zip(retries()) {
            let ran = given(goal, &entry).run(before(), deleted(Err(error.clone())));
            let next = ran.after("Delete");
            let Some((again, warns)) = expected else {
                assert_eq!(
                    (&next.call, next.state.phase),
                    (&released, LoadBalancerPhase::LeftToOthers),
                    "{goal:?}"
                );
                let handed = vec![Event::HandedOver(OwnLoadBalancer::None)];
                let events = if cleanup { handed } else { vec![] };
                assert_eq!(next.events, events, "{goal:?}");
                continue;
            };
            assert_eq!(
                (&next.call, next.state.phase),
                (&Call::Done(requeue(again)), LoadBalancerPhase::Deleting),
                "{goal:?} {error}"
            );
            let failed = if cleanup {
                Event::SyncFailed(format!("failed to delete load balancer: {error}"))
            } else {
                Event::DeleteFailed(error.to_string())
            };
            assert_eq!(
                next.events,
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
    let goal = Goal::DeleteOrphan { recreated: true };
    let ran = given(goal, &entry).run(state(LoadBalancerPhase::Present, OLD), Answers::default());
    let first = ran.first();
    assert_eq!(
        (&first.call, &first.events[..], first.state.phase),
        (
            &Call::Delete,
            &[Event::Deleting][..],
            LoadBalancerPhase::Deleting
        )
    );

    for error in every_error()
        .into_iter()
        .filter(|error| *error != CloudError::ImplementedElsewhere)
    {
        let rejected = matches!(error, CloudError::Invalid(_));
        let before = state(LoadBalancerPhase::Deleting, OLD);
        let ran = given(goal, &entry).run(before, deleted(Err(error.clone())));
        let next = ran.after("Delete");
        assert_eq!(next.call == Call::SetAside, rejected, "{error}");
        assert!(next.failure.is_some(), "{error}");
        if rejected {
            let done = Call::Done(vec![Requeue::Reset, Requeue::Check]);
            assert_eq!(ran.after("SetAside").call, done);
        }
    }
}

// Holds: S-33, S-34, S-36
#[test]
fn the_finalizer_is_removed_only_if_it_is_ours() {
    let class = |class: &str| json!({"spec": {"loadBalancerClass": class}});
    let annotation = json!({"metadata": {"annotations": {ANNOTATION_CLASS: "x.io/y@uid-web"}}});
    let both = with(&finalizer(), &class("x.io/y"));
    for (change, call) in [
        (
            finalizer(),
            Call::RemoveFinalizer {
                class_annotation: false,
            },
        ),
        (
            both.clone(),
            Call::RemoveFinalizer {
                class_annotation: false,
            },
        ),
        (with(&both, &annotation), Call::DropKnown),
        (json!({}), Call::DropKnown),
    ] {
        let entry = entry(&change);
        let before = state(LoadBalancerPhase::Deleting, OLD);
        let ran = given(Goal::CleanUp, &entry).run(before, Answers::default());
        let next = ran.after("Delete");
        assert_eq!(
            next.events == [Event::Deleted],
            call == Call::DropKnown,
            "{change}"
        );
        assert_eq!(next.call, call, "{change}");
    }
}

// Holds: S-34, S-35
#[test]
fn a_status_in_cache_or_last_written_is_cleared() {
    let cached = with(
        &finalizer(),
        &json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
    );
    for (change, written, call) in [
        (finalizer(), None, Call::DropKnown),
        (
            finalizer(),
            Some(LoadBalancerStatus::default()),
            Call::DropKnown,
        ),
        (finalizer(), Some(status("192.0.2.1")), Call::ClearStatus),
        (cached.clone(), None, Call::ClearStatus),
        (
            cached,
            Some(LoadBalancerStatus::default()),
            Call::ClearStatus,
        ),
    ] {
        let entry = entry(&change);
        let before = || State {
            written_status: written.clone(),
            ..state(LoadBalancerPhase::Deleting, OLD)
        };
        for removed in [Ok(()), Err(gone())] {
            let answers = Answers {
                removed,
                ..Answers::default()
            };
            let ran = given(Goal::CleanUp, &entry).run(before(), answers);
            let next = ran.after("RemoveFinalizer");
            assert_eq!(
                (&next.call, &next.events[..]),
                (&call, &[Event::Deleted][..]),
                "{change} {written:?}"
            );
        }
        let delete_orphan = Goal::DeleteOrphan { recreated: false };
        let ran = given(delete_orphan, &entry).run(before(), Answers::default());
        let next = ran.after("Delete");
        assert_eq!(
            (&next.call, &next.events[..]),
            (&Call::DropKnown, &[Event::Deleted][..]),
            "there is no object"
        );
    }
}

// Holds: S-18, S-33, S-35
#[test]
fn a_service_is_forgotten_after_its_object_is_clean() {
    let served = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let (clean, served) = (
        entry(&finalizer()),
        entry(&with::<Value>(&finalizer(), &served)),
    );
    let run = |entry, removed, written| {
        let answers = Answers {
            removed,
            written,
            ..Answers::default()
        };
        given(Goal::CleanUp, entry).run(state(LoadBalancerPhase::Deleting, OLD), answers)
    };

    let failed = |again| Call::Done(vec![Requeue::Retry(again)]);
    for (error, released, cleared) in [
        (gone(), Call::DropKnown, Call::DropKnown),
        (changed(), failed(RetryWhen::Soon), Call::DropKnown),
        (
            broken(),
            failed(RetryWhen::BackOff),
            failed(RetryWhen::BackOff),
        ),
    ] {
        let again = match &error {
            ApiError::Gone(_) => gone(),
            ApiError::Changed(_) => changed(),
            _ => broken(),
        };
        let ran = run(&clean, Err(error), Ok(()));
        assert_eq!(ran.after("RemoveFinalizer").call, released);
        let ran = run(&served, Ok(()), Err(again));
        assert_eq!(ran.after("ClearStatus").call, cleared);
    }
    let ran = run(&served, Ok(()), Ok(()));
    assert_eq!(ran.after("ClearStatus").call, Call::DropKnown);
    assert_eq!(
        ran.after("DropKnown").call,
        Call::Done(vec![Requeue::Reset])
    );
}

// Holds: S-34
#[test]
fn a_retry_does_not_publish_again_that_it_was_deleted() {
    let served = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let served = entry(&with::<Value>(&finalizer(), &served));
    let given = given(Goal::CleanUp, &served);
    let broken = || Answers {
        written: Err(broken()),
        ..Answers::default()
    };

    let first = given.run(state(LoadBalancerPhase::Deleting, OLD), broken());
    assert_eq!(first.after("RemoveFinalizer").events, [Event::Deleted]);
    let failed = first.after("ClearStatus");
    assert_eq!(failed.events.len(), 1, "{:?}", failed.events);

    let retry = given.run(failed.state.clone(), broken());
    assert_eq!(retry.after("RemoveFinalizer").events, []);
}

// Holds: S-24
#[test]
fn a_finalizer_that_another_implementation_may_have_added_stays_at_a_hand_over() {
    let served = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let annotation = json!({"metadata": {"annotations": {ANNOTATION_CLASS: "x.io/y@uid-web"}}});
    let annotated = with::<Value>(&finalizer(), &annotation);
    let mut classes = crate::Classes::default();
    classes.named.insert("x.io/y".to_owned());
    let left = with::<Value>(
        &finalizer(),
        &json!({"metadata": {"annotations": {ANNOTATION_CLASS: "left:x.io/y@uid-web"}}}),
    );
    let leave = Call::LeaveFinalizer {
        class_annotation: "left:x.io/y@uid-web".into(),
    };
    let remove = |class_annotation| Call::RemoveFinalizer { class_annotation };
    let (unknown, this_process) = (AddedBy::Unknown, AddedBy::ThisProcess);
    for (change, added_by, wrote, call, own) in [
        (
            json!({}),
            unknown,
            false,
            remove(false),
            OwnLoadBalancer::None,
        ),
        (
            finalizer(),
            unknown,
            false,
            Call::DropKnown,
            OwnLoadBalancer::Possible,
        ),
        (
            finalizer(),
            unknown,
            true,
            Call::DropKnown,
            OwnLoadBalancer::Known,
        ),
        (
            finalizer(),
            this_process,
            false,
            remove(false),
            OwnLoadBalancer::Known,
        ),
        (
            annotated,
            unknown,
            false,
            remove(true),
            OwnLoadBalancer::Known,
        ),
        // This attempt has replaced the annotation.
        (left, unknown, false, leave, OwnLoadBalancer::Possible),
    ] {
        let entry = entry(&with::<Value>(&change, &served));
        let before = State {
            finalizer_added_by: added_by,
            written_status: wrote.then(|| status("192.0.2.1")),
            ..state(LoadBalancerPhase::Ensuring { exists: true }, OLD)
        };
        let given = Given {
            classes: &classes,
            ..given(Goal::Ensure, &entry)
        };
        let elsewhere = Answers {
            ensured: Err(CloudError::ImplementedElsewhere),
            ..Answers::default()
        };
        let ran = given.run(before, elsewhere);
        let next = ran.after("Ensure");
        assert_eq!(
            (&next.call, next.state.phase),
            (&call, LoadBalancerPhase::LeftToOthers),
            "{change}"
        );
        assert_eq!(next.events, [Event::HandedOver(own)], "{change}");
    }
}

// Holds: S-24
#[test]
fn a_finalizer_of_another_implementation_stays_when_the_type_changes() {
    let cluster_ip = json!({"spec": {"type": "ClusterIP"}});
    let changed = with::<Value>(&finalizer(), &cluster_ip);
    let annotation = json!({"metadata": {"annotations": {ANNOTATION_CLASS: "x.io/y@uid-web"}}});
    let annotated = with::<Value>(&changed, &annotation);
    let mut classes = crate::Classes::default();
    classes.named.insert("x.io/y".to_owned());
    for (change, added_by, removed) in [
        (changed.clone(), AddedBy::Unknown, None),
        (changed.clone(), AddedBy::ThisProcess, Some(false)),
        (annotated, AddedBy::Unknown, Some(true)),
        (with(&changed, &deleting()), AddedBy::Unknown, Some(false)),
    ] {
        let entry = entry(&change);
        let elsewhere = Err(CloudError::ImplementedElsewhere);
        for (answers, after) in [
            (
                found(Err(CloudError::ImplementedElsewhere)),
                "GetLoadBalancer",
            ),
            (deleted(elsewhere), "Delete"),
        ] {
            let before = State {
                finalizer_added_by: added_by,
                ..state(LoadBalancerPhase::Absent, OLD)
            };
            let given = Given {
                classes: &classes,
                ..given(Goal::CleanUp, &entry)
            };
            let ran = given.run(before, answers);
            let call = removed.map_or(Call::DropKnown, |class_annotation| Call::RemoveFinalizer {
                class_annotation,
            });
            assert_eq!(ran.after(after).call, call, "{change} {added_by:?} {after}");
        }
    }
}

// Holds: S-24
#[test]
fn the_class_that_was_written_over_a_finalizer_that_was_found_does_not_claim_it() {
    let class = json!({"spec": {"loadBalancerClass": "x.io/y"}});
    let fresh = with::<Value>(&finalizer(), &class);
    let annotation = |value: &str| json!({"metadata": {"annotations": {ANNOTATION_CLASS: value}}});
    let annotated = with::<Value>(&fresh, &annotation("x.io/y@uid-web"));
    let left = with::<Value>(&fresh, &annotation("left:x.io/y@uid-web"));
    let mut classes = crate::Classes::default();
    classes.named.insert("x.io/y".to_owned());

    let leave = Call::LeaveFinalizer {
        class_annotation: "left:x.io/y@uid-web".into(),
    };
    let remove = Call::RemoveFinalizer {
        class_annotation: true,
    };
    for (change, added_by, expected) in [
        // This attempt writes the annotation.
        (&fresh, AddedBy::Unknown, &leave),
        (&left, AddedBy::Unknown, &leave),
        // An earlier attempt, which failed, has written it.
        (&annotated, AddedBy::MaybeOthers, &leave),
        // An earlier process has written it.
        (&annotated, AddedBy::Unknown, &remove),
    ] {
        let entry = entry(change);
        let given = Given {
            classes: &classes,
            ..given(Goal::Ensure, &entry)
        };
        let before = State {
            finalizer_added_by: added_by,
            ..state(LoadBalancerPhase::Absent, OLD)
        };
        let elsewhere = Answers {
            ensured: Err(CloudError::ImplementedElsewhere),
            ..Answers::default()
        };
        let ran = given.run(before, elsewhere);
        assert_eq!(ran.after("Ensure").call, *expected, "{change} {added_by:?}");
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
    let deleting = deleting();
    let free = json!({"metadata": {"finalizers": null}});
    let begun = entry(&finalizer());
    let run = |goal, present: &ServiceEntry| {
        let before = State {
            written_status: Some(status(ours)),
            ..state(LoadBalancerPhase::Deleting, OLD)
        };
        let answers = Answers {
            present: Some(Arc::clone(present)),
            ..Answers::default()
        };
        given(goal, &begun).run(before, answers)
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
        let calls = [
            Call::WriteStatus(status(ours)),
            Call::RemoveFinalizer {
                class_annotation: false,
            },
            Call::ClearStatus,
        ];
        let instead = [
            Call::Done(vec![Requeue::Reset]),
            Call::LeaveFinalizer {
                class_annotation: "left:@uid-web".into(),
            },
            Call::DropKnown,
        ];
        let (ensured, cleaned) = (run(Goal::Ensure, &present), run(Goal::CleanUp, &present));
        let released = if expected[1] {
            "RemoveFinalizer"
        } else {
            "LeaveFinalizer"
        };
        let done = [
            &ensured.after("Ensure").call,
            &cleaned.after("Delete").call,
            &cleaned.after(released).call,
        ];
        for (((call, instead), same), done) in
            calls.into_iter().zip(instead).zip(expected).zip(done)
        {
            let expected = if same { call } else { instead };
            assert_eq!(*done, expected, "{:?}", present.object);
        }
    }
}
