//! Annotations that a call sets, and that are written after it.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use skydock_cloud::{ObjectAnnotations, ObjectName, Pairs};

use super::ClusterSlot;

/// Maximum number of annotations of one call, as in the contract.
const MAX_OF_CALL: usize = 16;

/// The annotations that a call has set. They outlive the instance, which may not survive the call.
#[derive(Default)]
pub(crate) struct CallAnnotations(Mutex<Vec<Annotation>>);

/// An annotation that is set, or removed if it has no value.
struct Annotation {
    object: ObjectName,
    key: String,
    value: Option<String>,
}

impl CallAnnotations {
    /// Sets an annotation; the last value of a key counts. Returns false if there are too many.
    pub(super) fn set(&self, object: ObjectName, key: String, value: Option<String>) -> bool {
        let mut annotations = self.0.lock();
        if let Some(annotation) = annotations
            .iter_mut()
            .find(|annotation| annotation.object == object && annotation.key == key)
        {
            annotation.value = value;
            return true;
        }

        let fits = annotations.len() < MAX_OF_CALL;
        if fits {
            annotations.push(Annotation { object, key, value });
        }
        fits
    }

    /// Returns the annotations of an object that has these, once those of this call are written.
    pub(super) fn after(&self, object: &ObjectName, mut present: Pairs) -> Pairs {
        let annotations = self.0.lock();
        for annotation in annotations
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

        // Those of an object are written together.
        let mut wanted: Vec<ObjectAnnotations> = Vec::new();
        for Annotation { object, key, value } in taken {
            match wanted.iter_mut().find(|it| it.object == object) {
                Some(it) => drop(it.annotations.insert(key, value)),
                None => wanted.push(ObjectAnnotations {
                    object,
                    annotations: BTreeMap::from([(key, value)]),
                }),
            }
        }

        wanted.into_iter().for_each(|it| cluster.annotate(it));
    }
}
