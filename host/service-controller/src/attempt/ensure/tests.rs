use std::time::Duration;

use serde_json::json;
use skydock_controller_base::{
    calls::retry::RetryWhen, objects::constants::FINALIZER, testing::every_error,
};
use tokio::time::Instant;

use super::*;
use crate::{
    attempt::testing::{
        Answers, Call, Given, NEW, OLD, PHASES, broken, changed, choice, entry, given, gone, state,
        status,
    },
    known::{
        own_load_balancer::OwnLoadBalancer,
        state::{LoadBalancerPhase, UnfinishedSync},
    },
    plan::{finalizer::AddedBy, goal::Goal},
};

const SUCCESS: [Requeue; 2] = [Requeue::Reset, Requeue::Check];

fn sync_failed(what: &str) -> Vec<Event> {
    vec![Event::SyncFailed(what.to_owned())]
}

/// Returns the answers with this error of the call that ensures the load balancer.
fn ensured(error: &CloudError) -> Answers {
    Answers {
        ensured: Err(error.clone()),
        ..Answers::default()
    }
}

// Holds: S-19, S-20
#[test]
fn an_attempt_begins_with_event_and_finalizer() {
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let class =
        json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"loadBalancerClass": "x.io/y"}});
    let class_annotation = Some("x.io/y@uid-web".to_owned());
    for (change, priority, announced, reported, call) in [
        (
            json!({}),
            Priority::Change,
            None,
            true,
            Call::AddFinalizer {
                class_annotation: None,
            },
        ),
        (
            class,
            Priority::Change,
            None,
            true,
            Call::AddFinalizer { class_annotation },
        ),
        (
            finalizer.clone(),
            Priority::Change,
            None,
            true,
            Call::SelectNodes,
        ),
        (
            finalizer.clone(),
            Priority::Change,
            Some(Announced::Deleting),
            true,
            Call::SelectNodes,
        ),
        (
            finalizer.clone(),
            Priority::Change,
            Some(Announced::Ensuring),
            false,
            Call::SelectNodes,
        ),
        (finalizer, Priority::Recheck, None, false, Call::SelectNodes),
    ] {
        let entry = entry(&change);
        let before = State {
            unfinished_sync: Some(UnfinishedSync {
                announced,
                ..UnfinishedSync::default()
            }),
            ..State::new(false)
        };
        let ran = Given {
            priority,
            ..given(Goal::Ensure, &entry)
        }
        .run(before, Answers::default());
        let first = ran.first();
        let events = if reported {
            vec![Event::Ensuring]
        } else {
            vec![]
        };
        assert_eq!((&first.events, &first.call), (&events, &call), "{change}");
        let announced = if reported {
            Some(Announced::Ensuring)
        } else {
            announced
        };
        assert_eq!(
            first.state,
            State {
                unfinished_sync: Some(UnfinishedSync {
                    announced,
                    ..UnfinishedSync::default()
                }),
                ..State::new(false)
            }
        );
    }
}

#[test]
fn an_invalid_service_is_rejected_without_a_call() {
    let entry = entry(&json!({"spec": {"loadBalancerSourceRanges": ["odd"]}}));
    for phase in PHASES {
        let ran = given(Goal::Ensure, &entry).run(state(phase, OLD), Answers::default());
        let (done, after) = (ran.first(), &ran.first().state);
        assert_eq!(
            (after.phase, after.sent),
            (phase.rejected(), OLD),
            "{phase:?}"
        );
        assert_eq!(done.call, Call::Done(SUCCESS.into()));
        assert!(
            done.failure.as_deref() == Some("Invalid")
                && after.unfinished_sync.is_some_and(|sync| sync.failed)
        );
        assert!(
            matches!(&done.events[..], [Event::SyncFailed(_)]),
            "{:?}",
            done.events
        );
    }
}

// Holds: S-20
#[test]
fn only_a_written_finalizer_leads_to_the_cloud() {
    let entry = entry(&json!({}));
    for (added, expected, warns) in [
        (Ok(()), Call::SelectNodes, false),
        (Err(gone()), Call::Done(vec![Requeue::Reset]), false),
        (
            Err(changed()),
            Call::Done(vec![Requeue::Retry(RetryWhen::Soon)]),
            true,
        ),
        (
            Err(broken()),
            Call::Done(vec![Requeue::Retry(RetryWhen::BackOff)]),
            true,
        ),
    ] {
        let answers = Answers {
            added,
            ..Answers::default()
        };
        let ran = given(Goal::Ensure, &entry).run(State::new(false), answers);
        let next = ran.after("AddFinalizer");
        let failed = next.state.unfinished_sync.unwrap().failed;
        assert_eq!(
            (&next.call, next.events.len(), failed),
            (&expected, usize::from(warns), warns)
        );
    }
}

