//! Decides whether observations are what the contract demands. No I/O.

mod comparison;
mod memory;
#[cfg(test)]
pub(crate) mod samples;

use std::time::Duration;

use skydock_cloud::{CallKind, Capability, CloudError};

pub(crate) use self::{
    comparison::{difference, equal, lookup, order},
    memory::flat,
};

use crate::{Verdict, harness::observation::Observation};

/// Reasons for ending an instance that are about time.
const TIME: [&str; 2] = ["cpu", "deadline"];

/// Returns true for a reason for ending an instance that is about time.
pub(crate) fn is_late(kind: &str) -> bool {
    TIME.contains(&kind)
}

/// Reason for ending an instance whose answer violates the contract.
const BAD_ANSWER: &str = "bad_answer";

pub(crate) fn failed(expected: &str, seen: impl Into<String>, hint: &str) -> Verdict {
    Verdict::Failed {
        expected: expected.to_owned(),
        seen: seen.into(),
        hint: hint.to_owned(),
    }
}

pub(crate) fn skipped(reason: impl Into<String>) -> Verdict {
    Verdict::Skipped {
        reason: reason.into(),
    }
}

/// Returns the verdict about the first observation for which `problem` has a description.
fn first(
    seen: &[&Observation],
    problem: impl Fn(&Observation) -> Option<String>,
    expected: &str,
    hint: &str,
) -> Verdict {
    if seen.is_empty() {
        return skipped("it exports no function to which this applies");
    }

    let found = seen
        .iter()
        .find_map(|it| problem(it).map(|problem| format!("{}: {problem}", it.call())));
    found.map_or(Verdict::Ok, |found| failed(expected, found, hint))
}

/// Like [`first`], about the calls whose requests were all denied, and which the plugin has
/// answered.
fn first_denied(
    seen: &[&Observation],
    problem: impl Fn(&Observation) -> Option<String>,
    expected: &str,
    hint: &str,
) -> Verdict {
    let asked: Vec<_> = seen
        .iter()
        // What Skydock has answered says nothing about the plugin's errors.
        .filter(|it| it.denied > 0 && !it.is_hosts())
        .copied()
        .collect();
    if asked.is_empty() {
        skipped("it sent no request to a cloud")
    } else {
        first(&asked, problem, expected, hint)
    }
}

pub(crate) fn answers(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        let bad = it.rejected > 0 || it.ended.iter().any(|kind| kind == BAD_ANSWER);
        let wrong_length = matches!(&it.answer, Ok(elements) if elements.len() != it.questions);
        (bad || wrong_length).then(|| match it.errors().first() {
            Some(error) => error.to_string(),
            None => "an element of the answer is not valid".to_owned(),
        })
    };

    first(
        seen,
        problem,
        "one valid answer for each question",
        "fix the answer; Skydock rejects it",
    )
}

pub(crate) fn no_trap(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        let kinds: Vec<_> = it
            .ended
            .iter()
            .filter(|kind| !is_late(kind) && *kind != BAD_ANSWER)
            .cloned()
            .collect();
        let kinds = if it.is_uncalled() { Vec::new() } else { kinds };
        (!kinds.is_empty()).then(|| format!("ended the instance: {}", kinds.join(", ")))
    };
    first(
        seen,
        problem,
        "an answer or an error",
        "return an error instead of panicking, and keep no handle of nodes",
    )
}

pub(crate) fn deadlines(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        let late = it.ended.iter().find(|kind| is_late(kind));
        late.map(|kind| format!("exceeded its limit ({kind}) after {:?}", it.took))
    };

    first(
        seen,
        problem,
        "an answer in time",
        "return `in-progress` before `calls.remaining-ms` reaches 0",
    )
}

/// Time that a function of load balancers or volumes may spend without computing. All requests are denied at
/// once, so it has nothing to wait for; but the machine may be busy.
const WAITING: Duration = Duration::from_millis(1500);

/// Judges calls that were all made twice: one of them may have waited for the machine.
pub(crate) fn no_wait(seen: &[&Observation]) -> Verdict {
    let is_meant = |it: &Observation| {
        let capability = it.function.capability();
        capability == Capability::LoadBalancers || CallKind::from(capability) == CallKind::Volumes
    };
    let meant: Vec<_> = seen.iter().copied().filter(|it| is_meant(it)).collect();
    let problem = |it: &Observation| {
        let same = meant
            .iter()
            .filter(|other| (other.function, other.with) == (it.function, it.with));
        let waited = same
            .map(|it| it.took.saturating_sub(it.cpu))
            .min()
            .unwrap_or_default();
        (waited > WAITING).then(|| format!("waited for {waited:.1?}"))
    };

    first(
        &meant,
        problem,
        "an answer at once",
        "return `in-progress` with a delay instead of waiting for the cloud",
    )
}

