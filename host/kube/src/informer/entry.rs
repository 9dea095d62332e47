//! What is kept of an object, for each kind of object.

use std::{fmt::Debug, sync::Arc};

use bytes::Bytes;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use prost::DecodeError;
use serde::de::DeserializeOwned;

/// Decodes an object in protobuf, and splits it. It may share with the previous version what has
/// not changed.
pub type FromProtobuf<K> = fn(Bytes, &Before<'_, K>) -> Result<Entry<K>, DecodeError>;
/// Returns the previous version of the object with this key, see [`Entry::key`].
pub type Before<'a, K> = dyn Fn(&str) -> Option<Arc<Entry<K>>> + 'a;

/// A kind of object that can be watched, and what is kept of each object.
pub trait Kind: Debug + Sized + 'static {
    /// The object as Kubernetes has it.
    type Object: Resource<DynamicType = ()>;
    /// The object as it is read from JSON.
    type Read: DeserializeOwned + Into<Self::Object>;
    /// Data that is computed once for each version of an object.
    type View: Debug + Send + Sync + 'static;
    /// The part of an object that is kept in addition to its view: nothing of thousands of nodes
    /// should be in memory twice.
    type Kept: Debug + Send + Sync + 'static;

    /// Field selector of the objects that are listed and watched; `None` for all.
    const FIELDS: Option<&'static str> = None;

    /// Decodes an object in protobuf; `None` if this kind is only read as JSON.
    const PROTOBUF: Option<FromProtobuf<Self>> = None;

    /// Splits an object into the kept part and the view.
    fn split(object: Self::Object) -> (Self::Kept, Self::View);

    /// Shares with the previous version what has not changed, so that it is compared once and not
    /// by each handler.
    fn share(_new: &mut Entry<Self>, _old: &Entry<Self>) {}

    /// Returns the identity and version of an object.
    fn identity(entry: &Entry<Self>) -> Identity<'_>;
}

/// Identity and version of an object; missing values are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub resource_version: &'a str,
}

/// One version of an object.
#[derive(Debug)]
pub struct Entry<K: Kind> {
    /// The part of the object that is not in the view.
    pub object: K::Kept,
    /// What was computed of it.
    pub view: K::View,
}

impl<K: Kind> Entry<K> {
    /// Creates an entry for this object.
    pub fn new(object: K::Object) -> Self {
        let (object, view) = K::split(object);
        Self { object, view }
    }

    /// Returns `NAME` or `NAMESPACE/NAME`.
    #[must_use]
    pub fn key(&self) -> String {
        match K::identity(self) {
            Identity {
                namespace: "",
                name,
                ..
            } => name.to_owned(),
            Identity {
                namespace, name, ..
            } => format!("{namespace}/{name}"),
        }
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        K::identity(self).name
    }

    /// Returns `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        K::identity(self).uid
    }

    /// Returns `metadata.resourceVersion`.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        K::identity(self).resource_version
    }

    /// Returns a reference for events on the object, without a version.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        let Identity {
            namespace,
            name,
            uid,
            ..
        } = K::identity(self);

        ObjectReference {
            api_version: Some(K::Object::api_version(&()).into_owned()),
            kind: Some(K::Object::kind(&()).into_owned()),
            namespace: filled(namespace),
            name: filled(name),
            uid: filled(uid),
            ..ObjectReference::default()
        }
    }
}

/// Returns `None` for an empty string, as the API does.
fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
