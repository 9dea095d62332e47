//! Output of objects, lists and watch events: complete, as metadata only, or as a table.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::{
    clock::Clock,
    formats::table,
    registry::strategy,
    resources::{
        event,
        object::{Object, as_map, text},
        resource::{Resource, Storage},
    },
    status::{Reason, StatusError},
};

/// The form that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// `PartialObjectMetadata` of meta.k8s.io/v1.
    Metadata,
    /// `PartialObjectMetadataList` of meta.k8s.io/v1.
    MetadataList,
    /// `Table` of meta.k8s.io/v1, with this much of each object.
    Table(Include),
}

/// `includeObject` of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// Another value: the error is returned after the operation.
    Invalid,
    None,
    Metadata,
    Object,
}

/// A form of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Rendering {
    pub(crate) resource: &'static Resource,
    pub(crate) form: Form,
    /// The clock of the plane, for ages in tables.
    pub(crate) clock: Clock,
}

/// `metadata` of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    /// Token of the next page; empty on the last page.
    pub(crate) next: String,
    /// Number of objects after this page, if it is known.
    pub(crate) remaining: Option<usize>,
}

const META: &str = "meta.k8s.io/v1";

impl Rendering {
    /// Returns one object. If the client only accepts a list, the error is returned after the
    /// operation.
    pub(crate) fn object(&self, object: &Object) -> Result<Bytes, StatusError> {
        Ok(match self.form {
            Form::Table(Include::Invalid) => return Err(invalid_include()),
            Form::Whole => self.whole(object),
            Form::Metadata => metadata(object).to_string().into(),
            Form::MetadataList => {
                return Err(not_acceptable(
                    "you requested PartialObjectMetadataList, but the requested object is not a list",
                ));
            }
            Form::Table(include) => {
                // The object of a dry run has no version.
                let version = text(&object.value, "/metadata/resourceVersion");
                self.table(
                    std::iter::once(object),
                    version,
                    &ListMeta::default(),
                    include,
                )
                .to_string()
                .into()
            }
        })
    }

    pub(crate) fn list(
        &self,
        objects: &[Arc<Object>],
        meta: &ListMeta,
    ) -> Result<Bytes, StatusError> {
        let (kind, version) = match self.form {
            Form::Table(Include::Invalid) => return Err(invalid_include()),
            Form::Table(include) => {
                let objects = objects.iter().map(AsRef::as_ref);
                let version = meta.revision.to_string();

                return Ok(self
                    .table(objects, &version, meta, include)
                    .to_string()
                    .into());
            }
            Form::Metadata => {
                return Err(not_acceptable(
                    "you requested PartialObjectMetadata, but the requested object is a list",
                ));
            }
            Form::MetadataList => ("PartialObjectMetadataList".to_owned(), META.to_owned()),
            Form::Whole => (
                format!("{}List", self.resource.kind),
                self.resource.api_version(),
            ),
        };

        let head = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{},\"items\":[",
            list_meta(&meta.revision.to_string(), meta)
        );

        // An API server's list is nil in this form, which Go writes as null.
        if self.form == Form::MetadataList && objects.is_empty() {
            let head = head.strip_suffix('[').unwrap_or(&head);
            return Ok(format!("{head}null}}").into());
        }

        let mut body = BytesMut::from(head.as_bytes());
        for (index, object) in objects.iter().enumerate() {
            if index > 0 {
                body.extend_from_slice(b",");
            }
            if self.form == Form::MetadataList {
                body.extend_from_slice(metadata(object).to_string().as_bytes());
            } else {
                // Only the list has `kind` and `apiVersion`, its items do not.
                let mut item = event::from_storage(object.value.clone(), self.resource);
                as_map(&mut item).retain(|name, _| name != "kind" && name != "apiVersion");
                body.extend_from_slice(item.to_string().as_bytes());
            }
        }

