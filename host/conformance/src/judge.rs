//! Decides whether observations are what the contract demands. No I/O.

use std::time::Duration;

use skydock_cloud::CloudError;

use crate::{
    Verdict,
    observation::{Element, Observation},
};

/// Reasons for ending an instance that are about time.
const TIME: [&str; 2] = ["cpu", "deadline"];

/// Returns true for a reason for ending an instance that is about time.
pub(crate) fn is_late(kind: &str) -> bool {
    TIME.contains(&kind)
}

/// Reason for ending an instance whose answer violates the contract.
const BAD_ANSWER: &str = "bad_answer";

pub(crate) fn failed(expected: &str, seen: impl Into<String>, hint: &str) -> Verdict {
    Verdict::Failed { expected: expected.to_owned(), seen: seen.into(), hint: hint.to_owned() }
}

pub(crate) fn skipped(reason: impl Into<String>) -> Verdict {
    Verdict::Skipped { reason: reason.into() }
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
    let found = seen.iter().find_map(|it| problem(it).map(|problem| format!("{}: {problem}", it.call())));
    found.map_or(Verdict::Ok, |found| failed(expected, found, hint))
}

/// Like [`first`], about the calls whose requests were all denied, and which the plugin has answered.
fn first_denied(
    seen: &[&Observation],
    problem: impl Fn(&Observation) -> Option<String>,
    expected: &str,
    hint: &str,
) -> Verdict {
    let asked: Vec<_> = seen.iter().filter(|it| it.denied > 0 && !it.is_hosts()).copied().collect();
    if asked.is_empty() { skipped("it sent no request to a cloud") } else { first(&asked, problem, expected, hint) }
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
    first(seen, problem, "one valid answer for each question", "fix the answer; Skydock rejects it")
}

pub(crate) fn no_trap(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        let kinds: Vec<_> = it.ended.iter().filter(|kind| !is_late(kind) && *kind != BAD_ANSWER).cloned().collect();
        (!kinds.is_empty()).then(|| format!("ended the instance: {}", kinds.join(", ")))
    };
    first(seen, problem, "an answer or an error", "return an error instead of panicking, and keep no handle of nodes")
}

pub(crate) fn deadlines(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        let late = it.ended.iter().find(|kind| is_late(kind));
        late.map(|kind| format!("exceeded its limit ({kind}) after {:?}", it.took))
    };
    first(seen, problem, "an answer in time", "return `in-progress` before `calls.remaining-ms` is over")
}

/// Time that a function of load balancers may spend without computing. All requests are denied at once, so it has nothing to wait for; but
/// the machine may be busy.
const WAITING: Duration = Duration::from_millis(1500);

pub(crate) fn no_wait(seen: &[&Observation]) -> Verdict {
    let balancers: Vec<_> = seen.iter().filter(|it| it.function.starts_with("load-balancers.")).copied().collect();
    let problem = |it: &Observation| {
        let waited = it.took.saturating_sub(it.cpu);
        (waited > WAITING).then(|| format!("waited for {waited:.1?}"))
    };
    first(
        &balancers,
        problem,
        "an answer at once",
        "return `in-progress` with a delay instead of waiting for the cloud",
    )
}

/// Judges whether a node with the provider ID of one instance and the name of another is the first: `by_id` is the answer about it, `one` and
/// `other` those about the nodes with these names.
pub(crate) fn lookup(one: &Observation, other: &Observation, by_id: &Observation) -> Verdict {
    if [one, other, by_id].iter().any(|it| it.denied > 0) {
        return skipped("its cloud is needed");
    }
    let first = |it: &Observation| it.elements().into_iter().next().and_then(Result::ok).map(|value| value.shown);
    let (Some(one), Some(other)) = (first(one), first(other)) else {
        return skipped("it does not know the instances of any nodes");
    };
    match first(by_id) {
        Some(seen) if seen == other && one != other => failed(
            "the instance with the provider ID of the node",
            format!("the instance with its name: {seen}"),
            "look for the provider ID first, if the node has one",
        ),
        _ => Verdict::Ok,
    }
}

pub(crate) fn empty(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| match &it.answer {
        Ok(elements) if elements.is_empty() => None,
        Ok(elements) => Some(format!("{} elements", elements.len())),
        // The cloud may be asked for something that does not depend on the list.
        Err(_) if it.denied > 0 => None,
        Err(error) => Some(error.to_string()),
    };
    first(seen, problem, "an empty list", "return an empty list for an empty list")
}

