use serde_json::json;
use skydock_controller_base::testing::{every_error, node_set};

use super::*;
use crate::{
    attempt::testing::{Answers, Call, NEW, OLD, PHASES, choice, entry, given, state, status},
    plan::goal::Goal,
};

const SERVED: LoadBalancerPhase = LoadBalancerPhase::Present;

/// Returns the end of an attempt after which nothing is to be done.
fn nothing() -> Call {
    Call::Done(vec![Requeue::Reset])
}

/// Returns the answers with these nodes.
fn selected(names: &[&str]) -> Answers {
    Answers {
        nodes: choice(names),
        ..Answers::default()
    }
}

/// Returns the answers with a node, and this error of the call that updates the nodes.
fn updated(error: &CloudError) -> Answers {
    Answers {
        updated: Err(error.clone()),
        ..selected(&["n"])
    }
}

#[test]
fn only_a_valid_wanted_load_balancer_gets_nodes() {
    for (change, call) in [
        (json!({}), Call::SelectNodes),
        (
            json!({"spec": {"loadBalancerSourceRanges": ["odd"]}}),
            nothing(),
        ),
        (json!({"spec": {"type": "ClusterIP"}}), nothing()),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            nothing(),
        ),
    ] {
        let entry = entry(&change);
        let ran = given(Goal::UpdateNodes, &entry).run(state(SERVED, OLD), Answers::default());
        let first = ran.first();
        assert_eq!(
            (&first.call, &first.state),
            (&call, &state(SERVED, OLD)),
            "{change}"
        );
    }
}

