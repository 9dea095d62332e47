//! Annotations that wait to be written.

use std::collections::{BTreeMap, HashMap};

use skydock_cloud::{ObjectAnnotations, ObjectName};

/// Annotations to set, or to remove (`None`).
pub(super) type Annotations = BTreeMap<String, Option<String>>;

/// Maximum number of annotations of one object: a plugin may use ever new keys.
pub(super) const MOST: usize = 64;

/// Maximum bytes of all annotations that wait, with their keys. They are in addition to the memory
/// that the provider may use, and wait longer if the API server does not answer.
const MOST_BYTES: usize = 16 << 20;

/// What waits, by the key of its object.
#[derive(Default)]
pub(super) struct PendingAnnotations {
    objects: HashMap<String, Object>,
    bytes: usize,
}

/// What waits for one object.
struct Object {
    name: ObjectName,
    annotations: Annotations,
    /// Whether one was omitted.
    omitted: bool,
}

impl PendingAnnotations {
    /// Adds annotations; they replace those with the same keys. If one is omitted because too many
    /// wait, and none of this object was before, it returns its key.
    pub(super) fn add(&mut self, key: &str, wanted: ObjectAnnotations) -> Option<String> {
        let object = self.objects.entry(key.to_owned()).or_insert(Object {
            name: wanted.object,
            annotations: Annotations::new(),
            omitted: false,
        });

        let mut first = None;
        for (key, value) in wanted.annotations {
            let before = object.annotations.get_key_value(&key);
            let bytes = self.bytes - before.map_or(0, size) + size((&key, &value));
            let fits = bytes <= MOST_BYTES && (before.is_some() || object.annotations.len() < MOST);

            if fits {
                self.bytes = bytes;
                object.annotations.insert(key, value);
            } else if !std::mem::replace(&mut object.omitted, true) {
                first = Some(key);
            }
        }

        if object.annotations.is_empty() {
            self.objects.remove(key);
        }
        first
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    /// Returns true if something waits for an object.
    pub(super) fn has(&self, key: &str) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns what waits for an object.
    pub(super) fn of(&self, key: &str) -> Option<(ObjectName, Annotations)> {
        let object = self.objects.get(key)?;
        Some((object.name.clone(), object.annotations.clone()))
    }

    /// Removes annotations that were written, unless they were changed in the meantime.
    pub(super) fn remove(&mut self, key: &str, written: &Annotations) {
        let Some(object) = self.objects.get_mut(key) else {
            return;
        };
        let bytes = &mut self.bytes;
        object.annotations.retain(|key, value| {
            let waits = written.get(key) != Some(value);
            if !waits {
                *bytes -= size((key, value));
            }
            waits
        });

        // There is room again, so that the next omission is worth another warning.
        object.omitted = false;

        if object.annotations.is_empty() {
            self.objects.remove(key);
        }
    }
}

fn size((key, value): (&String, &Option<String>)) -> usize {
    key.len() + value.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use skydock_cloud::ObjectKind;

    use super::*;

    fn annotation(key: String, value: &str) -> ObjectAnnotations {
        let name = |text: &str| text.to_owned();
        ObjectAnnotations {
            object: ObjectName {
                kind: ObjectKind::Service,
                namespace: name("ns"),
                name: name("web"),
                uid: name("u"),
            },
            annotations: [(key, Some(value.to_owned()))].into(),
        }
    }

    // Holds: SEC-62
    #[test]
    fn annotations_of_an_object_are_limited() {
        let mut pending = PendingAnnotations::default();
        let mut add =
            |number: usize, value: &str| pending.add("u", annotation(format!("k{number}"), value));
        let omitted: Vec<_> = (0..2 * MOST)
            .filter_map(|number| add(number, "1"))
            .collect();
        assert_eq!(omitted, [format!("k{MOST}")], "the first is reported");
        assert_eq!(add(0, "2"), None);
        let (_, annotations) = pending.of("u").unwrap();
        assert_eq!(annotations.len(), MOST);
        assert_eq!(annotations["k0"].as_deref(), Some("2"));
    }

    // Holds: SEC-04, SEC-62
    #[test]
    fn all_annotations_together_are_limited() {
        let mut pending = PendingAnnotations::default();
        let value = "v".repeat(4096);
        for object in 0..1000 {
            for number in 0..MOST {
                pending.add(
                    &object.to_string(),
                    annotation(format!("k{number:02}"), &value),
                );
            }
        }
        assert!(pending.bytes <= MOST_BYTES && pending.bytes > MOST_BYTES - 4200);
        assert!(pending.objects.len() < 70, "{}", pending.objects.len());
        assert!(pending.add("0", annotation("k00".to_owned(), "")).is_none());
        for key in pending.keys() {
            let (_, annotations) = pending.of(&key).unwrap();
            pending.remove(&key, &annotations);
        }
        assert_eq!((pending.bytes, pending.objects.len()), (0, 0));
    }

    #[test]
    fn what_changes_while_it_is_written_waits_on() {
        let mut pending = PendingAnnotations::default();
        pending.add("u", annotation("a".to_owned(), "1"));
        pending.add("u", annotation("b".to_owned(), "1"));
        let (_, written) = pending.of("u").unwrap();
        pending.add("u", annotation("b".to_owned(), "2"));
        pending.remove("u", &written);
        let (_, left) = pending.of("u").unwrap();
        assert_eq!(left, [("b".to_owned(), Some("2".to_owned()))].into());
        assert_eq!(pending.bytes, 2);
    }
}
