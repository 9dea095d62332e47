//! `skydock:provider/objects`: objects that a plugin may read, and annotations that it may write.

use std::sync::Arc;

use skydock_cloud::{Cluster, ForeignKind, ForeignObject, ObjectName, ReadError};
use wasmtime::{StoreContextMut, component::Linker};

use super::State;
use crate::{
    answers::{MAX_ANNOTATION, is_qualified},
    bindings::skydock::provider::objects::Refusal,
    grants::ObjectGrant,
};

/// Name of the interface in the contract.
const INTERFACE: &str = "skydock:provider/objects@0.1.0";

/// Maximum bytes of an object as JSON, as in the contract: the limit of the API server.
const MAX_OBJECT: usize = 1 << 20;

impl State {
    fn annotate(&self, name: &str, key: String, value: Option<String>) -> bool {
        let allowed = self.owned.annotations.iter().any(|prefix| key.len() > prefix.len() && key.starts_with(prefix));
        let fits = value.as_ref().is_none_or(|value| value.len() <= MAX_ANNOTATION);
        let notes = self.subject.notes.as_ref().and_then(|notes| self.while_serving(notes));
        match (notes, self.named(name)) {
            (Some(notes), Some(object)) if allowed && fits && is_qualified(&key) => notes.take(object, key, value),
            _ => false,
        }
    }

    /// Returns the object, where to read it, and for which Service, if the operator grants it.
    fn granted(&self, kind: &str, namespace: String, name: String) -> Option<Granted> {
        let object = ForeignObject { kind: ForeignKind::parse(kind)?, namespace, name };
        let service = self.subject.service.as_ref();
        let granted = |grant: &ObjectGrant| match grant {
            ObjectGrant::Exact(granted) => *granted == object,
            ObjectGrant::NamedBy { kind, annotation } => service.is_some_and(|service| {
                *kind == object.kind
                    && service.name.namespace == object.namespace
                    && service.annotations.get(annotation) == Some(&object.name)
            }),
        };
        let cluster = self.cluster()?;
        let reader = service.filter(|service| service.ensured).map(|service| service.name.clone());
        self.shared.grants.objects.iter().any(granted).then_some(Granted { cluster, object, reader })
    }
}

struct Granted {
    cluster: Arc<dyn Cluster>,
    object: ForeignObject,
    reader: Option<ObjectName>,
}

impl Granted {
    async fn read(self) -> Result<String, Refusal> {
        match self.cluster.read(&self.object, self.reader.as_ref()).await {
            Ok(json) if json.len() > MAX_OBJECT => {
                Err(Refusal::Unavailable(format!("{} is larger than 1 MiB", self.object)))
            }
            Ok(json) => Ok(json),
            Err(ReadError::NotThere) => Err(Refusal::NotThere),
            Err(ReadError::Unavailable(why)) => Err(Refusal::Unavailable(why)),
        }
    }
}

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    let mut interface = linker.instance(INTERFACE)?;
    interface.func_wrap_async("read", |call: Call<'_>, (kind, namespace, name): (String, String, String)| {
        let granted = call.data().granted(&kind, namespace, name);
        Box::new(async move {
            let answer = match granted {
                Some(granted) => granted.read().await,
                None => Err(Refusal::NotGranted),
            };
            Ok((answer,))
        })
    })?;
    interface.func_wrap("annotate", |call: Call<'_>, (name, key, value): (String, String, Option<String>)| {
        Ok((call.data().annotate(&name, key, value),))
    })
}
