//! The objects that the controllers read: each kind is watched once for all of them.

use std::{
    future::pending,
    ops::Deref,
    sync::atomic::{AtomicBool, Ordering},
};

use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim},
        storage::v1::{CSINode, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Client;
use skydock_kube::informer::{Entry, Identity, Informer, Kind};

/// Declares kinds of which whole objects are kept, but for their managed fields.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $object:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Object = $object;
            type Read = $object;
            type View = ();
            type Kept = $object;

            fn split(mut object: $object) -> ($object, ()) {
                object.metadata.managed_fields = None;
                (object, ())
            }

            fn identity(entry: &Entry<Self>) -> Identity<'_> {
                identity(&entry.object.metadata)
            }
        }
    )*};
}

kinds! {
    /// PersistentVolumes.
    VolumeKind: PersistentVolume;
    /// PersistentVolumeClaims.
    ClaimKind: PersistentVolumeClaim;
    /// StorageClasses.
    ClassKind: StorageClass;
    /// VolumeAttachments.
    AttachmentKind: VolumeAttachment;
    /// CSINodes: the drivers of each node.
    CsiNodeKind: CSINode;
}

fn identity(metadata: &ObjectMeta) -> Identity<'_> {
    Identity {
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
        resource_version: metadata.resource_version.as_deref().unwrap_or_default(),
    }
}

/// The objects that the controllers read. They are watched as soon as one of them runs.
#[derive(Default)]
pub struct VolumeObjects {
    pub(crate) volumes: Cache<VolumeKind>,
    pub(crate) claims: Cache<ClaimKind>,
    pub(crate) classes: Cache<ClassKind>,
    pub(crate) attachments: Cache<AttachmentKind>,
    pub(crate) csi_nodes: Cache<CsiNodeKind>,
}

/// A cache that several controllers share.
pub(crate) struct Cache<K: Kind> {
    informer: Informer<K>,
    is_filled: AtomicBool,
}

impl<K: Kind> Default for Cache<K> {
    fn default() -> Self {
        Self {
            informer: Informer::default(),
            is_filled: AtomicBool::new(false),
        }
    }
}

impl<K: Kind> Cache<K> {
    /// Keeps the cache up to date, unless another controller does it. Never returns: controllers end
    /// together.
    pub(crate) async fn fill(&self, client: Client) {
        if self.is_filled.swap(true, Ordering::SeqCst) {
            pending::<()>().await;
        }
        self.informer.run(client).await;
    }
}

impl<K: Kind> Deref for Cache<K> {
    type Target = Informer<K>;

    fn deref(&self) -> &Informer<K> {
        &self.informer
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use skydock_controller_base::testing::FakeApi;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_listed_once_for_all_controllers() {
        let (api, cache) = (FakeApi::default(), Cache::<CsiNodeKind>::default());
        let both = async { tokio::join!(cache.fill(api.client()), cache.fill(api.client())) };
        assert!(timeout(Duration::from_secs(1), both).await.is_err());
        assert_eq!(api.calls(), ["GET /apis/storage.k8s.io/v1/csinodes"]);
    }
}
