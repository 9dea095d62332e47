use serde_json::json;

use super::{
    super::{
        state::Phase,
        step::Goal,
        testing::{NEW, OLD, PHASES, attempt, choice, entry, nodes, state, status},
    },
    *,
};
use crate::testing::every_error;

const SERVED: Phase = Phase::Present;

/// Returns the end of an attempt after which nothing is to be done.
fn nothing() -> Step {
    Step::Done(vec![Requeue::Reset])
}

#[test]
fn only_a_valid_wanted_load_balancer_gets_nodes() {
    for (change, step) in [
        (json!({}), Step::SelectNodes),
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
        let (after, turn) = attempt(Goal::UpdateNodes, &entry).start(state(SERVED, OLD));
        assert_eq!((turn.step, after), (step, state(SERVED, OLD)), "{change}");
    }
}

// Holds: S-47, S-48
#[test]
fn other_nodes_are_sent_to_what_exists() {
    let (entry, now) = (entry(&json!({})), Instant::now());
    let second = Duration::from_secs(1);
    let send = |before| {
        (
            Step::UpdateNodes {
                nodes: nodes(&["n"]),
                before,
            },
            NEW,
        )
    };
    for phase in PHASES {
        for (before, known) in [
            (OLD, false),
            (NEW, true),
            (Sent::Unknown, false),
            (Sent::Failed, false),
        ] {
            let (step, sent) = match phase {
                _ if known => (nothing(), before),
                Phase::Present | Phase::Ensuring { exists: true } | Phase::Rejected { .. } => {
                    send(before)
                }
                Phase::Ensuring { exists: false } => {
                    (Step::Done(vec![Requeue::Ensure(second)]), before)
                }
                Phase::Absent | Phase::Deleting | Phase::Elsewhere => (nothing(), before),
            };
            let attempt = attempt(Goal::UpdateNodes, &entry);
            let (after, turn) =
                attempt.after_select_nodes(state(phase, before), choice(&["n"]), now);
            assert_eq!(
                (turn.step, after),
                (step, state(phase, sent)),
                "{phase:?} {before:?}"
            );
        }
    }
}

