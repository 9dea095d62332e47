//! Operations on one object exclude each other.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use skydock_cloud::{SnapshotId, VolumeId};

use crate::failure::{Code, Failure};

/// What an operation is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    /// A volume that has no ID yet.
    NewVolume(String),
    Volume(VolumeId),
    /// A snapshot that has no ID yet.
    NewSnapshot(String),
    Snapshot(SnapshotId),
}

/// The objects of operations that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy(Arc<Mutex<HashSet<Object>>>);

/// An operation on an object. The next one may begin when it is dropped.
#[derive(Debug)]
pub(crate) struct Operation {
    busy: Busy,
    object: Object,
}

impl Busy {
    /// Begins an operation.
    ///
    /// # Errors
    /// [`Code::Aborted`], if there is one on the same object. The sidecars retry, as CSI asks them
    /// to.
    pub(crate) fn begin(&self, object: Object) -> Result<Operation, Failure> {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !objects.insert(object.clone()) {
            let message = format!("another operation is in progress for {}", object.shown());
            return Err(Failure::new(Code::Aborted, message));
        }

        let busy = self.clone();
        Ok(Operation { busy, object })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let mut objects = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&self.object);
    }
}

impl Object {
    fn shown(&self) -> String {
        match self {
            Self::NewVolume(name) | Self::Volume(VolumeId(name)) => format!("volume {name}"),
            Self::NewSnapshot(name) | Self::Snapshot(SnapshotId(name)) => {
                format!("snapshot {name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_operation_on_an_object_is_aborted() {
        let busy = Busy::default();
        let volume = |id: &str| Object::Volume(VolumeId(id.into()));
        let first = busy.begin(volume("a")).unwrap();
        let second = busy.begin(volume("a")).unwrap_err();
        assert_eq!(
            (second.code, second.message.as_str()),
            (
                Code::Aborted,
                "another operation is in progress for volume a"
            )
        );

        // A name is not an ID.
        for other in [
            volume("b"),
            Object::NewVolume("a".into()),
            Object::NewSnapshot("a".into()),
            Object::Snapshot(SnapshotId("a".into())),
        ] {
            assert!(busy.begin(other).is_ok());
        }

        drop(first);
        assert!(busy.begin(volume("a")).is_ok());
    }
}