pub(crate) fn empty(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| match &it.answer {
        _ if it.is_uncalled() => None,
        Ok(elements) if elements.is_empty() => None,
        Ok(elements) => Some(format!("{} elements", elements.len())),
        // The cloud may be asked for something that does not depend on the list.
        Err(_) if it.denied > 0 => None,
        Err(error) => Some(error.to_string()),
    };

    first(
        seen,
        problem,
        "an empty list",
        "return an empty list for an empty list",
    )
}

pub(crate) fn unusual(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        // An error is a good answer, too, if the plugin itself returns it.
        (it.is_hosts() && !it.is_uncalled()).then(|| {
            format!(
                "no valid answer: {}",
                it.errors()
                    .first()
                    .map_or_else(String::new, ToString::to_string)
            )
        })
    };

    first(
        seen,
        problem,
        "an answer or an error",
        "treat names and texts as opaque, and look up before you index or slice",
    )
}

/// Judges calls whose requests were all denied. A call without a request cannot know more, if
/// others of its interface send some.
pub(crate) fn rejecting_cloud(seen: &[&Observation]) -> Verdict {
    let interface = |it: &Observation| it.function.capability();
    let asking: Vec<_> = seen
        .iter()
        .filter(|it| it.denied > 0)
        .map(|it| interface(it))
        .collect();

    let problem = |it: &Observation| {
        // Maintenance may find nothing to do without the cloud.
        let changes =
            !it.function.only_reads() && it.function.capability() != Capability::Maintenance;
        let without = if it.denied == 0 {
            " without a request"
        } else {
            ""
        };

        it.elements().iter().find_map(|element| match element {
            Ok(value) if value.denies => Some(format!("answered {}{without}", value.shown)),
            Ok(_) if changes => Some(format!("reported success{without}")),
            Err(error @ CloudError::NotFound(_)) if it.denied > 0 => {
                Some(format!("answered {error}"))
            }
            _ => None,
        })
    };

    let asked: Vec<_> = seen
        .iter()
        .filter(|it| asking.contains(&interface(it)) && !it.is_hosts())
        .copied()
        .collect();
    if asked.is_empty() {
        return skipped("it sent no request to a cloud");
    }

    first(
        &asked,
        problem,
        "`unavailable` or `denied`, because no request was answered",
        "never derive that something is absent, or done, from a request that failed",
    )
}

pub(crate) fn error_case(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        let wrong = |error: &CloudError| {
            matches!(
                error,
                CloudError::Invalid(_)
                    | CloudError::ImplementedElsewhere
                    | CloudError::Conflict(_)
                    | CloudError::InProgress(_)
            )
        };
        // A single node may be invalid for a reason of its own.
        let errors = it.errors();
        errors
            .first()
            .filter(|_| errors.iter().all(wrong))
            .map(|error| format!("answered {error}"))
    };

    first_denied(
        seen,
        problem,
        "`unavailable`, `denied` or `internal`",
        "map failed requests to the case that fits them",
    )
}

pub(crate) fn error_text(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        it.errors().into_iter().find_map(|error| {
            let text = match &error {
                CloudError::ImplementedElsewhere => return None,
                CloudError::NotFound(text)
                | CloudError::Conflict(text)
                | CloudError::Denied(text)
                | CloudError::Invalid(text)
                | CloudError::Unavailable(text)
                | CloudError::Internal(text) => text,
                CloudError::Throttled(retry) | CloudError::InProgress(retry) => &retry.message,
            };

            let is_bad = text.trim().is_empty() || text.contains(['\n', '\r']);
            is_bad.then(|| format!("{} with the text {text:?}", error.kind()))
        })
    };

    first(
        seen,
        problem,
        "one sentence",
        "say what failed and why, in one line",
    )
}