#[test]
fn an_attempt_before_its_time_is_postponed() {
    let (entry, now) = (entry(&json!({})), Instant::now());
    let delay = Duration::from_secs(7);
    let (later, due) = (Sent::Postponed(now + delay), Sent::Postponed(now));
    let again = || Step::Done(vec![Requeue::Retry(Again::After(delay))]);
    for (phase, sent, step, after) in [
        (
            Phase::Present,
            later,
            Step::Done(vec![Requeue::Ensure(delay)]),
            later,
        ),
        (Phase::Ensuring { exists: true }, later, again(), later),
        (
            Phase::Rejected {
                exists: true,
                requested: false,
            },
            later,
            again(),
            later,
        ),
        (
            Phase::Present,
            due,
            Step::UpdateNodes {
                nodes: nodes(&["n"]),
                before: due,
            },
            NEW,
        ),
        (Phase::Deleting, due, nothing(), due),
    ] {
        let attempt = attempt(Goal::UpdateNodes, &entry);
        let (remembered, turn) =
            attempt.after_select_nodes(state(phase, sent), choice(&["n"]), now);
        assert_eq!(
            (turn.step, remembered),
            (step, state(phase, after)),
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
        (Sent::Failed, &["n"], vec![Event::Updated]),
        (OLD, &[], vec![Event::NoNodes]),
        (Sent::Unknown, &["n"], vec![]),
        (Sent::Unknown, &[], vec![]),
    ] {
        let attempt = attempt(Goal::UpdateNodes, &entry);
        let (after, turn) = attempt.after_update_nodes(
            state(SERVED, NEW),
            nodes(names),
            before,
            (Ok(()), Instant::now()),
        );
        assert_eq!(
            (turn.events, turn.step),
            (events, Step::Done(vec![Requeue::Reset])),
            "{before:?} {names:?}"
        );
        assert_eq!(after, state(SERVED, NEW));
    }
}

#[test]
fn a_vanished_load_balancer_is_recreated_unless_rejected() {
    let entry = entry(&json!({}));
    let recreate = || Step::Done(vec![Requeue::Ensure(Duration::ZERO)]);
    for (phase, phase_after, step) in [
        (Phase::Present, Phase::Absent, recreate()),
        (
            Phase::Ensuring { exists: true },
            Phase::Ensuring { exists: false },
            recreate(),
        ),
        (
            Phase::Rejected {
                exists: true,
                requested: false,
            },
            Phase::Rejected {
                exists: true,
                requested: false,
            },
            nothing(),
        ),
    ] {
        let attempt = attempt(Goal::UpdateNodes, &entry);
        let missing = Err(CloudError::NotFound("none".into()));
        let (after, turn) = attempt.after_update_nodes(
            state(phase, NEW),
            nodes(&["n"]),
            OLD,
            (missing, Instant::now()),
        );
        assert_eq!(
            (turn.step, after),
            (step, state(phase_after, NEW)),
            "{phase:?}"
        );
        assert!(
            turn.events.is_empty() && turn.failure.is_none(),
            "{phase:?}"
        );
    }
}

// Holds: S-50, S-51
#[test]
fn a_failed_update_is_followed_by_an_ensure_or_a_retry() {
    let entry = entry(&json!({}));
    let attempt = attempt(Goal::UpdateNodes, &entry);
    let (now, delay) = (Instant::now(), Duration::from_secs(7));
    let (back_off, after) = (
        (Some(Duration::ZERO), Again::BackOff),
        (Some(delay), Again::After(delay)),
    );
    let expected = [
        None,
        None,
        Some((Some(Duration::ZERO), Again::Soon)),
        Some(after),
        Some(after),
        Some(back_off),
        Some((None, Again::OnChange)),
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
            let asked = matches!(again, Again::After(_));
            let updated = (Err(error.clone()), now);
            let failed = attempt.after_update_nodes(state(phase, NEW), nodes(&["n"]), OLD, updated);
            assert!(
                matches!(failed.1.failure, Some(Failure::Nodes(_))),
                "{error}"
            );
            let (after, turn) = match failed.1.step {
                Step::Look(why) => {
                    assert!(
                        retry::warns(&error) && !asked && failed.1.events.is_empty(),
                        "{error}"
                    );
                    assert_eq!(failed.0, state(phase, NEW), "{error}");
                    attempt.after_look(failed.0, why, Ok(None))
                }
                _ => failed,
            };
            let requeue = match ensure {
                None => vec![Requeue::Reset],
                Some(_) if phase.requested() || phase.is_rejected() => vec![Requeue::Retry(again)],
                Some(delay) => vec![Requeue::Ensure(delay)],
            };
            assert_eq!(turn.step, Step::Done(requeue), "{error} {phase:?}");
            let sent = match again {
                Again::After(delay) => Sent::Postponed(now + delay),
                Again::OnChange => NEW,
                Again::Soon | Again::BackOff => Sent::Failed,
            };
            // Whether there is a load balancer is not asked of a cloud that wants to be left in
            // peace.
            let told = asked && retry::warns(&error) && phase.exists();
            let events = if told {
                vec![Event::UpdateFailed(nodes(&["n"]), error.clone())]
            } else {
                vec![]
            };
            assert_eq!(
                (after, turn.events),
                (state(phase, sent), events),
                "{error} {phase:?}"
            );
        }
    }

    let elsewhere = (Err(CloudError::ImplementedElsewhere), now);
    let (after, turn) =
        attempt.after_update_nodes(state(SERVED, NEW), nodes(&["n"]), OLD, elsewhere);
    assert_eq!((after, turn.step), (state(SERVED, NEW), nothing()));
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
        let why = Why::NotUpdated {
            nodes: nodes(&["n"]),
            error: error.clone(),
        };
        let (_, turn) =
            attempt(Goal::UpdateNodes, &entry).after_look(state(SERVED, NEW), why, found.clone());
        let failed = vec![Event::UpdateFailed(nodes(&["n"]), error.clone())];
        assert_eq!(
            turn.events,
            if exists { failed } else { vec![] },
            "{found:?}"
        );
        assert_eq!(
            matches!(turn.failure, Some(Failure::Look(_))),
            logged,
            "{found:?}"
        );
    }
}
