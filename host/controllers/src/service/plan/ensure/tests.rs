use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{
    super::{
        state::Work,
        step::Goal,
        testing::{NEW, OLD, PHASES, attempt, broken, changed, choice, entry, gone, state, status},
    },
    *,
};
use crate::{calls::retry::Again, objects::constants::FINALIZER, testing::every_error};

const SUCCESS: [Requeue; 2] = [Requeue::Reset, Requeue::Check];

fn sync_failed(what: &str) -> Vec<Event> {
    vec![Event::SyncFailed(what.to_owned())]
}

// Holds: S-19, S-20
#[test]
fn an_attempt_begins_with_event_and_finalizer() {
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let class =
        json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"loadBalancerClass": "x.io/y"}});
    let note = Some("x.io/y@uid-web".to_owned());
    for (change, priority, announced, told, step) in [
        (
            json!({}),
            Priority::Change,
            None,
            true,
            Step::AddFinalizer { note: None },
        ),
        (
            class,
            Priority::Change,
            None,
            true,
            Step::AddFinalizer { note },
        ),
        (
            finalizer.clone(),
            Priority::Change,
            None,
            true,
            Step::SelectNodes,
        ),
        (
            finalizer.clone(),
            Priority::Change,
            Some(Announced::Deleting),
            true,
            Step::SelectNodes,
        ),
        (
            finalizer.clone(),
            Priority::Change,
            Some(Announced::Ensuring),
            false,
            Step::SelectNodes,
        ),
        (finalizer, Priority::Recheck, None, false, Step::SelectNodes),
    ] {
        let entry = entry(&change);
        let before = State {
            work: Some(Work {
                announced,
                ..Work::default()
            }),
            ..State::new(false)
        };
        let (state, turn) = Attempt {
            priority,
            ..attempt(Goal::Ensure, &entry)
        }
        .start(before);
        assert_eq!(
            (turn.events, turn.step),
            (if told { vec![Event::Ensuring] } else { vec![] }, step),
            "{change}"
        );
        let announced = if told {
            Some(Announced::Ensuring)
        } else {
            announced
        };
        assert_eq!(
            state,
            State {
                work: Some(Work {
                    announced,
                    ..Work::default()
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
        let (after, turn) = attempt(Goal::Ensure, &entry).start(state(phase, OLD));
        assert_eq!(
            (after.phase, after.sent),
            (phase.rejected(), OLD),
            "{phase:?}"
        );
        assert_eq!(turn.step, Step::Done(SUCCESS.into()));
        assert!(
            matches!(turn.failure, Some(Failure::Invalid(_)))
                && after.work.is_some_and(|work| work.failed)
        );
        assert!(
            matches!(&turn.events[..], [Event::SyncFailed(_)]),
            "{:?}",
            turn.events
        );
    }
}

// Holds: S-20
#[test]
fn only_a_written_finalizer_leads_to_the_cloud() {
    let entry = entry(&json!({}));
    for (added, expected, warns) in [
        (Ok(()), Step::SelectNodes, false),
        (Err(gone()), Step::Done(vec![Requeue::Reset]), false),
        (
            Err(changed()),
            Step::Done(vec![Requeue::Retry(Again::Soon)]),
            true,
        ),
        (
            Err(broken()),
            Step::Done(vec![Requeue::Retry(Again::BackOff)]),
            true,
        ),
    ] {
        let (after, turn) =
            attempt(Goal::Ensure, &entry).after_add_finalizer(State::new(false), added);
        assert_eq!(
            (turn.step, turn.events.len(), after.work.is_some()),
            (expected, usize::from(warns), warns)
        );
    }
}

// Holds: S-21, S-22, S-29
#[test]
fn nodes_are_remembered_before_the_call_even_if_there_are_none() {
    let entry = entry(&json!({}));
    for (names, priority, said, told) in [
        (&["n1"][..], Priority::Change, false, false),
        (&[], Priority::Change, false, true),
        (&[], Priority::Change, true, false),
        (&[], Priority::Recheck, false, false),
    ] {
        for phase in PHASES {
            let before = State {
                work: Some(Work {
                    no_nodes: said,
                    ..Work::default()
                }),
                ..state(phase, OLD)
            };
            let attempt = Attempt {
                priority,
                ..attempt(Goal::Ensure, &entry)
            };
            let (after, turn) = attempt.after_select_nodes(before, choice(names), Instant::now());
            assert_eq!(
                turn.step,
                Step::Ensure {
                    nodes: choice(names).nodes,
                    before: OLD
                }
            );
            assert_eq!(
                (after.phase, after.sent),
                (phase.ensuring(), NEW),
                "{phase:?}"
            );
            assert_eq!(
                turn.events,
                if told { vec![Event::NoNodes] } else { vec![] },
                "{names:?} {priority:?}"
            );
            assert_eq!(after.work.unwrap().no_nodes, said || told);
        }
    }
}

// Holds: S-24, S-26, S-39
#[test]
fn each_error_of_ensure_decides_on_phase_event_and_retry() {
    let entry = entry(&json!({}));
    let delay = Again::After(Duration::from_secs(7));
    let expected = [
        Some((Again::BackOff, true)),
        None,
        Some((Again::Soon, false)),
        Some((delay, true)),
        Some((delay, false)),
        Some((Again::BackOff, true)),
        Some((Again::OnChange, true)),
        Some((Again::BackOff, true)),
        Some((Again::BackOff, true)),
    ];
    for (error, expected) in every_error().into_iter().zip(expected) {
        let before = state(Phase::Ensuring { exists: false }, NEW);
        let (after, turn) =
            attempt(Goal::Ensure, &entry).after_ensure(before, OLD, Err(error.clone()));
        let Some((again, warns)) = expected else {
            assert_eq!(
                (after, turn.events),
                (
                    state(Phase::Elsewhere, NEW),
                    vec![Event::HandedOver { may_stay: false }]
                ),
                "{error}"
            );
            assert_eq!(
                turn.step,
                Step::RemoveFinalizer { note: false },
                "nothing of its load balancer is left"
            );
            continue;
        };
        let rejected = again == Again::OnChange;
        let requeue = if rejected {
            SUCCESS.into()
        } else {
            vec![Requeue::Retry(again)]
        };
        assert_eq!(turn.step, Step::Done(requeue), "{error}");
        let failed = sync_failed(&format!("failed to ensure load balancer: {error}"));
        assert_eq!(turn.events, if warns { failed } else { vec![] }, "{error}");
        assert!(matches!(turn.failure, Some(Failure::Cloud(..))), "{error}");
        let phase = Phase::Ensuring { exists: false };
        assert_eq!(
            after.phase,
            if rejected { phase.rejected() } else { phase },
            "{error}"
        );
        assert_eq!((after.sent, after.work.is_some()), (NEW, warns), "{error}");
    }
}

// Holds: S-16, S-22
#[test]
fn an_existing_load_balancer_gets_the_nodes_of_a_failed_call() {
    let entry = entry(&json!({}));
    let later = Sent::Postponed(Instant::now() + Duration::from_secs(7));
    for (exists, before, missed) in [
        (true, OLD, Some(Sent::Failed)),
        (true, later, Some(later)),
        (true, Sent::Failed, Some(Sent::Failed)),
        (true, Sent::Unknown, Some(Sent::Unknown)),
        (true, NEW, None),
        (false, OLD, None),
    ] {
        for error in [
            CloudError::Denied("no".into()),
            CloudError::Invalid("no".into()),
        ] {
            let failing = state(Phase::Ensuring { exists }, NEW);
            let (after, turn) =
                attempt(Goal::Ensure, &entry).after_ensure(failing, before, Err(error));
            assert_eq!(after.sent, missed.unwrap_or(NEW), "{exists} {before:?}");
            let Step::Done(requeue) = turn.step else {
                panic!("{:?}", turn.step)
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
            written: written.clone(),
            ..state(Phase::Ensuring { exists: false }, NEW)
        };
        let (after, turn) =
            attempt(Goal::Ensure, &entry).after_ensure(before, OLD, Ok(status("192.0.2.1")));
        let step = if write {
            Step::WriteStatus(status("192.0.2.1"))
        } else {
            Step::Done(SUCCESS.into())
        };
        assert_eq!(
            (turn.step, after.phase),
            (step, Phase::Present),
            "{cached} {written:?}"
        );
        assert_eq!(
            after.written,
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
    let cached = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let entry = entry(&cached);
    let attempt = attempt(Goal::Ensure, &entry);
    let none = Work::default();
    for (work, told) in [
        (none, false),
        (
            Work {
                no_nodes: true,
                ..none
            },
            false,
        ),
        (
            Work {
                announced: Some(Announced::Ensuring),
                ..none
            },
            true,
        ),
        (
            Work {
                announced: Some(Announced::Deleting),
                ..none
            },
            true,
        ),
        (
            Work {
                failed: true,
                ..none
            },
            true,
        ),
    ] {
        let before = State {
            work: Some(work),
            ..state(Phase::Ensuring { exists: true }, NEW)
        };
        let (after, turn) = attempt.after_ensure(before.clone(), OLD, Ok(status("192.0.2.1")));
        assert_eq!(
            turn.events,
            if told { vec![Event::Ensured] } else { vec![] },
            "{work:?}"
        );
        assert_eq!(after, state(Phase::Present, NEW), "the work has ended");
        let (after, turn) = attempt.after_write_status(before, Ok(()));
        assert_eq!(
            (turn.events, after.work),
            (vec![Event::Ensured], None),
            "{work:?}"
        );
    }
}

// Holds: S-28
#[test]
fn a_status_that_cannot_be_written_is_retried() {
    let entry = entry(&json!({}));
    for (written, expected) in [
        (Err(gone()), Ok(())),
        (Err(changed()), Err(Again::Soon)),
        (Err(broken()), Err(Again::BackOff)),
    ] {
        let (after, turn) =
            attempt(Goal::Ensure, &entry).after_write_status(state(Phase::Present, NEW), written);
        let requeue =
            expected.map_or_else(|again| vec![Requeue::Retry(again)], |()| SUCCESS.into());
        assert_eq!(
            (turn.step, after.phase),
            (Step::Done(requeue), Phase::Present)
        );
        assert_eq!(
            turn.events == [Event::Ensured],
            expected.is_ok(),
            "{:?}",
            turn.events
        );
        assert_eq!(
            after.work.is_some_and(|work| work.failed),
            expected.is_err()
        );
    }
}
