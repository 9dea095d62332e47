//! The annotations that a call has set, which are written after it.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use skydock_cloud::{Note, ObjectName, Pairs};

use super::ClusterSlot;

/// Maximum number of annotations of one call, as in the contract.
const MAX_ANNOTATIONS: usize = 16;

/// The annotations that a call has set. They outlive the instance, which may not survive the call.
#[derive(Default)]
pub(crate) struct PendingAnnotations(Mutex<Vec<Annotation>>);

/// An annotation that is set, or removed if it has no value.
struct Annotation {
    object: ObjectName,
    key: String,
    value: Option<String>,
}

impl PendingAnnotations {
    /// Adds an annotation; the last value of a key counts. Returns false if there are too many.
    pub(super) fn take(&self, object: ObjectName, key: String, value: Option<String>) -> bool {
        let mut pending = self.0.lock();
        if let Some(annotation) = pending
            .iter_mut()
            .find(|annotation| annotation.object == object && annotation.key == key)
        {
            annotation.value = value;
            return true;
        }

        let fits = pending.len() < MAX_ANNOTATIONS;
        if fits {
            pending.push(Annotation { object, key, value });
        }
        fits
    }

    /// Returns the annotations of an object that has these, once those of this call are written.
    pub(super) fn after(&self, object: &ObjectName, mut present: Pairs) -> Pairs {
        let pending = self.0.lock();
        for annotation in pending
            .iter()
            .filter(|annotation| annotation.object == *object)
        {
            match &annotation.value {
                Some(value) => drop(present.insert(annotation.key.clone(), value.clone())),
                None => drop(present.remove(&annotation.key)),
            }
        }

        present
    }

    /// Passes all annotations to the cluster, to be written.
    pub(crate) fn hand_over(&self, cluster: &ClusterSlot) {
        let taken = std::mem::take(&mut *self.0.lock());
        let Some(cluster) = cluster.get().filter(|_| !taken.is_empty()) else {
            return;
        };

        // One `Note` for each object: its annotations are written together.
        let mut notes: Vec<Note> = Vec::new();
        for Annotation { object, key, value } in taken {
            match notes.iter_mut().find(|note| note.object == object) {
                Some(note) => drop(note.annotations.insert(key, value)),
                None => notes.push(Note {
                    object,
                    annotations: BTreeMap::from([(key, value)]),
                }),
            }
        }

        notes.into_iter().for_each(|note| cluster.note(note));
    }
}
