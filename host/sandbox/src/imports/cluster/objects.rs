//! Objects that a plugin may read, and annotations that it may write.

use std::sync::Arc;

use skydock_cloud::{
    Cluster, ForeignKind, ForeignObject, NamedBy, ObjectKind, ObjectName, Pairs, ReadError,
    has_room,
};

use super::annotations::CallAnnotations;
use crate::{
    answers::text::MAX_ANNOTATION, grants::permissions::ObjectGrant, imports::State,
    words::keys::is_qualified,
};

/// Maximum bytes of an object as JSON, as in the contract: the limit of the API server.
const MAX_OBJECT: usize = 1 << 20;

impl State {
    /// Sets an annotation of the current call, or removes it with `None`. Returns false if the
    /// plugin may not do that.
    pub(crate) fn annotate(&self, name: &str, key: String, value: Option<String>) -> bool {
        let fits = value
            .as_ref()
            .is_none_or(|value| value.len() <= MAX_ANNOTATION);

        let annotations = self
            .subject
            .annotations
            .as_ref()
            .and_then(|annotations| self.while_serving(annotations));

        match (annotations, self.named(name)) {
            (Some(annotations), Some(object))
                if fits && is_qualified(&key) && self.owned.may_annotate(&key) =>
            {
                let fits = |value: &String| self.has_room(&object, annotations, (&key, value));
                value.as_ref().is_none_or(fits) && annotations.set(object, key, value)
            }
            _ => false,
        }
    }

    /// Returns true if the object may have this annotation, too.
    fn has_room(
        &self,
        object: &ObjectName,
        annotations: &CallAnnotations,
        wanted: (&str, &str),
    ) -> bool {
        let Some(cluster) = self.cluster() else {
            return false;
        };

        let fits = |present: &Pairs| {
            let present = annotations.after(object, present.clone());
            has_room(&present, |key| self.owned.has_annotation(key), wanted)
        };

        let ObjectName {
            namespace, name, ..
        } = object;

        // Nothing is written to an object that does not exist.
        match object.kind {
            ObjectKind::Node => cluster.node(name).is_none_or(|it| fits(&it.annotations)),
            ObjectKind::Service => cluster
                .service(namespace, name)
                .is_none_or(|it| fits(&it.annotations)),
        }
    }

    /// Returns the object, where to read it, and for which Service, if the operator grants it.
    pub(crate) fn granted(&self, kind: &str, namespace: String, name: String) -> Option<Granted> {
        let object = ForeignObject {
            kind: ForeignKind::parse(kind)?,
            namespace,
            name,
        };

        let cluster = self.cluster()?;
        let service = self.subject.service.as_ref();

        // The outer option says whether it is granted, the inner one by which annotation.
        let granted = |grant: &ObjectGrant| match grant {
            ObjectGrant::Exact(granted) => (*granted == object).then_some(None),
            ObjectGrant::NamedBy { kind, annotation } => {
                let service = service.filter(|service| {
                    *kind == object.kind
                        && service.name.namespace == object.namespace
                        && service.annotations.get(annotation) == Some(&object.name)
                })?;
                Some(Some(NamedBy {
                    service: service.name.clone(),
                    annotation: annotation.clone(),
                }))
            }
        };

        let grants = self.owned.grants().into_iter();
        let mut granted: Vec<_> = grants.filter_map(granted).collect();
        // Without an annotation if possible: it could be the plugin's own.
        granted.sort_by_key(Option::is_some);
        let named_by = granted.into_iter().next()?;

        // Only `ensure` is called again when an object that it has read changes.
        let reader = service
            .filter(|service| service.ensured)
            .map(|service| service.name.clone());

        Some(Granted {
            cluster,
            object,
            named_by,
            reader,
        })
    }
}

/// An object that the plugin may read.
pub(crate) struct Granted {
    cluster: Arc<dyn Cluster>,
    object: ForeignObject,
    named_by: Option<NamedBy>,
    reader: Option<ObjectName>,
}

impl Granted {
    /// Reads it as JSON.
    pub(crate) async fn read(self) -> Result<String, ReadError> {
        let json = self
            .cluster
            .read(&self.object, self.named_by.as_ref(), self.reader.as_ref())
            .await?;

        if json.len() > MAX_OBJECT {
            return Err(ReadError::Unavailable(format!(
                "{} is larger than 1 MiB",
                self.object
            )));
        }

        Ok(json)
    }
}
