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
        let kinds = if it.is_uncalled() { Vec::new() } else { kinds };
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

/// Judges calls that were all made twice: one of them may have waited for the machine.
pub(crate) fn no_wait(seen: &[&Observation]) -> Verdict {
    let balancers: Vec<_> = seen.iter().filter(|it| it.function.starts_with("load-balancers.")).copied().collect();
    let problem = |it: &Observation| {
        let same = balancers.iter().filter(|other| (other.function, other.with) == (it.function, it.with));
        let waited = same.map(|it| it.took.saturating_sub(it.cpu)).min().unwrap_or_default();
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
        _ if it.is_uncalled() => None,
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
        (it.is_hosts() && !it.is_uncalled())
            .then(|| format!("no valid answer: {}", it.errors().first().map_or_else(String::new, ToString::to_string)))
    };
    first(
        seen,
        problem,
        "an answer or an error",
        "treat names and texts as opaque, and look up before you index or slice",
    )
}

/// Judges calls whose requests were all denied. A call without a request cannot know more, if others of its interface send some.
pub(crate) fn refused_cloud(seen: &[&Observation]) -> Verdict {
    let writes = ["ensure", "update-nodes", "ensure-deleted", "create-routes", "delete-routes"];
    let interface = |it: &Observation| it.function.split_once('.').unwrap_or_default().0;
    let asking: Vec<_> = seen.iter().filter(|it| it.denied > 0).map(|it| interface(it)).collect();
    let problem = |it: &Observation| {
        let changes = it.function.split_once('.').is_some_and(|(_, name)| writes.contains(&name));
        let without = if it.denied == 0 { " without a request" } else { "" };
        it.elements().iter().find_map(|element| match element {
            Ok(value) if value.denies => Some(format!("answered {}{without}", value.shown)),
            Ok(_) if changes => Some(format!("reported success{without}")),
            Err(error @ CloudError::NotFound(_)) if it.denied > 0 => Some(format!("answered {error}")),
            _ => None,
        })
    };
    let asked: Vec<_> = seen.iter().filter(|it| asking.contains(&interface(it)) && !it.is_hosts()).copied().collect();
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

/// Returns true if two elements of an answer differ: only then does it have an order that can be seen.
fn has_order(seen: &Observation) -> bool {
    let elements = seen.elements();
    elements.iter().skip(1).zip(&elements).any(|(one, other)| !same(one, other, seen.denied == 0))
}

/// Judges pairs of calls about the same nodes in different lists.
pub(crate) fn order(pairs: &[(Observation, Observation)]) -> Verdict {
    let expected = "the answer of each node at its place, alone or with others";
    // If the cloud is asked about several nodes at once, the call fails as a whole.
    let as_whole = |it: &Observation| it.denied > 0 && it.answer.is_err();
    let seen: Vec<_> = pairs.iter().filter(|(one, other)| !as_whole(one) && !as_whole(other)).cloned().collect();
    let pairs = if seen.is_empty() { pairs } else { &seen };
    let is_seen = |it: &Observation| !as_whole(it) && has_order(it);
    match equal(pairs, expected, "answer in the order of the list, and return the error of a node at its place") {
        Verdict::Failed { .. } if seen.is_empty() => skipped("its cloud is needed: use a scenario"),
        Verdict::Ok if !pairs.iter().any(|(one, _)| is_seen(one)) => {
            skipped("all nodes have the same answer without its cloud: use a scenario")
        }
        verdict => verdict,
    }
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

/// Part of the memory by which it may grow while the number of calls doubles: the heap of a garbage collector settles slowly. So a leak must
/// be larger than that to be found, for example 1,300 bytes a call of a guest with 5 MiB, in 500 calls of each function.
const SETTLING: u64 = 16;

/// Number of peaks that are enough for a verdict: memory that was allocated in advance has been used by then.
const PEAKS: usize = 4;

/// Judges the peaks of memory, each after twice as many calls as the one before, the last after `calls`. Returns `None` as long as it has
/// grown each time, but not often enough to say that it does not settle.
pub(crate) fn flat(peaks: &[u64], ended: &[String], calls: usize) -> Option<Verdict> {
    let hint = "free what a call has allocated, and drop requests, bodies and streams";
    if let Some(kind) =
        ended.iter().find(|kind| ["memory", "memory_total", "handles", "handles_total"].contains(&kind.as_str()))
    {
        return Some(failed("no growth", format!("{kind} exceeded the limit within {calls} calls"), hint));
    }
    let grew = |(before, after): (&u64, &u64)| after.saturating_sub(*before) > before / SETTLING;
    if !peaks.iter().zip(peaks.iter().skip(1)).all(grew) {
        return Some(Verdict::Ok);
    }
    let seen = || format!("bytes of memory, each after twice as many calls, the last after {calls}: {peaks:?}");
    (peaks.len() >= PEAKS).then(|| failed("no growth", seen(), hint))
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
            let again = Observation { took: cpu, ..it.clone() };
            assert!(!fails(&no_wait(&[&it, &again])), "once, it may have been the machine");
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
        let verdict = |peaks: &[u64]| flat(peaks, &[], 1000).map(|it| fails(&it));
        let (settled, collected) = (vec![100, 200, 201], vec![9_764_864, 10_092_544]);
        let (leak, doubling) = (vec![100, 110, 130, 170], vec![100, 200, 400, 800]);
        for (peaks, expected) in [
            (vec![100], None),
            (vec![100, 200], None),
            (vec![100, 100], Some(false)),
            (settled, Some(false)),
            (collected, Some(false)),
            (leak, Some(true)),
            (doubling, Some(true)),
        ] {
            assert_eq!(verdict(&peaks), expected, "{peaks:?}");
        }
        assert!(flat(&[1], &["handles".into()], 1000).is_some_and(|it| fails(&it)));
    }

    #[test]
    fn order_is_judged_if_it_can_be_seen() {
        let seen = |denied, answer| Observation { denied, questions: 2, ..seen("instances.check", answer) };
        let down = |name: &str| Err(CloudError::Unavailable(format!("no answer about {name}")));
        for (one, other, expected) in [
            (seen(0, Ok(vec![value("a", false), value("b", false)])), vec![value("a", false), value("b", false)], "ok"),
            (
                seen(0, Ok(vec![value("a", false), value("b", false)])),
                vec![value("b", false), value("a", false)],
                "failed",
            ),
            (seen(2, Ok(vec![down("a"), down("b")])), vec![down("b"), down("a")], "skipped"),
        ] {
            let other = Observation { answer: Ok(other), ..one.clone() };
            let whole = Observation { answer: Err(CloudError::Denied("no".into())), denied: 1, ..one.clone() };
            assert!(!fails(&order(&[(whole, other.clone())])), "the call failed as a whole");
            let word = match order(&[(one, other)]) {
                Verdict::Ok => "ok",
                Verdict::Failed { .. } => "failed",
                Verdict::Skipped { .. } => "skipped",
            };
            assert_eq!(word, expected);
        }
    }

    #[test]
    fn a_guess_without_a_request_is_one_too() {
        let error = || Err(CloudError::Unavailable("down".into()));
        let asked = Observation { denied: 1, ..seen("instances.describe", Ok(vec![error()])) };
        let guess = seen("instances.check", Ok(vec![value("Absent", true)]));
        assert!(fails(&refused_cloud(&[&asked, &guess])));
        let other = seen("load-balancers.get", Ok(vec![value("None", true)]));
        assert_eq!(refused_cloud(&[&asked, &other]), Verdict::Ok, "another interface may need no cloud");
        assert!(matches!(refused_cloud(&[&guess]), Verdict::Skipped { .. }));
    }
}