/// Judges a sequence that needs a success to mean something. `steps` are the calls that must
/// succeed.
pub(crate) fn sequence(steps: &[&Observation]) -> Option<Verdict> {
    if steps.is_empty() {
        return Some(skipped("it does not export the interface"));
    }
    // Without an answer of the cloud, no step can succeed.
    if steps.iter().any(|it| it.denied > 0) {
        return Some(skipped("its cloud is needed"));
    }

    let first = steps.first()?;
    let error = first.errors().into_iter().next()?;
    Some(skipped(format!("{} failed: {error}", first.call())))
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Function;

    use super::{
        samples::{fails, seen, value},
        *,
    };

    #[test]
    fn nothing_is_absent_or_done_without_an_answer_of_the_cloud() {
        let not_found = || CloudError::NotFound("n1".into());
        for (function, answer, bad) in [
            ("instances.check", Ok(vec![value("Absent", true)]), true),
            ("instances.check", Ok(vec![value("Running", false)]), false),
            ("instances.check", Ok(vec![Err(not_found())]), true),
            ("instances.describe", Err(not_found()), true),
            (
                "load-balancers.ensure-deleted",
                Ok(vec![value("()", false)]),
                true,
            ),
            (
                "load-balancers.get",
                Err(CloudError::Unavailable("down".into())),
                false,
            ),
        ] {
            let it = Observation {
                denied: 1,
                ..seen(function, answer)
            };
            assert_eq!(fails(&rejecting_cloud(&[&it])), bad, "{it:?}");

            let unasked = Observation { denied: 0, ..it };
            assert!(matches!(
                rejecting_cloud(&[&unasked]),
                Verdict::Skipped { .. }
            ));
        }
    }

    #[test]
    fn a_failed_request_is_not_the_fault_of_the_object() {
        for (error, bad) in [
            (CloudError::Invalid("x".into()), true),
            (CloudError::ImplementedElsewhere, true),
            (CloudError::Unavailable("x".into()), false),
            (CloudError::Denied("x".into()), false),
        ] {
            let it = Observation {
                denied: 1,
                ..seen("instances.check", Err(error))
            };
            assert_eq!(fails(&error_case(&[&it])), bad, "{it:?}");
        }
    }

    #[test]
    fn a_text_is_one_line() {
        for (text, bad) in [("no such server", false), ("", true), ("a\nb", true)] {
            let it = seen(
                "instances.check",
                Ok(vec![Err(CloudError::Internal(text.into()))]),
            );
            assert_eq!(fails(&error_text(&[&it])), bad, "{text:?}");
        }
    }

    #[test]
    fn calls_that_end_their_instance_fail_a_check() {
        for (kind, late, trap, bad) in [
            ("cpu", true, false, false),
            ("trap", false, true, false),
            ("bad_answer", false, false, true),
        ] {
            let it = Observation {
                ended: vec![kind.into()],
                ..seen("instances.check", Ok(vec![value("", false)]))
            };
            let verdicts =
                [deadlines(&[&it]), no_trap(&[&it]), answers(&[&it])].map(|it| fails(&it));
            assert_eq!(verdicts, [late, trap, bad], "{kind}");
        }
    }

    #[test]
    fn only_waiting_counts_and_only_for_load_balancers() {
        for (function, took, cpu, bad) in [
            ("load-balancers.ensure", 1600, 0, true),
            ("load-balancers.ensure", 1500, 0, false),
            ("load-balancers.ensure", 1900, 500, false),
            ("instances.check", 9000, 0, false),
        ] {
            let (took, cpu) = (Duration::from_millis(took), Duration::from_millis(cpu));
            let it = Observation {
                took,
                cpu,
                ..seen(function, Ok(vec![value("()", false)]))
            };
            assert_eq!(fails(&no_wait(&[&it])), bad, "{it:?}");
            let again = Observation {
                took: cpu,
                ..it.clone()
            };
            assert!(
                !fails(&no_wait(&[&it, &again])),
                "once, it may have been the machine"
            );
        }
    }

    #[test]
    fn a_guess_without_a_request_is_one_too() {
        let error = || Err(CloudError::Unavailable("down".into()));
        let asked = Observation {
            denied: 1,
            ..seen("instances.describe", Ok(vec![error()]))
        };
        let guess = seen("instances.check", Ok(vec![value("Absent", true)]));
        assert!(fails(&rejecting_cloud(&[&asked, &guess])));
        let other = seen("load-balancers.get", Ok(vec![value("None", true)]));
        assert_eq!(
            rejecting_cloud(&[&asked, &other]),
            Verdict::Ok,
            "another interface may need no cloud"
        );
        assert!(matches!(
            rejecting_cloud(&[&guess]),
            Verdict::Skipped { .. }
        ));
    }

    fn skips(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Skipped { .. })
    }

    #[test]
    fn only_answers_of_the_plugin_to_denied_requests_are_judged() {
        let invalid = || seen("instances.check", Err(CloudError::Invalid("x".into())));
        assert!(skips(&error_case(&[&invalid()])), "no request was sent");
        let hosts = Observation {
            denied: 1,
            ended: vec!["trap".into()],
            ..invalid()
        };
        assert!(skips(&error_case(&[&hosts])), "Skydock has made the answer");
        let absent = Ok(vec![value("Absent", true)]);
        let hosts = Observation {
            denied: 1,
            rejected: 1,
            ..seen("instances.check", absent)
        };
        assert!(skips(&rejecting_cloud(&[&hosts])));
    }

    #[test]
    fn each_question_has_one_valid_answer() {
        let two = || Ok(vec![value("a", false), value("b", false)]);
        for (questions, rejected, bad) in [(2, 0, false), (1, 0, true), (2, 1, true)] {
            let it = Observation {
                questions,
                rejected,
                ..seen("instances.check", two())
            };
            assert_eq!(fails(&answers(&[&it])), bad, "{questions} {rejected}");
        }
    }

    #[test]
    fn an_empty_list_has_an_empty_answer() {
        let error = || Err(CloudError::Unavailable("down".into()));
        for (answer, denied, bad) in [
            (Ok(Vec::new()), 0, false),
            (Ok(vec![value("a", false)]), 0, true),
            (error(), 0, true),
            (error(), 1, false),
        ] {
            let it = Observation {
                questions: 0,
                denied,
                ..seen("instances.check", answer)
            };
            assert_eq!(fails(&empty(&[&it])), bad, "{it:?}");
        }
        assert!(!fails(&empty(&[&Observation::uncalled(
            Function::Check,
            "no nodes",
            0
        )])));
    }

    #[test]
    fn unusual_texts_get_an_answer_of_the_plugin() {
        let error = || seen("instances.check", Err(CloudError::Internal("x".into())));
        assert!(!fails(&unusual(&[&error()])));
        assert!(fails(&unusual(&[&Observation {
            ended: vec!["trap".into()],
            ..error()
        }])));
        assert!(!fails(&unusual(&[&Observation::uncalled(
            Function::Check,
            "names",
            1
        )])));
    }

    #[test]
    fn a_function_without_requests_is_judged_like_its_interface() {
        let asking = Observation {
            denied: 1,
            ..seen("instances.check", Err(CloudError::Unavailable("x".into())))
        };
        let denying = seen("instances.describe", Ok(vec![value("Absent", true)]));
        let Verdict::Failed { seen: text, .. } = rejecting_cloud(&[&asking, &denying]) else {
            panic!("not found")
        };
        assert!(
            text.ends_with("answered Absent without a request"),
            "{text}"
        );

        let not_found = || seen("instances.describe", Err(CloudError::NotFound("n1".into())));
        assert!(
            !fails(&rejecting_cloud(&[&asking, &not_found()])),
            "an inventory of its own"
        );

        let Verdict::Failed { seen: text, .. } = rejecting_cloud(&[&Observation {
            denied: 1,
            ..not_found()
        }]) else {
            panic!("not found")
        };
        assert!(!text.contains("without a request"), "{text}");

        let Verdict::Failed { seen: text, .. } = rejecting_cloud(&[&Observation {
            denied: 1,
            ..denying
        }]) else {
            panic!("not found")
        };
        assert!(text.ends_with("answered Absent"), "{text}");

        let other = seen("routes.create-routes", Ok(vec![value("()", false)]));
        assert!(
            !fails(&rejecting_cloud(&[&asking, &other])),
            "another interface"
        );
    }

    #[test]
    fn a_sequence_is_judged_if_its_calls_succeed() {
        let ok = || seen("routes.create-routes", Ok(vec![value("()", false)]));
        assert!(sequence(&[&ok()]).is_none());
        let reason = |steps: &[&Observation]| match sequence(steps) {
            Some(Verdict::Skipped { reason }) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(&[]), "it does not export the interface");
        assert_eq!(
            reason(&[&ok(), &Observation { denied: 1, ..ok() }]),
            "its cloud is needed"
        );
        let failed = seen(
            "routes.create-routes",
            Err(CloudError::Internal("x".into())),
        );
        assert!(reason(&[&failed]).starts_with("routes.create-routes with nodes failed: "));
    }
}