// Holds: S-21, S-22, S-29
#[test]
fn nodes_are_remembered_before_the_call_even_if_there_are_none() {
    let entry = entry(&json!({}));
    for (names, priority, reported_before, reported) in [
        (&["n1"][..], Priority::Change, false, false),
        (&[], Priority::Change, false, true),
        (&[], Priority::Change, true, false),
        (&[], Priority::Recheck, false, false),
    ] {
        for phase in PHASES {
            let before = State {
                unfinished_sync: Some(UnfinishedSync {
                    no_nodes: reported_before,
                    ..UnfinishedSync::default()
                }),
                ..state(phase, OLD)
            };
            let sent = before.clone().ensuring(choice(names).fingerprint);
            assert_eq!(sent, OLD);

            let given = Given {
                priority,
                ..given(Goal::Ensure, &entry)
            };
            let answers = Answers {
                nodes: choice(names),
                ..Answers::default()
            };
            let ran = given.run(before, answers);
            let (call, during) = (ran.after("SelectNodes"), &ran.after("SelectNodes").state);
            assert_eq!(call.call, Call::Ensure(choice(names).nodes));
            assert_eq!(
                (during.phase, during.sent),
                (phase.ensuring(), NEW),
                "{phase:?}"
            );
            assert_eq!(
                call.events,
                if reported {
                    vec![Event::NoNodes]
                } else {
                    vec![]
                },
                "{names:?} {priority:?}"
            );
            assert_eq!(
                during.unfinished_sync.unwrap().no_nodes,
                reported_before || reported
            );
        }
    }
}

// Holds: S-24, S-26, S-39
#[test]
fn each_error_of_ensure_decides_on_phase_event_and_retry() {
    let entry = entry(&json!({}));
    let delay = RetryWhen::After(Duration::from_secs(7));
    let expected = [
        Some((RetryWhen::BackOff, true)),
        None,
        Some((RetryWhen::Soon, false)),
        Some((delay, true)),
        Some((delay, false)),
        Some((RetryWhen::BackOff, true)),
        Some((RetryWhen::OnChange, true)),
        Some((RetryWhen::BackOff, true)),
        Some((RetryWhen::BackOff, true)),
    ];
    for (error, expected) in every_error().into_iter().zip(expected) {
        let ran =
            given(Goal::Ensure, &entry).run(state(LoadBalancerPhase::Absent, OLD), ensured(&error));
        let (next, after) = (ran.after("Ensure"), &ran.after("Ensure").state);
        let sync = |failed| UnfinishedSync {
            announced: Some(Announced::Ensuring),
            failed,
            ..UnfinishedSync::default()
        };
        let Some((again, warns)) = expected else {
            let elsewhere = State {
                finalizer_added_by: AddedBy::ThisProcess,
                unfinished_sync: Some(sync(false)),
                ..state(LoadBalancerPhase::LeftToOthers, NEW)
            };
            assert_eq!(
                (after, &next.events[..]),
                (&elsewhere, &[Event::HandedOver(OwnLoadBalancer::None)][..]),
                "{error}"
            );
            assert_eq!(
                next.call,
                Call::RemoveFinalizer {
                    class_annotation: false
                },
                "nothing of its load balancer is left"
            );
            continue;
        };
        let rejected = again == RetryWhen::OnChange;
        let requeue = if rejected {
            SUCCESS.into()
        } else {
            vec![Requeue::Retry(again)]
        };
        assert_eq!(next.call, Call::Done(requeue), "{error}");
        let failed = sync_failed(&format!("failed to ensure load balancer: {error}"));
        assert_eq!(next.events, if warns { failed } else { vec![] }, "{error}");
        assert_eq!(next.failure.as_deref(), Some("Cloud"), "{error}");
        let phase = LoadBalancerPhase::Ensuring { exists: false };
        assert_eq!(
            after.phase,
            if rejected { phase.rejected() } else { phase },
            "{error}"
        );
        assert_eq!(
            (after.sent, after.unfinished_sync),
            (NEW, Some(sync(warns))),
            "{error}"
        );
    }
}

// Holds: S-16, S-22
#[test]
fn an_existing_load_balancer_gets_the_nodes_of_a_failed_call() {
    let entry = entry(&json!({}));
    let later = SentNodes::Postponed(Instant::now() + Duration::from_secs(7));
    for (exists, before, missed) in [
        (true, OLD, Some(SentNodes::Failed)),
        (true, later, Some(later)),
        (true, SentNodes::Failed, Some(SentNodes::Failed)),
        (true, SentNodes::Unknown, Some(SentNodes::Unknown)),
        (true, NEW, None),
        (false, OLD, None),
    ] {
        for error in [
            CloudError::Denied("no".into()),
            CloudError::Invalid("no".into()),
        ] {
            let phase = LoadBalancerPhase::Ensuring { exists };
            let ran = given(Goal::Ensure, &entry).run(state(phase, before), ensured(&error));
            let done = ran.after("Ensure");
            let sent = done.state.sent;
            assert_eq!(sent, missed.unwrap_or(NEW), "{exists} {before:?}");
            let Call::Done(requeue) = &done.call else {
                panic!("{:?}", done.call)
            };
            assert_eq!(
                requeue.contains(&Requeue::UpdateNodes),
                missed.is_some(),
                "{exists} {before:?}"
            );
        }
    }
}

