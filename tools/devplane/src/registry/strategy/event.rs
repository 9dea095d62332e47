//! Events, like `pkg/apis/core/validation/events.go`. The newer API requires more than the older
//! one.

use serde_json::{Value, json};

use crate::{
    resources::{
        names::qualified_name,
        object::{self, as_map, text},
        resource::Resource,
    },
    status::Cause,
};

/// Adds the fields that every stored event has.
pub(super) fn complete(value: &mut Value) {
    let event = as_map(value);
    // In core/v1, only these fields are written when they are empty.
    event.retain(|field, value| field.starts_with("reporting") || !(value == "" || *value == 0));

    for field in ["involvedObject", "source"] {
        event.entry(field).or_insert_with(|| json!({}));
    }
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        event.entry(field).or_insert(Value::Null);
    }
    for field in ["reportingComponent", "reportingInstance"] {
        event.entry(field).or_insert_with(|| "".into());
    }
}

/// Checks a new event.
pub(super) fn create(value: &Value, resource: &Resource) -> Vec<Cause> {
    let mut causes = legacy(value, resource);
    if resource.group.is_empty() {
        return causes;
    }

    series(value, &mut causes);
    if text(value, "/eventTime").is_empty() {
        causes.push(Cause::required("eventTime", ""));
    }
    if !matches!(text(value, "/type"), "Normal" | "Warning") {
        causes.push(Cause::invalid(
            "type",
            &"".into(),
            format!("has invalid value: {}", text(value, "/type")),
        ));
    }

    let count = value
        .get("count")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    // Through the newer API, these are the deprecated fields of older clients.
    for (field, set) in [
        ("firstTimestamp", !text(value, "/firstTimestamp").is_empty()),
        ("lastTimestamp", !text(value, "/lastTimestamp").is_empty()),
        ("count", count != 0),
        (
            "source",
            !text(value, "/source/component").is_empty() || !text(value, "/source/host").is_empty(),
        ),
    ] {
        if set {
            causes.push(Cause::invalid(field, &"".into(), "needs to be unset"));
        }
    }

    causes
}

/// Checks a changed event. Through the newer API, only its series and metadata may change.
pub(super) fn update(value: &Value, old: &Value, resource: &Resource) -> Vec<Cause> {
    let mut causes = legacy(value, resource);
    if resource.group.is_empty() {
        return causes;
    }
    if value.get("series") != old.get("series") {
        series(value, &mut causes);
    }

    for (field, name) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if value.get(field) != old.get(field) {
            causes.push(Cause::invalid(
                name,
                value.get(field).unwrap_or(&Value::Null),
                "field is immutable",
            ));
        }
    }

    causes
}

fn series(value: &Value, causes: &mut Vec<Cause>) {
    let Some(series) = value.get("series") else {
        return;
    };
    if series
        .get("count")
        .and_then(Value::as_i64)
        .unwrap_or_default()
        < 2
    {
        causes.push(Cause::invalid(
            "series.count",
            &"".into(),
            "should be at least 2",
        ));
    }

    if text(series, "/lastObservedTime").is_empty() {
        causes.push(Cause::required("series.lastObservedTime", ""));
    }
}

/// Checks that an event is in the namespace of its object; for cluster-scoped objects, in
/// `default`.
fn legacy(value: &Value, resource: &Resource) -> Vec<Cause> {
    let mut causes = Vec::new();
    let namespace = object::namespace(value);
    let about = text(value, "/involvedObject/namespace");
    // Clients of the newer API set `eventTime`.
    let newer = !text(value, "/eventTime").is_empty();
    let fits = match about {
        "" => namespace == "default" || newer && namespace == "kube-system",
        about => newer || about == namespace,
    };

    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &about.into(),
            "does not match event.namespace",
        ));
    }

    if newer {
        let controller = if resource.group.is_empty() {
            "reportingComponent"
        } else {
            "reportingController"
        };
        if let Err(why) = qualified_name(text(value, "/reportingComponent")) {
            causes.push(Cause::invalid(
                controller,
                &text(value, "/reportingComponent").into(),
                why,
            ));
        }

        for (pointer, field) in [
            ("/reportingComponent", controller),
            ("/reportingInstance", "reportingInstance"),
            ("/action", "action"),
            ("/reason", "reason"),
        ] {
            if text(value, pointer).is_empty() {
                causes.push(Cause::required(field, ""));
            }
        }
    }

    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::resource::{CORE_EVENTS, EVENTS};

    #[test]
    fn an_event_is_in_the_namespace_of_its_object() {
        let event = |namespace: &str, about: &str| {
            let value = json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": about}});
            create(&value, &CORE_EVENTS).len()
        };
        assert_eq!(
            (
                event("a", "a"),
                event("a", "b"),
                event("default", ""),
                event("a", "")
            ),
            (0, 1, 0, 1)
        );
    }

    #[test]
    fn the_newer_event_api_requires_more_fields() {
        let value =
            json!({"metadata": {"namespace": "default"}, "reason": "R", "type": "Odd", "count": 2});
        let causes = create(&value, &EVENTS);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["eventTime", "type", "count"]);
        let timed = json!({"metadata": {"namespace": "default"}, "eventTime": "t", "reportingComponent": "c", "type": "Normal"});
        let causes = create(&timed, &EVENTS);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["reportingInstance", "action", "reason"]);
    }

    #[test]
    fn only_the_series_can_change_in_the_newer_event_api() {
        let old = json!({"metadata": {"namespace": "default"}, "reason": "R", "message": "m"});
        let new = json!({"metadata": {"namespace": "default"}, "reason": "R", "message": "n", "series": {"count": 1}});
        let causes = update(&new, &old, &EVENTS);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(
            fields,
            ["series.count", "series.lastObservedTime", "message"]
        );
        assert!(update(&new, &old, &CORE_EVENTS).is_empty());
    }
}