pub(crate) fn unusual(seen: &[&Observation]) -> Verdict {
    let problem = |it: &Observation| {
        it.is_hosts()
            .then(|| format!("no valid answer: {}", it.errors().first().map_or_else(String::new, ToString::to_string)))
    };
    first(
        seen,
        problem,
        "an answer or an error",
        "treat names and texts as opaque, and look up before you index or slice",
    )
}

/// Judges calls whose requests were all denied.
pub(crate) fn refused_cloud(seen: &[&Observation]) -> Verdict {
    let writes = ["ensure", "update-nodes", "ensure-deleted", "create-routes", "delete-routes"];
    let problem = |it: &Observation| {
        let changes = it.function.split_once('.').is_some_and(|(_, name)| writes.contains(&name));
        it.elements().iter().find_map(|element| match element {
            Ok(value) if value.denies => Some(format!("answered {}", value.shown)),
            Ok(_) if changes => Some("reported success".to_owned()),
            Err(error @ CloudError::NotFound(_)) => Some(format!("answered {error}")),
            _ => None,
        })
    };
    first_denied(
        seen,
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
        errors.first().filter(|_| errors.iter().all(wrong)).map(|error| format!("answered {error}"))
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
    first(seen, problem, "one sentence", "say what failed and why, in one line")
}

/// Returns true if both are the same for a controller. After a request was denied, texts of errors may differ.
fn same(one: &Element, other: &Element, exactly: bool) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one == other,
        (Err(one), Err(other)) => {
            if exactly {
                one == other
            } else {
                one.kind() == other.kind()
            }
        }
        _ => false,
    }
}

fn shown(element: &Element) -> String {
    match element {
        Ok(value) => value.shown.clone(),
        Err(error) => error.to_string(),
    }
}

/// Returns the first difference between two lists of answers to the same questions.
pub(crate) fn difference(one: &Observation, other: &Observation) -> Option<String> {
    if one.is_hosts() || other.is_hosts() {
        return None;
    }
    let exactly = one.denied == 0 && other.denied == 0;
    let (ones, others) = (one.elements(), other.elements());
    if ones.len() != others.len() {
        return Some(format!("{} and {} elements", ones.len(), others.len()));
    }
    let differs = ones.iter().zip(&others).enumerate().find(|(_, (one, other))| !same(one, other, exactly));
    differs.map(|(index, (one, other))| format!("element {index}: {}, and {}", shown(one), shown(other)))
}

/// Judges pairs of calls with the same questions.
pub(crate) fn equal(pairs: &[(Observation, Observation)], expected: &str, hint: &str) -> Verdict {
    if pairs.is_empty() {
        return skipped("it exports no function to which this applies");
    }
    let found = pairs.iter().find_map(|(one, other)| difference(one, other).map(|it| format!("{}: {it}", one.call())));
    found.map_or(Verdict::Ok, |found| failed(expected, found, hint))
}

/// Judges a sequence that needs a success to mean something. `steps` are the calls that must succeed.
pub(crate) fn sequence(steps: &[&Observation]) -> Option<Verdict> {
    if steps.is_empty() {
        return Some(skipped("it does not export the interface"));
    }
    if steps.iter().any(|it| it.denied > 0) {
        return Some(skipped("its cloud is needed"));
    }
    let first = steps.first()?;
    let error = first.errors().into_iter().next()?;
    Some(skipped(format!("{} failed: {error}", first.call())))
}

/// Part of the memory by which it may grow in the second half of the calls: the heap of a garbage collector settles slowly. So a leak must be
/// larger than that to be found, for example 600 bytes a call of a guest with 5 MiB, in 1,000 calls.
const SETTLING: u64 = 16;

