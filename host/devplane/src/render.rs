//! How objects, lists and watch events are written: whole, as metadata only, or as a table.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    event,
    object::{Object, as_map},
    refusal::{Reason, Refusal},
    resource::{Resource, Shelf},
    table,
};

/// What a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// `PartialObjectMetadata` of meta.k8s.io/v1.
    Metadata,
    /// `PartialObjectMetadataList` of meta.k8s.io/v1.
    MetadataList,
    /// `Table` of meta.k8s.io/v1, with this much of the objects themselves.
    Table(Include),
}

/// `includeObject` of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

/// A form of one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rendering {
    pub(crate) resource: &'static Resource,
    pub(crate) form: Form,
}

/// `metadata` of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    /// Where the next page begins; empty on the last one.
    pub(crate) next: String,
    /// How many objects are left after this page, if that is known.
    pub(crate) remaining: Option<usize>,
}

const META: &str = "meta.k8s.io/v1";

impl Rendering {
    /// One object. What is a list cannot be one object: that is told after all has been done.
    pub(crate) fn object(&self, object: &Object) -> Result<Bytes, Refusal> {
        Ok(match self.form {
            Form::Whole => self.whole(object),
            Form::Metadata => metadata(object).to_string().into(),
            Form::MetadataList => {
                return Err(not_acceptable(
                    "you requested PartialObjectMetadataList, but the requested object is not a list",
                ));
            }
            Form::Table(include) => {
                let list = ListMeta { revision: object.revision, ..ListMeta::default() };
                self.table(std::iter::once(object), &list, include).to_string().into()
            }
        })
    }

    /// A list.
    pub(crate) fn list(&self, objects: &[Arc<Object>], meta: &ListMeta) -> Result<Bytes, Refusal> {
        let (kind, version) = match self.form {
            Form::Table(include) => {
                return Ok(self.table(objects.iter().map(AsRef::as_ref), meta, include).to_string().into());
            }
            Form::Metadata => {
                return Err(not_acceptable("you requested PartialObjectMetadata, but the requested object is a list"));
            }
            Form::MetadataList => ("PartialObjectMetadataList".to_owned(), META.to_owned()),
            Form::Whole => (format!("{}List", self.resource.kind), self.resource.api_version()),
        };
        let head =
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{},\"items\":[", list_meta(meta));
        let mut body = BytesMut::from(head.as_bytes());
        for (index, object) in objects.iter().enumerate() {
            if index > 0 {
                body.extend_from_slice(b",");
            }
            if self.form == Form::MetadataList {
                body.extend_from_slice(metadata(object).to_string().as_bytes());
            } else {
                // The kind stands at the list alone.
                let mut item = event::from_storage(object.value.clone(), self.resource);
                as_map(&mut item).retain(|name, _| name != "kind" && name != "apiVersion");
                body.extend_from_slice(item.to_string().as_bytes());
            }
        }
        body.extend_from_slice(b"]}");
        Ok(body.freeze())
    }

    /// One line of a watch.
    pub(crate) fn event(&self, kind: &str, object: &Object) -> Bytes {
        self.object(object).map_or_else(|refusal| Self::error(&refusal), |object| line(kind, &object))
    }

    /// Tells a watcher how far it has come; `initial` ends a streaming list.
    pub(crate) fn bookmark(&self, revision: u64, initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial && let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("annotations".into(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let object = match self.form {
            Form::Whole => {
                let mut object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
                // Types in which these fields are required must still be readable.
                if let (Shelf::Events, Some(fields)) = (self.resource.shelf, object.as_object_mut()) {
                    let about = if self.resource.group.is_empty() { "involvedObject" } else { "regarding" };
                    fields.insert(about.into(), json!({}));
                    fields.insert("eventTime".into(), Value::Null);
                }
                object
            }
            Form::Metadata | Form::MetadataList => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata})
            }
            Form::Table(_) => json!({
                "kind": "Table", "apiVersion": META, "metadata": {"resourceVersion": revision.to_string()},
                "columnDefinitions": [], "rows": [{"cells": [], "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata,
                }}],
            }),
        };
        line("BOOKMARK", object.to_string().as_bytes())
    }

    /// The last line of a watch that cannot go on.
    pub(crate) fn error(refusal: &Refusal) -> Bytes {
        line("ERROR", refusal.status().to_string().as_bytes())
    }

    fn whole(&self, object: &Object) -> Bytes {
        if self.resource.shelf == Shelf::Events && !self.resource.group.is_empty() {
            return event::from_storage(object.value.clone(), self.resource).to_string().into();
        }
        object.json()
    }

    fn table<'a>(&self, objects: impl Iterator<Item = &'a Object>, meta: &ListMeta, include: Include) -> Value {
        let now = Timestamp::now();
        let row = |object: &Object| {
            let cells = table::cells(self.resource.shelf, &object.value, now);
            let whole = || event::from_storage(object.value.clone(), self.resource);
            match include {
                Include::None => json!({"cells": cells, "object": null}),
                Include::Metadata => json!({"cells": cells, "object": metadata(object)}),
                Include::Object => json!({"cells": cells, "object": whole()}),
            }
        };
        json!({
            "kind": "Table", "apiVersion": META, "metadata": list_meta(meta),
            "columnDefinitions": table::columns(self.resource.shelf), "rows": objects.map(row).collect::<Vec<_>>(),
        })
    }
}

fn not_acceptable(why: &str) -> Refusal {
    Refusal::new(Reason::NotAcceptable, why)
}

fn metadata(object: &Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": object.value.get("metadata")})
}

fn list_meta(meta: &ListMeta) -> Value {
    let mut value = json!({"resourceVersion": meta.revision.to_string()});
    if !meta.next.is_empty()
        && let Some(fields) = value.as_object_mut()
    {
        fields.insert("continue".into(), meta.next.as_str().into());
        if let Some(remaining) = meta.remaining {
            fields.insert("remainingItemCount".into(), remaining.into());
        }
    }
    value
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.freeze()
}
