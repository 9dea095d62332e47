//! Compares what was seen with what was expected.

use serde_json::Value;

/// Whether the order of lists counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Counts,
    Any,
}

/// Returns the first difference: fields that are not expected may have any value, a missing field
/// is null, and `*` in an expected text stands for any characters.
pub(crate) fn difference(expected: &Value, seen: &Value, order: Order) -> Option<String> {
    differs(expected, seen, order, "")
}

fn differs(expected: &Value, seen: &Value, order: Order, at: &str) -> Option<String> {
    let place = if at.is_empty() { "the answer" } else { at };
    match (expected, seen) {
        (Value::Object(fields), Value::Object(there)) => {
            fields.iter().find_map(|(field, expected)| {
                differs(
                    expected,
                    there.get(field).unwrap_or(&Value::Null),
                    order,
                    &format!("{at}.{field}"),
                )
            })
        }
        (Value::Array(wanted), Value::Array(there)) if wanted.len() != there.len() => Some(
            format!("{place} has {} elements, not {}", there.len(), wanted.len()),
        ),
        (Value::Array(wanted), Value::Array(there)) if order == Order::Counts => {
            let mut pairs = wanted.iter().zip(there).enumerate();
            pairs.find_map(|(index, (wanted, there))| {
                differs(wanted, there, order, &format!("{at}[{index}]"))
            })
        }
        (Value::Array(wanted), Value::Array(there)) => {
            let unmatched = first_unmatched(wanted, there)?;
            Some(format!("{place} has no element {unmatched}"))
        }
        (Value::String(pattern), Value::String(text)) if is_like(pattern, text) => None,
        // 1 and 1.0 are the same number.
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        _ if expected == seen => None,
        _ => Some(format!("{place} is {seen}, not {expected}")),
    }
}

/// Gives each wanted element an element of its own. Returns the first for which none is left.
fn first_unmatched<'a>(wanted: &'a [Value], there: &[Value]) -> Option<&'a Value> {
    let mut owners: Vec<Option<usize>> = vec![None; there.len()];
    let unmatched = (0..wanted.len()).find(|index| {
        !place(
            *index,
            wanted,
            there,
            &mut owners,
            &mut vec![false; there.len()],
        )
    });

    unmatched.and_then(|index| wanted.get(index))
}

/// Finds an element for this one; those that have one already may move to another.
fn place(
    index: usize,
    wanted: &[Value],
    there: &[Value],
    owners: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    let Some(want) = wanted.get(index) else {
        return false;
    };

    for (spot, seen) in there.iter().enumerate() {
        let is_new = tried.get(spot).is_some_and(|tried| !tried);
        if !is_new || differs(want, seen, Order::Any, "").is_some() {
            continue;
        }

        if let Some(tried) = tried.get_mut(spot) {
            *tried = true;
        }

        // The owner may have another element to move to.
        let owner = owners.get(spot).copied().flatten();
        if owner.is_none_or(|owner| place(owner, wanted, there, owners, tried)) {
            if let Some(owner) = owners.get_mut(spot) {
                *owner = Some(index);
            }
            return true;
        }
    }
    false
}

/// Returns true if the text is like the pattern, in which `*` stands for any characters.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };

    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();

    for part in parts {
        let Some((_, after)) = text.split_once(part) else {
            return false;
        };
        text = after;
    }

    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_subset_is_enough() {
        let seen = json!({"id": "lb-1", "targets": ["a", "b"], "labels": {"x": "1"}, "port": 80});
        for (expected, message) in [
            (json!({"id": "lb-*", "labels": {}}), None),
            (json!({"targets": ["b", "a"], "port": 80.0}), None),
            (json!({"none": null}), None),
            (json!({"id": "lb-2"}), Some(".id is \"lb-1\", not \"lb-2\"")),
            (
                json!({"targets": ["a"]}),
                Some(".targets has 2 elements, not 1"),
            ),
            (
                json!({"targets": ["a", "a"]}),
                Some(".targets has no element \"a\""),
            ),
            (
                json!({"labels": {"x": "2"}}),
                Some(".labels.x is \"1\", not \"2\""),
            ),
            (json!([]), Some("the answer is {")),
        ] {
            let found = difference(&expected, &seen, Order::Any);
            assert_eq!(found.is_some(), message.is_some(), "{expected}: {found:?}");
            assert!(
                found
                    .zip(message)
                    .is_none_or(|(found, message)| found.starts_with(message)),
                "{expected}"
            );
        }
        let ordered = |expected| difference(&expected, &seen, Order::Counts);
        assert_eq!(ordered(json!({"targets": ["a", "b"]})), None);
        assert_eq!(
            ordered(json!({"targets": ["b", "a"]})).as_deref(),
            Some(".targets[0] is \"a\", not \"b\"")
        );
    }

    #[test]
    fn each_expected_element_has_one_of_its_own() {
        let any = |expected, seen| difference(&expected, &seen, Order::Any);
        // The first could take either, and must leave the only one that fits the second.
        assert_eq!(
            any(
                json!([{"a": "*"}, {"a": "1"}]),
                json!([{"a": "1"}, {"a": "2"}])
            ),
            None
        );
        assert!(
            any(
                json!([{"a": "1"}, {"a": "1"}]),
                json!([{"a": "1"}, {"a": "2"}])
            )
            .is_some()
        );
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, like) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("abc", "abcd", false),
        ] {
            assert_eq!(is_like(pattern, text), like, "{pattern} {text}");
        }
    }
}