/// Judges the peaks of memory after each quarter of the calls.
pub(crate) fn flat(peaks: &[u64], ended: &[String], calls: usize) -> Verdict {
    let hint = "free what a call has allocated, and drop requests, bodies and streams";
    if let Some(kind) =
        ended.iter().find(|kind| ["memory", "memory_total", "handles", "handles_total"].contains(&kind.as_str()))
    {
        return failed("no growth", format!("{kind} exceeded the limit within {calls} calls"), hint);
    }
    let grows = peaks.len() > 2 && peaks.iter().zip(peaks.iter().skip(1)).all(|(before, after)| after > before);
    let (half, end) = (peaks.get(peaks.len().saturating_sub(1) / 2), peaks.last());
    let much = half.zip(end).is_some_and(|(half, end)| end.saturating_sub(*half) > half / SETTLING);
    if grows && much {
        return failed("no growth", format!("bytes of memory after each quarter of {calls} calls: {peaks:?}"), hint);
    }
    Verdict::Ok
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Value;

    fn seen(function: &'static str, answer: Result<Vec<Element>, CloudError>) -> Observation {
        Observation {
            function,
            with: "nodes",
            answer,
            questions: 1,
            ended: Vec::new(),
            rejected: 0,
            denied: 0,
            took: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }

    fn value(shown: &str, denies: bool) -> Element {
        Ok(Value { shown: shown.into(), denies })
    }

    fn fails(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Failed { .. })
    }

    #[test]
    fn nothing_is_absent_or_done_without_an_answer_of_the_cloud() {
        let not_found = || CloudError::NotFound("n1".into());
        for (function, answer, bad) in [
            ("instances.check", Ok(vec![value("Absent", true)]), true),
            ("instances.check", Ok(vec![value("Running", false)]), false),
            ("instances.check", Ok(vec![Err(not_found())]), true),
            ("instances.describe", Err(not_found()), true),
            ("load-balancers.ensure-deleted", Ok(vec![value("()", false)]), true),
            ("load-balancers.get", Err(CloudError::Unavailable("down".into())), false),
        ] {
            let it = Observation { denied: 1, ..seen(function, answer) };
            assert_eq!(fails(&refused_cloud(&[&it])), bad, "{it:?}");
            let unasked = Observation { denied: 0, ..it };
            assert!(matches!(refused_cloud(&[&unasked]), Verdict::Skipped { .. }));
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
            let it = Observation { denied: 1, ..seen("instances.check", Err(error)) };
            assert_eq!(fails(&error_case(&[&it])), bad, "{it:?}");
        }
    }

    #[test]
    fn a_text_is_one_line() {
        for (text, bad) in [("no such server", false), ("", true), ("a\nb", true)] {
            let it = seen("instances.check", Ok(vec![Err(CloudError::Internal(text.into()))]));
            assert_eq!(fails(&error_text(&[&it])), bad, "{text:?}");
        }
    }

    #[test]
    fn answers_are_compared_element_by_element() {
        let of = |one: &str, other: &str| seen("instances.check", Ok(vec![value(one, false), value(other, false)]));
        assert_eq!(difference(&of("a", "b"), &of("a", "b")), None);
        assert_eq!(difference(&of("a", "b"), &of("b", "a")).as_deref(), Some("element 0: a, and b"));
        let error = |text: &str| seen("instances.check", Err(CloudError::Unavailable(text.into())));
        assert!(difference(&error("a"), &error("b")).is_some());
        let denied = |it: Observation| Observation { denied: 1, ..it };
        assert!(difference(&denied(error("a")), &denied(error("b"))).is_none());
    }

    #[test]
    fn calls_that_end_their_instance_fail_a_check() {
        for (kind, late, trap, bad) in
            [("cpu", true, false, false), ("trap", false, true, false), ("bad_answer", false, false, true)]
        {
            let it = Observation { ended: vec![kind.into()], ..seen("instances.check", Ok(vec![value("", false)])) };
            let verdicts = [deadlines(&[&it]), no_trap(&[&it]), answers(&[&it])].map(|it| fails(&it));
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
            let it = Observation { took, cpu, ..seen(function, Ok(vec![value("()", false)])) };
            assert_eq!(fails(&no_wait(&[&it])), bad, "{it:?}");
        }
    }

    #[test]
    fn an_instance_is_found_by_its_id_first() {
        let of = |shown: &str| seen("instances.describe", Ok(vec![value(shown, false)]));
        let error = || seen("instances.describe", Err(CloudError::NotFound("n".into())));
        for (one, other, by_id, expected) in [
            (of("a"), of("b"), of("b"), "failed"),
            (of("a"), of("b"), of("a"), "ok"),
            (of("a"), of("b"), error(), "ok"),
            (of("a"), of("a"), of("a"), "ok"),
            (error(), of("b"), of("b"), "skipped"),
            (of("a"), of("b"), Observation { denied: 1, ..of("b") }, "skipped"),
        ] {
            let word = match lookup(&one, &other, &by_id) {
                Verdict::Ok => "ok",
                Verdict::Failed { .. } => "failed",
                Verdict::Skipped { .. } => "skipped",
            };
            assert_eq!(word, expected, "{one:?} {other:?} {by_id:?}");
        }
    }

    #[test]
    fn memory_that_grows_all_the_time_is_a_leak() {
        let collected = [7_864_320, 9_764_864, 9_830_400, 10_092_544];
        for (peaks, bad) in [([1, 2, 3, 4], true), ([1, 2, 3, 3], false), ([4, 4, 4, 4], false), (collected, false)] {
            assert_eq!(fails(&flat(&peaks, &[], 1000)), bad, "{peaks:?}");
        }
        assert!(fails(&flat(&[1, 1, 1, 1], &["handles".into()], 1000)));
    }
}
