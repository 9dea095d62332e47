//! Differences of the final states, field by field. Pure.

mod decided;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use self::decided::Decided;
use crate::scenario::{Kind, Side};

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Difference {
    /// The side that differs from the peer.
    pub(crate) side: Side,
    /// The path without numbers: `cluster/services/service-*/metadata/finalizers`.
    pub(crate) field: String,
    /// The value after the peer has run.
    pub(crate) peer: String,
    /// The value after this side has run.
    pub(crate) here: String,
    /// The number of such fields.
    pub(crate) count: usize,
    /// The reason why the difference is accepted, or `None`.
    pub(crate) decided: Option<&'static str>,
}

/// Returns the differences of a side from the peer, with similar ones combined.
pub(crate) fn between(kind: Kind, side: Side, peer: &Value, here: &Value) -> Vec<Difference> {
    let (mut left, mut right) = (BTreeMap::new(), BTreeMap::new());
    flatten(peer, String::new(), &mut left);
    flatten(here, String::new(), &mut right);
    let mut found: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut note = |path: &str, peer: &str, here: &str| {
        *found
            .entry((unnumbered(path), unnumbered(peer), unnumbered(here)))
            .or_default() += 1;
    };
    for (path, value) in &left {
        match right.get(path) {
            Some(other) if other == value => {}
            Some(other) => note(path, value, other),
            None => note(path, value, NOTHING),
        }
    }
    for (path, value) in right.iter().filter(|(path, _)| !left.contains_key(*path)) {
        note(path, NOTHING, value);
    }
    found
        .into_iter()
        .map(|((field, peer, here), count)| {
            let decided = decided::of(kind, side, &field).map(|Decided { why, .. }| *why);
            Difference {
                side,
                field,
                peer,
                here,
                count,
                decided,
            }
        })
        .collect()
}

const NOTHING: &str = "–";

/// Collects the fields by path. Each element of a list is a separate field, so that order and
/// number do not matter.
fn flatten(value: &Value, path: String, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let separator = if path.is_empty() { "" } else { "/" };
                flatten(value, format!("{path}{separator}{key}"), all);
            }
        }
        Value::Array(values) => {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for value in values {
                *counts.entry(shown(value)).or_default() += 1;
            }
            for (text, count) in counts {
                all.insert(
                    format!("{path} has {text}"),
                    if count == 1 {
                        "yes".to_owned()
                    } else {
                        format!("{count} times")
                    },
                );
            }
        }
        other => {
            all.insert(path, shown(other));
        }
    }
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns `node-12` and `service-3` without their numbers.
fn unnumbered(text: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut told = String::new();
    for part in text.split_inclusive('-') {
        let numbered = part.trim_start_matches(is_digit);
        let follows = told.ends_with("node-") || told.ends_with("service-");
        if follows && numbered.len() < part.len() {
            told.push('*');
            told.push_str(numbered);
        } else {
            told.push_str(part);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_numbers_in_names_are_replaced() {
        assert_eq!(
            unnumbered("a/service-12/node-3-x node-port(service-4/80)"),
            "a/service-*/node-*-x node-port(service-*/80)"
        );
    }

    #[test]
    fn equal_differences_are_reported_once() {
        let side = |finalizer: &str, extra: Value| {
            let service = json!({"finalizers": [finalizer], "port": 80});
            json!({"service-1": service, "service-2": service, "x": extra})
        };
        let found = between(
            Kind::Aws,
            Side::Skydock,
            &side("a", json!("1")),
            &side("b", Value::Null),
        );
        let told: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.field.as_str(),
                    one.peer.as_str(),
                    one.here.as_str(),
                    one.count,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("service-*/finalizers has a", "yes", "–", 2),
                ("service-*/finalizers has b", "–", "yes", 2),
                ("x", "1", "null", 1),
            ]
        );
    }

    #[test]
    fn list_order_is_ignored() {
        assert_eq!(
            between(
                Kind::Aws,
                Side::Skydock,
                &json!({"a": [1, {"b": 2}]}),
                &json!({"a": [{"b": 2}, 1]})
            ),
            []
        );
    }
}
