//! VolumeSnapshotContents in the cache.

use std::borrow::Cow;

use k8s_openapi::{ClusterResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;
use skydock_kube::informer::{Entry, Identity, Kind};

/// A VolumeSnapshotContent.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Content {
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Value,
    #[serde(default)]
    pub(super) status: Value,
}

impl Resource for Content {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "VolumeSnapshotContent".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "snapshot.storage.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "volumesnapshotcontents".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// VolumeSnapshotContents.
#[derive(Debug)]
pub(super) struct ContentKind;

impl Kind for ContentKind {
    type Object = Content;
    type Read = Content;
    type View = ();
    type Kept = Content;

    fn split(mut object: Content) -> (Content, ()) {
        object.metadata.managed_fields = None;
        (object, ())
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        let metadata = &entry.object.metadata;
        Identity {
            namespace: "",
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            resource_version: metadata.resource_version.as_deref().unwrap_or_default(),
        }
    }
}