        body.extend_from_slice(b"]}");
        Ok(body.freeze())
    }

    /// Returns one line of a watch.
    pub(crate) fn event(&self, kind: &str, object: &Object) -> Bytes {
        self.object(object)
            .map_or_else(|error| Self::error(&error), |object| line(kind, &object))
    }

    /// Returns a bookmark with the current revision of a watch; `initial` marks the end of a
    /// streaming list.
    pub(crate) fn bookmark(&self, revision: u64, initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial {
            as_map(&mut metadata).insert(
                "annotations".into(),
                json!({"k8s.io/initial-events-end": "true"}),
            );
        }

        let object = match self.form {
            Form::Whole => self.empty(metadata),
            Form::Metadata | Form::MetadataList => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata})
            }
            Form::Table(include) => {
                let object = Object::new(self.empty(metadata), revision);
                let version = revision.to_string();
                let objects = std::iter::once(&object);
                self.table(objects, &version, &ListMeta::default(), include)
            }
        };

        line("BOOKMARK", object.to_string().as_bytes())
    }

    /// Returns an object with only this metadata.
    fn empty(&self, metadata: Value) -> Value {
        let mut object = strategy::empty(self.resource);
        let fields = as_map(&mut object);
        fields.insert("kind".into(), self.resource.kind.into());
        fields.insert("apiVersion".into(), self.resource.api_version().into());
        fields.insert("metadata".into(), metadata);
        object
    }

    /// Removes the columns from a line of a watch that has already sent them.
    pub(crate) fn without_columns(event: &Bytes) -> Bytes {
        let Ok(mut value) = serde_json::from_slice::<Value>(event) else {
            return event.clone();
        };
        if let Some(columns) = value.pointer_mut("/object/columnDefinitions") {
            *columns = Value::Null;
        }
        format!("{value}\n").into()
    }

    /// Returns the last line of a watch that ends with an error.
    pub(crate) fn error(error: &StatusError) -> Bytes {
        line("ERROR", error.status().to_string().as_bytes())
    }

    fn whole(&self, object: &Object) -> Bytes {
        if self.resource.storage == Storage::Events && !self.resource.group.is_empty() {
            return event::from_storage(object.value.clone(), self.resource)
                .to_string()
                .into();
        }
        object.json()
    }

    fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Object>,
        version: &str,
        meta: &ListMeta,
        include: Include,
    ) -> Value {
        let now = self.clock.now();

        let row = |object: &Object| {
            let cells = table::cells(self.resource.storage, &object.value, now);
            let whole = || event::from_storage(object.value.clone(), self.resource);
            match include {
                Include::None | Include::Invalid => json!({"cells": cells, "object": null}),
                Include::Metadata => json!({"cells": cells, "object": metadata(object)}),
                Include::Object => json!({"cells": cells, "object": whole()}),
            }
        };

        json!({
            "kind": "Table", "apiVersion": META, "metadata": list_meta(version, meta),
            "columnDefinitions": table::columns(self.resource.storage), "rows": objects.map(row).collect::<Vec<_>>(),
        })
    }
}

fn invalid_include() -> StatusError {
    StatusError::bad_request(
        "unable to convert to Table as requested: includeObject must be Metadata, Object, None, or empty",
    )
}

fn not_acceptable(why: &str) -> StatusError {
    StatusError::new(Reason::NotAcceptable, why)
}

fn metadata(object: &Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": object.value.get("metadata")})
}

fn list_meta(version: &str, meta: &ListMeta) -> Value {
    let mut value = if version.is_empty() {
        json!({})
    } else {
        json!({"resourceVersion": version})
    };

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

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::resources::resource::SERVICE_ACCOUNTS;

    #[test]
    fn ages_in_a_table_follow_the_clock_of_the_plane() {
        let rendering = Rendering {
            resource: &SERVICE_ACCOUNTS,
            form: Form::Table(Include::None),
            clock: Clock::default(),
        };
        let created = rendering.clock.now().to_string();
        let metadata = json!({"name": "a", "creationTimestamp": created});
        let object = Object::new(json!({"metadata": metadata}), 1);

        rendering.clock.shift(SignedDuration::from_hours(5));
        let table: Value = serde_json::from_slice(&rendering.object(&object).unwrap()).unwrap();
        assert_eq!(table["rows"][0]["cells"], json!(["a", "5h"]));
    }
}
