//! The last warning about each object, for people who ask why it waits.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;

use super::Notice;

/// Maximum number of objects. A page shows fewer.
const OBJECTS: usize = 1024;

/// A warning that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWarning {
    /// When it was published.
    pub at: Timestamp,
    /// Reason in CamelCase.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
}

/// Which object a warning is about.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ObjectName {
    kind: String,
    /// Empty for objects without one.
    namespace: String,
    name: String,
}

/// The last warnings by object.
#[derive(Default)]
pub(super) struct LastWarnings(Mutex<HashMap<ObjectName, LastWarning>>);

impl LastWarnings {
    /// Keeps a warning. If there are too many, the oldest one is dropped.
    pub(super) fn keep(&self, at: Timestamp, notice: &Notice) {
        let ObjectReference {
            kind,
            namespace,
            name,
            ..
        } = &notice.object;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let object = ObjectName {
            kind: text(kind),
            namespace: text(namespace),
            name: text(name),
        };

        let mut all = self.0.lock();
        if all.len() >= OBJECTS && !all.contains_key(&object) {
            let oldest = all.iter().min_by_key(|(_, warning)| warning.at);
            if let Some(oldest) = oldest.map(|(object, _)| object.clone()) {
                all.remove(&oldest);
            }
        }
        let warning = LastWarning {
            at,
            reason: notice.reason.clone(),
            message: notice.message.clone(),
        };
        all.insert(object, warning);
    }

    pub(super) fn about(&self, kind: &str, namespace: &str, name: &str) -> Option<LastWarning> {
        let object = ObjectName {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.0.lock().get(&object).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventType;

    fn notice(name: &str, message: &str) -> Notice {
        Notice {
            source: "test",
            object: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            event_type: EventType::Warning,
            reason: "Why".to_owned(),
            message: message.to_owned(),
        }
    }

    fn at(second: usize) -> Timestamp {
        Timestamp::from_second(second.try_into().unwrap()).unwrap()
    }

    #[test]
    fn the_last_warning_about_an_object_is_kept() {
        let warnings = LastWarnings::default();
        warnings.keep(at(1), &notice("a", "first"));
        warnings.keep(at(2), &notice("a", "second"));
        warnings.keep(at(3), &notice("b", "other"));

        let about = |kind, name| warnings.about(kind, "", name).map(|it| it.message);
        assert_eq!(about("Node", "a"), Some("second".to_owned()));
        assert_eq!(about("Node", "b"), Some("other".to_owned()));
        assert_eq!(about("Node", "c"), None);
        assert_eq!(about("Service", "a"), None);
        assert_eq!(warnings.about("Node", "ns", "a"), None);
    }

    #[test]
    fn the_oldest_warning_makes_room() {
        let warnings = LastWarnings::default();
        for number in 0..OBJECTS + 2 {
            warnings.keep(at(number), &notice(&format!("n{number}"), "late"));
        }
        assert_eq!(warnings.0.lock().len(), OBJECTS);
        for (number, is_kept) in [(0, false), (1, false), (2, true), (OBJECTS + 1, true)] {
            let found = warnings.about("Node", "", &format!("n{number}"));
            assert_eq!(found.is_some(), is_kept, "{number}");
        }
    }
}
