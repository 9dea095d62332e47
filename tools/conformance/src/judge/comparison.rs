//! Decides whether the answers of two calls are the same.

use super::{failed, skipped};
use crate::{
    Verdict,
    harness::observation::{Element, Observation},
};

/// Returns true if both are the same for a controller. After a request was denied, texts of errors
/// may differ.
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
    // Other checks report calls that Skydock had to answer.
    if one.is_hosts() || other.is_hosts() {
        return None;
    }

    let exactly = one.denied == 0 && other.denied == 0;
    let ones = one.elements();
    let others = other.elements();
    if ones.len() != others.len() {
        return Some(format!("{} and {} elements", ones.len(), others.len()));
    }

    let differs = ones
        .iter()
        .zip(&others)
        .enumerate()
        .find(|(_, (one, other))| !same(one, other, exactly));

    differs.map(|(index, (one, other))| {
        format!("element {index}: {}, and {}", shown(one), shown(other))
    })
}

/// Returns true if two elements of an answer differ: only then does it have an order that can be
/// seen.
fn has_order(seen: &Observation) -> bool {
    let elements = seen.elements();
    elements
        .iter()
        .skip(1)
        .zip(&elements)
        .any(|(one, other)| !same(one, other, seen.denied == 0))
}

/// Judges pairs of calls about the same nodes in different lists.
pub(crate) fn order(pairs: &[(Observation, Observation)]) -> Verdict {
    let expected = "the answer of each node at its place, alone or with others";
    // If the cloud is asked about several nodes at once, the call fails as a whole.
    let as_whole = |it: &Observation| it.denied > 0 && it.answer.is_err();

    let seen: Vec<_> = pairs
        .iter()
        .filter(|(one, other)| !as_whole(one) && !as_whole(other))
        .cloned()
        .collect();
    let pairs = if seen.is_empty() { pairs } else { &seen };

    let is_seen = |it: &Observation| !as_whole(it) && has_order(it);
    match equal(
        pairs,
        expected,
        "answer in the order of the list, and return the error of a node at its place",
    ) {
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

    let found = pairs
        .iter()
        .find_map(|(one, other)| difference(one, other).map(|it| format!("{}: {it}", one.call())));
    found.map_or(Verdict::Ok, |found| failed(expected, found, hint))
}

/// Judges whether a node with the provider ID of one instance and the name of another is the first:
/// `by_id` is the answer about it, `one` and `other` those about the nodes with these names.
pub(crate) fn lookup(one: &Observation, other: &Observation, by_id: &Observation) -> Verdict {
    if [one, other, by_id].iter().any(|it| it.denied > 0) {
        return skipped("its cloud is needed");
    }

    let first = |it: &Observation| {
        it.elements()
            .into_iter()
            .next()
            .and_then(Result::ok)
            .map(|value| value.shown)
    };

    let (Some(one), Some(other)) = (first(one), first(other)) else {
        return skipped("it does not know the instances of any nodes");
    };

    match first(by_id) {
        // Instances with the same description cannot be told apart.
        Some(seen) if seen == other && one != other => failed(
            "the instance with the provider ID of the node",
            format!("the instance with its name: {seen}"),
            "look for the provider ID first, if the node has one",
        ),
        _ => Verdict::Ok,
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::CloudError;

    use super::{
        super::samples::{fails, seen, value},
        *,
    };

    #[test]
    fn answers_are_compared_element_by_element() {
        let of = |one: &str, other: &str| {
            seen(
                "instances.check",
                Ok(vec![value(one, false), value(other, false)]),
            )
        };
        assert_eq!(difference(&of("a", "b"), &of("a", "b")), None);
        assert_eq!(
            difference(&of("a", "b"), &of("b", "a")).as_deref(),
            Some("element 0: a, and b")
        );

        let error = |text: &str| seen("instances.check", Err(CloudError::Unavailable(text.into())));
        assert!(difference(&error("a"), &error("b")).is_some());
        let denied = |it: Observation| Observation { denied: 1, ..it };
        assert!(difference(&denied(error("a")), &denied(error("b"))).is_none());
        assert!(
            difference(&denied(error("a")), &error("b")).is_none(),
            "one of them had a cloud that rejected"
        );

        let hosts = Observation {
            ended: vec!["trap".into()],
            ..of("x", "y")
        };
        assert!(
            difference(&hosts, &of("a", "b")).is_none()
                && difference(&of("a", "b"), &hosts).is_none()
        );
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
            (
                of("a"),
                of("b"),
                Observation {
                    denied: 1,
                    ..of("b")
                },
                "skipped",
            ),
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
    fn order_is_judged_if_it_can_be_seen() {
        let seen = |denied, answer| Observation {
            denied,
            questions: 2,
            ..seen("instances.check", answer)
        };
        let down = |name: &str| Err(CloudError::Unavailable(format!("no answer about {name}")));
        for (one, other, expected) in [
            (
                seen(0, Ok(vec![value("a", false), value("b", false)])),
                vec![value("a", false), value("b", false)],
                "ok",
            ),
            (
                seen(0, Ok(vec![value("a", false), value("b", false)])),
                vec![value("b", false), value("a", false)],
                "failed",
            ),
            (
                seen(2, Ok(vec![down("a"), down("b")])),
                vec![down("b"), down("a")],
                "skipped",
            ),
        ] {
            let other = Observation {
                answer: Ok(other),
                ..one.clone()
            };
            let whole = Observation {
                answer: Err(CloudError::Denied("no".into())),
                denied: 1,
                ..one.clone()
            };
            assert!(
                !fails(&order(&[(whole, other.clone())])),
                "the call failed as a whole"
            );
            let word = match order(&[(one, other)]) {
                Verdict::Ok => "ok",
                Verdict::Failed { .. } => "failed",
                Verdict::Skipped { .. } => "skipped",
            };
            assert_eq!(word, expected);
        }

        let both = || seen(2, Ok(vec![value("a", false), value("b", false)]));
        let swapped = Observation {
            answer: Ok(vec![value("b", false), value("a", false)]),
            ..both()
        };
        assert!(
            fails(&order(&[(both(), swapped)])),
            "it has answers, although requests were denied"
        );

        let alone = Observation {
            denied: 0,
            ..both()
        };
        let failed = Observation {
            answer: Err(CloudError::Internal("x".into())),
            ..alone.clone()
        };
        assert!(
            fails(&order(&[(alone, failed)])),
            "it failed as a whole without a request"
        );
    }
}
