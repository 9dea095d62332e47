//! Conversion of events between their two versions: core/v1, in which they are stored, and
//! events.k8s.io/v1.

use serde_json::Value;

use crate::resources::{
    object::as_map,
    resource::{Resource, Storage},
};

/// Fields with different names in core/v1 and in events.k8s.io/v1. All other fields have the same
/// name in both.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an object of the version of `resource` to the storage version.
pub(crate) fn to_storage(mut value: Value, resource: &Resource) -> Value {
    if resource.storage == Storage::Events && !resource.group.is_empty() {
        rename(&mut value, NAMES.map(|(core, events)| (events, core)));
        as_map(&mut value).insert("apiVersion".into(), "v1".into());
    }
    value
}

/// Converts a stored object to the version of `resource`.
pub(crate) fn from_storage(mut value: Value, resource: &Resource) -> Value {
    if resource.storage == Storage::Events && !resource.group.is_empty() {
        rename(&mut value, NAMES);
        // Unlike core/v1, this version omits these fields if they are empty.
        as_map(&mut value).retain(|name, value| !(name.starts_with("reporting") && value == ""));
        as_map(&mut value).insert("apiVersion".into(), resource.api_version().into());
    }
    value
}

fn rename(value: &mut Value, names: [(&str, &str); 7]) {
    let map = as_map(value);
    for (from, to) in names {
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::resource::{CORE_EVENTS, EVENTS};

    #[test]
    fn both_event_versions_convert_without_loss() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"kind": "Node"}, "message": "m",
            "source": {"component": "c"}, "firstTimestamp": "t", "lastTimestamp": "t", "count": 2, "reportingComponent": "r",
            "reason": "R",
        });
        let events = from_storage(core.clone(), &EVENTS);
        assert_eq!(events["regarding"]["kind"], "Node");
        assert_eq!(events["note"], "m");
        assert_eq!(events["apiVersion"], "events.k8s.io/v1");
        assert_eq!(to_storage(events, &EVENTS), core);
        assert_eq!(from_storage(core.clone(), &CORE_EVENTS), core);
    }
}