// Holds: S-27
#[test]
fn a_status_is_written_if_cache_or_last_written_one_differs() {
    let ip = |ip: &str| json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}});
    for (cached, written, write) in [
        (json!({}), None, true),
        (ip("192.0.2.1"), None, false),
        (ip("192.0.2.2"), None, true),
        (ip("192.0.2.1"), Some(status("192.0.2.1")), false),
        (ip("192.0.2.1"), Some(status("192.0.2.2")), true),
        (json!({}), Some(status("192.0.2.1")), true),
    ] {
        let entry = entry(&cached);
        let before = State {
            written_status: written.clone(),
            ..state(LoadBalancerPhase::Ensuring { exists: false }, NEW)
        };
        let ran = given(Goal::Ensure, &entry).run(before, Answers::default());
        let next = ran.after("Ensure");
        let call = if write {
            Call::WriteStatus(status("192.0.2.1"))
        } else {
            Call::Done(SUCCESS.into())
        };
        assert_eq!(
            (&next.call, next.state.phase),
            (&call, LoadBalancerPhase::Present),
            "{cached} {written:?}"
        );
        assert_eq!(
            next.state.written_status,
            if write {
                Some(status("192.0.2.1"))
            } else {
                written
            },
            "{cached}"
        );
    }
}

// Holds: S-27, S-29
#[test]
fn success_is_reported_if_anything_was_written_or_reported() {
    let cached = |ip: &str| {
        entry(&json!({
            "metadata": {"finalizers": [FINALIZER]},
            "status": {"loadBalancer": {"ingress": [{"ip": ip}]}},
        }))
    };
    let (same, other) = (cached("192.0.2.1"), cached("192.0.2.2"));
    let none = UnfinishedSync::default();
    for (sync, reported) in [
        (none, false),
        (
            UnfinishedSync {
                no_nodes: true,
                ..none
            },
            false,
        ),
        (
            UnfinishedSync {
                announced: Some(Announced::Ensuring),
                ..none
            },
            true,
        ),
        (
            UnfinishedSync {
                announced: Some(Announced::Deleting),
                ..none
            },
            true,
        ),
        (
            UnfinishedSync {
                failed: true,
                ..none
            },
            true,
        ),
    ] {
        let before = State {
            unfinished_sync: Some(sync),
            ..state(LoadBalancerPhase::Ensuring { exists: true }, NEW)
        };
        // A re-check announces nothing.
        let recheck = |entry| Given {
            priority: Priority::Recheck,
            ..given(Goal::Ensure, entry)
        };
        let ran = recheck(&same).run(before.clone(), Answers::default());
        let done = ran.after("Ensure");
        assert_eq!(
            done.events,
            if reported {
                vec![Event::Ensured]
            } else {
                vec![]
            },
            "{sync:?}"
        );
        assert_eq!(
            done.state,
            state(LoadBalancerPhase::Present, NEW),
            "the sync has ended"
        );

        let ran = recheck(&other).run(before, Answers::default());
        let done = ran.after("WriteStatus");
        assert_eq!(
            (&done.events[..], done.state.unfinished_sync),
            (&[Event::Ensured][..], None),
            "{sync:?}"
        );
    }
}

// Holds: S-28
#[test]
fn a_status_that_cannot_be_written_is_retried() {
    let entry = entry(&json!({}));
    for (written, expected) in [
        (Err(gone()), Ok(())),
        (Err(changed()), Err(RetryWhen::Soon)),
        (Err(broken()), Err(RetryWhen::BackOff)),
    ] {
        let answers = Answers {
            written,
            ..Answers::default()
        };
        let ran = given(Goal::Ensure, &entry).run(state(LoadBalancerPhase::Present, NEW), answers);
        let (done, after) = (ran.after("WriteStatus"), &ran.after("WriteStatus").state);
        let requeue =
            expected.map_or_else(|again| vec![Requeue::Retry(again)], |()| SUCCESS.into());
        assert_eq!(
            (&done.call, after.phase),
            (&Call::Done(requeue), LoadBalancerPhase::Present)
        );
        assert_eq!(
            done.events == [Event::Ensured],
            expected.is_ok(),
            "{:?}",
            done.events
        );
        assert_eq!(
            after.unfinished_sync.is_some_and(|sync| sync.failed),
            expected.is_err()
        );
    }
}