// Holds: S-47, S-48
#[test]
fn other_nodes_are_sent_to_what_exists() {
    let (entry, now) = (entry(&json!({})), Instant::now());
    let second = Duration::from_secs(1);
    for phase in PHASES {
        for (before, known) in [
            (OLD, false),
            (NEW, true),
            (SentNodes::Unknown, false),
            (SentNodes::Failed, false),
        ] {
            let (call, sent) = match phase {
                _ if known => (nothing(), before),
                LoadBalancerPhase::Present
                | LoadBalancerPhase::Ensuring { exists: true }
                | LoadBalancerPhase::Rejected { .. } => (Call::UpdateNodes(node_set(&["n"])), NEW),
                LoadBalancerPhase::Ensuring { exists: false } => {
                    (Call::Done(vec![Requeue::Ensure(second)]), before)
                }
                LoadBalancerPhase::Absent
                | LoadBalancerPhase::Deleting
                | LoadBalancerPhase::LeftToOthers => (nothing(), before),
            };
            let (_, earlier) = state(phase, before).updating(choice(&["n"]).fingerprint, now);
            assert_eq!(earlier, before);

            let ran = given(Goal::UpdateNodes, &entry).run(state(phase, before), selected(&["n"]));
            let next = ran.after("SelectNodes");
            assert_eq!(
                (&next.call, &next.state),
                (&call, &state(phase, sent)),
                "{phase:?} {before:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_before_its_time_is_postponed() {
    let (entry, now) = (entry(&json!({})), Instant::now());
    let delay = Duration::from_secs(7);
    let (later, due) = (SentNodes::Postponed(now + delay), SentNodes::Postponed(now));
    let again = || Call::Done(vec![Requeue::Retry(RetryWhen::After(delay))]);
    for (phase, sent, call, after) in [
        (
            LoadBalancerPhase::Present,
            later,
            Call::Done(vec![Requeue::Ensure(delay)]),
            later,
        ),
        (
            LoadBalancerPhase::Ensuring { exists: true },
            later,
            again(),
            later,
        ),
        (
            LoadBalancerPhase::Rejected {
                exists: true,
                requested: false,
            },
            later,
            again(),
            later,
        ),
        (
            LoadBalancerPhase::Present,
            due,
            Call::UpdateNodes(node_set(&["n"])),
            NEW,
        ),
        (LoadBalancerPhase::Deleting, due, nothing(), due),
    ] {
        let (_, earlier) = state(phase, sent).updating(choice(&["n"]).fingerprint, now);
        assert_eq!(earlier, sent);

        let ran = given(Goal::UpdateNodes, &entry).run(state(phase, sent), selected(&["n"]));
        let next = ran.after("SelectNodes");
        assert_eq!(
            (&next.call, &next.state),
            (&call, &state(phase, after)),
            "{phase:?} {sent:?}"
        );
    }
}

// Holds: S-49
#[test]
fn an_update_is_reported_if_the_nodes_before_are_known() {
    let entry = entry(&json!({}));
    for (before, names, events) in [
        (OLD, &["n"][..], vec![Event::Updated]),
        (SentNodes::Failed, &["n"], vec![Event::Updated]),
        (OLD, &[], vec![Event::NoNodes]),
        (SentNodes::Unknown, &["n"], vec![]),
        (SentNodes::Unknown, &[], vec![]),
    ] {
        let ran = given(Goal::UpdateNodes, &entry).run(state(SERVED, before), selected(names));
        let done = ran.after("UpdateNodes");
        assert_eq!(
            (&done.events, &done.call),
            (&events, &Call::Done(vec![Requeue::Reset])),
            "{before:?} {names:?}"
        );
        assert_eq!(done.state, state(SERVED, NEW));
    }
}

#[test]
fn a_vanished_load_balancer_is_recreated_unless_rejected() {
    let entry = entry(&json!({}));
    let recreate = || Call::Done(vec![Requeue::Ensure(Duration::ZERO)]);
    for (phase, phase_after, call) in [
        (
            LoadBalancerPhase::Present,
            LoadBalancerPhase::Absent,
            recreate(),
        ),
        (
            LoadBalancerPhase::Ensuring { exists: true },
            LoadBalancerPhase::Ensuring { exists: false },
            recreate(),
        ),
        (
            LoadBalancerPhase::Rejected {
                exists: true,
                requested: false,
            },
            LoadBalancerPhase::Rejected {
                exists: true,
                requested: false,
            },
            nothing(),
        ),
    ] {
        let missing = updated(&CloudError::NotFound("none".into()));
        let ran = given(Goal::UpdateNodes, &entry).run(state(phase, OLD), missing);
        let done = ran.after("UpdateNodes");
        assert_eq!(
            (&done.call, &done.state),
            (&call, &state(phase_after, NEW)),
            "{phase:?}"
        );
        assert!(
            done.events.is_empty() && done.failure.is_none(),
            "{phase:?}"
        );
    }
}

// Holds: S-50, S-51
#[tokio::test(start_paused = true)]
async fn a_failed_update_is_followed_by_an_ensure_or_a_retry() {
    let entry = entry(&json!({}));
    let given = given(Goal::UpdateNodes, &entry);
    let (now, delay) = (Instant::now(), Duration::from_secs(7));
    let (back_off, after) = (
        (Some(Duration::ZERO), RetryWhen::BackOff),
        (Some(delay), RetryWhen::After(delay)),
    );
    let expected = [
        None,
        None,
        Some((Some(Duration::ZERO), RetryWhen::Soon)),
        Some(after),
        Some(after),
        Some(back_off),
        Some((None, RetryWhen::OnChange)),
        Some(back_off),
        Some(back_off),
    ];
    for (error, expected) in every_error().into_iter().zip(expected) {
        for phase in PHASES
            .into_iter()
            .filter(|phase| phase.exists() || phase.is_rejected())
        {
            let Some((ensure, again)) = expected else {
                continue;
            };
            let asked = matches!(again, RetryWhen::After(_));
            let ran = given.run(state(phase, OLD), updated(&error));
            let failed = ran.after("UpdateNodes");
            assert_eq!(failed.failure.as_deref(), Some("Nodes"), "{error}");
            let done = if failed.call == Call::GetLoadBalancer {
                assert!(
                    retry::warns(&error) && !asked && failed.events.is_empty(),
                    "{error}"
                );
                assert_eq!(failed.state, state(phase, NEW), "{error}");
                ran.after("GetLoadBalancer")
            } else {
                failed
            };
            let requeue = match ensure {
                None => vec![Requeue::Reset],
                Some(_) if phase.requested() || phase.is_rejected() => vec![Requeue::Retry(again)],
                Some(delay) => vec![Requeue::Ensure(delay)],
            };
            assert_eq!(done.call, Call::Done(requeue), "{error} {phase:?}");
            let sent = match again {
                RetryWhen::After(delay) => SentNodes::Postponed(now + delay),
                RetryWhen::OnChange => NEW,
                RetryWhen::Soon | RetryWhen::BackOff => SentNodes::Failed,
            };
            // Whether there is a load balancer is not asked of a cloud that wants to be left in
            // peace.
            let reported = asked && retry::warns(&error) && phase.exists();
            let events = if reported {
                vec![Event::UpdateFailed(node_set(&["n"]), error.clone())]
            } else {
                vec![]
            };
            assert_eq!(
                (&done.state, &done.events),
                (&state(phase, sent), &events),
                "{error} {phase:?}"
            );
        }
    }

    let elsewhere = updated(&CloudError::ImplementedElsewhere);
    let ran = given.run(state(SERVED, OLD), elsewhere);
    let done = ran.after("UpdateNodes");
    assert_eq!((&done.state, &done.call), (&state(SERVED, NEW), &nothing()));
}

// Holds: S-50
#[test]
fn a_failed_update_of_no_load_balancer_is_no_event() {
    let entry = entry(&json!({}));
    let error = CloudError::Unavailable("down".into());
    for (found, exists, logged) in [
        (Ok(Some(status("192.0.2.1"))), true, false),
        (Ok(None), false, false),
        (Err(CloudError::NotFound("none".into())), false, false),
        (Err(CloudError::Internal("who knows".into())), true, true),
    ] {
        let answers = Answers {
            found: found.clone(),
            ..updated(&error)
        };
        let ran = given(Goal::UpdateNodes, &entry).run(state(SERVED, OLD), answers);
        let done = ran.after("GetLoadBalancer");
        let failed = vec![Event::UpdateFailed(node_set(&["n"]), error.clone())];
        assert_eq!(
            done.events,
            if exists { failed } else { vec![] },
            "{found:?}"
        );
        assert_eq!(
            done.failure.as_deref() == Some("GetLoadBalancer"),
            logged,
            "{found:?}"
        );
    }
}
