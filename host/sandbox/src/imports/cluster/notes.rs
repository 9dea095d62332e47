//! Annotations that are written after a call.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use skydock_cloud::{Note, ObjectName, Pairs};

use super::ClusterSlot;

/// Maximum number of annotations of one call, as in the contract.
const MAX_NOTES: usize = 16;

/// The annotations that a call has set. They outlive the instance, which may not survive the call.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<Annotation>>);

/// An annotation that is set, or removed if it has no value.
struct Annotation {
    object: ObjectName,
    key: String,
    value: Option<String>,
}

impl Notes {
    /// Adds an annotation; the last value of a key counts. Returns false if there are too many.
    pub(super) fn take(&self, object: ObjectName, key: String, value: Option<String>) -> bool {
        let mut notes = self.0.lock();
        if let Some(note) = notes
            .iter_mut()
            .find(|note| note.object == object && note.key == key)
        {
            note.value = value;
            return true;
        }

        let fits = notes.len() < MAX_NOTES;
        if fits {
            notes.push(Annotation { object, key, value });
        }
        fits
    }

    /// Returns the annotations of an object that has these, once those of this call are written.
    pub(super) fn after(&self, object: &ObjectName, mut present: Pairs) -> Pairs {
        let notes = self.0.lock();
        for note in notes.iter().filter(|note| note.object == *object) {
            match &note.value {
                Some(value) => drop(present.insert(note.key.clone(), value.clone())),
                None => drop(present.remove(&note.key)),
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

        // One note for each object: its annotations are written together.
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
