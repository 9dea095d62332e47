//! Events in a table.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, age};
use crate::resources::object::{name, text};

pub(super) const COLUMNS: &[Column] = &[
    ("Last Seen", "string", false),
    ("Type", "string", false),
    ("Reason", "string", false),
    ("Object", "string", false),
    ("Subobject", "string", true),
    ("Source", "string", true),
    ("Message", "string", false),
    ("First Seen", "string", true),
    ("Count", "string", true),
    ("Name", "string", true),
];

pub(super) fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let first = or(text(event, "/firstTimestamp"), text(event, "/eventTime"));
    let last = or(
        text(event, "/series/lastObservedTime"),
        or(text(event, "/lastTimestamp"), first),
    );

    let count = event
        .pointer("/series/count")
        .or_else(|| event.get("count"))
        .and_then(Value::as_i64);

    let component = or(
        text(event, "/source/component"),
        text(event, "/reportingComponent"),
    );
    let instance = or(
        text(event, "/source/host"),
        text(event, "/reportingInstance"),
    );
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };

    let kind = text(event, "/involvedObject/kind").to_lowercase();
    let about = match text(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };

    vec![
        age(last, now).into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        about.into(),
        text(event, "/involvedObject/fieldPath").into(),
        source.into(),
        text(event, "/message").trim().into(),
        age(first, now).into(),
        count.filter(|count| *count > 0).unwrap_or(1).into(),
        name(event).into(),
    ]
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}
