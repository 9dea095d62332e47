//! Operations on one object exclude each other.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use skydock_cloud::{SnapshotId, VolumeId};
use tokio::sync::Notify;

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
pub(crate) struct Busy(Arc<State>);

#[derive(Debug, Default)]
struct State {
    objects: Mutex<HashSet<Object>>,
    /// An operation has ended.
    ended: Notify,
}

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
        if !self.0.objects.lock().insert(object.clone()) {
            let message = format!("another operation is in progress for {}", object.shown());
            return Err(Failure::new(Code::Aborted, message));
        }

        let busy = self.clone();
        Ok(Operation { busy, object })
    }

    /// Waits until no operation is under way.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.0.objects.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.busy.0.objects.lock().remove(&self.object);
        self.busy.0.ended.notify_waiters();
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
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn it_is_idle_when_the_last_operation_has_ended() {
        let busy = Busy::default();
        busy.idle().await;

        let first = busy.begin(Object::NewVolume("a".into())).unwrap();
        let second = busy.begin(Object::NewVolume("b".into())).unwrap();
        let mut idle = Box::pin(busy.idle());
        assert!(idle.as_mut().now_or_never().is_none());
        drop(first);
        assert!(idle.as_mut().now_or_never().is_none());
        drop(second);
        assert!(idle.now_or_never().is_some());
    }

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
