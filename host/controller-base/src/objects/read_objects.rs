//! Reads objects other than Nodes and Services for a provider, as far as the operator grants it.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use http::{Request, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::Value;
use skydock_cloud::{ForeignKind, ForeignObject, NamedBy, ObjectName, ReadError};
use skydock_kube::{
    api::{Action, ApiError},
    clients::MANAGER,
};
use tokio::time::sleep;

/// Period of checking whether objects that load balancers depend on have changed.
const PERIOD: Duration = Duration::from_secs(180);

/// Requests only the metadata: the values of a Secret are not needed to see whether it has changed.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Requests only the metadata of a list.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Maximum number of objects that are checked for one Service: a plugin may read ever new ones.
const MOST: usize = 32;

type Handler = Box<dyn Fn(String) + Send>;

/// The objects that a provider reads, and the Services that it reads them for.
pub struct ReadObjects {
    client: Client,
    remembered: Mutex<Remembered>,
    handlers: Mutex<Vec<Handler>>,
}

/// What is remembered of what was read.
#[derive(Default)]
struct Remembered {
    objects: HashMap<ForeignObject, Seen>,
    /// The objects that were read for each Service, by its key; the last one last.
    readers: HashMap<String, Vec<ForeignObject>>,
}

impl Remembered {
    /// Records that an object in this version was read for a Service.
    fn record(&mut self, object: &ForeignObject, version: Option<String>, reader: &str) {
        let seen = self.objects.entry(object.clone()).or_default();
        seen.version = version;
        seen.readers.insert(reader.to_owned());

        let read = self.readers.entry(reader.to_owned()).or_default();
        read.retain(|other| other != object);
        read.push(object.clone());

        if read.len() > MOST {
            let oldest = read.remove(0);
            self.forget(&oldest, reader);
        }
    }

    fn forget(&mut self, object: &ForeignObject, reader: &str) {
        let Some(seen) = self.objects.get_mut(object) else {
            return;
        };
        seen.readers.remove(reader);
        if seen.readers.is_empty() {
            self.objects.remove(object);
        }
    }

    /// Forgets the Services that no longer exist.
    fn retain(&mut self, lives: impl Fn(&str) -> bool) {
        self.readers.retain(|reader, _| lives(reader));
        let readers = &self.readers;
        self.objects.retain(|_, seen| {
            seen.readers.retain(|reader| readers.contains_key(reader));
            !seen.readers.is_empty()
        });
    }
}

/// An object that was read.
#[derive(Default)]
struct Seen {
    /// `metadata.resourceVersion`; `None` if the object did not exist.
    version: Option<String>,
    /// Keys of the Services whose load balancer depends on the object.
    readers: BTreeSet<String>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: Option<String>,
}

impl ReadObjects {
    /// Creates it with the client that reads the objects.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            remembered: Mutex::default(),
            handlers: Mutex::default(),
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock()
    }

    /// Adds a handler. It is called with the key of each Service that depends on a changed object.
    pub fn subscribe(&self, handler: impl Fn(String) + Send + 'static) {
        self.handlers.lock().push(Box::new(handler));
    }

    /// Returns true if an object was read for the Service with this key.
    pub fn has_reader(&self, key: &str) -> bool {
        self.remembered().readers.contains_key(key)
    }

    /// Checks that an annotation names the object, and that someone else wrote it: a provider that
    /// can have annotations written must not grant itself objects. The API server keeps who has
    /// written what, also across restarts.
    ///
    /// # Errors
    /// [`ReadError::NotGranted`] if not, [`ReadError::Unavailable`] if the API server does not say.
    pub async fn must_be_granted(
        &self,
        object: &ForeignObject,
        named_by: &NamedBy,
    ) -> Result<(), ReadError> {
        let NamedBy {
            service,
            annotation,
        } = named_by;

        let action = Action {
            verb: "list",
            resource: "services".to_owned(),
        };
        // Skydock may list Services, but not get a single one.
        let path = format!(
            "/api/v1/namespaces/{}/services?fieldSelector=metadata.name%3D{}",
            service.namespace, service.name
        );

        let listed = self.request(path, METADATA_LIST, action).await;
        let listed = listed.map_err(|error| ReadError::Unavailable(error.to_string()))?;
        let found: List = serde_json::from_value(listed)
            .map_err(|error| ReadError::Unavailable(error.to_string()))?;

        let mut metadata = found.items.into_iter().map(|item| item.metadata);
        // The Service may have been recreated with the same name.
        let metadata = metadata
            .find(|metadata| metadata.uid.as_ref() == Some(&service.uid))
            .ok_or(ReadError::NotThere)?;

        let value = metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(annotation));
        if value != Some(&object.name) {
            return Err(ReadError::NotGranted);
        }

        if !is_by_others(&metadata, annotation) {
            tracing::warn!(%service, annotation, object = %object, "the annotation does not grant the object, because it was written for the plugin, or the API server does not note who wrote it (metadata.managedFields): if the object is meant, remove the annotation and set it again");
            return Err(ReadError::NotGranted);
        }

        Ok(())
    }

    /// Reads an object as JSON. If a reader is given, the object is watched for changes on its
    /// behalf.
    pub async fn read(
        &self,
        object: &ForeignObject,
        reader: Option<&ObjectName>,
    ) -> Result<String, ReadError> {
        let answer = self.get(object, "application/json").await;
        let answer = answer.map_err(|error| ReadError::Unavailable(error.to_string()))?;
        let version = answer.as_ref().and_then(|object| {
            Some(
                object
                    .pointer("/metadata/resourceVersion")?
                    .as_str()?
                    .to_owned(),
            )
        });

        // Also if the object does not exist: that it is created later is a change.
        if let Some(reader) = reader {
            self.remembered()
                .record(object, version, &reader.to_string());
        }

        let mut answer = answer.ok_or(ReadError::NotThere)?;
        if let Some(metadata) = answer
            .pointer_mut("/metadata")
            .and_then(Value::as_object_mut)
        {
            metadata.remove("managedFields");
        }

        Ok(answer.to_string())
    }

    /// Checks periodically whether objects that were read have changed. `lives` returns whether a
    /// Service still exists. Never returns.
    pub async fn follow(&self, lives: impl Fn(&str) -> bool + Send + Sync) {
        loop {
            sleep(PERIOD).await;
            self.remembered().retain(&lives);
            let objects: Vec<ForeignObject> = self.remembered().objects.keys().cloned().collect();

            for object in objects {
                match self.get(&object, METADATA).await {
                    Ok(answer) => {
                        let found = answer
                            .and_then(|answer| serde_json::from_value::<Versioned>(answer).ok());
                        self.compare(
                            &object,
                            found.and_then(|found| found.metadata.resource_version),
                        );
                    }
                    Err(error) => {
                        tracing::warn!(object = %object, "cannot check whether the object has changed: {error}");
                    }
                }
            }
        }
    }

    /// Calls the handlers for all readers of the object if its version has changed.
    fn compare(&self, object: &ForeignObject, version: Option<String>) {
        let readers = match self.remembered().objects.get_mut(object) {
            Some(seen) if seen.version != version => {
                seen.version = version;
                seen.readers.clone()
            }
            _ => return,
        };

        tracing::info!(object = %object, services = readers.len(), "object has changed; updating the load balancers that use it");
        let handlers = self.handlers.lock();
        readers
            .iter()
            .for_each(|reader| handlers.iter().for_each(|handler| handler(reader.clone())));
    }

    /// Returns the object; `None` if it does not exist.
    async fn get(&self, object: &ForeignObject, accept: &str) -> Result<Option<Value>, ApiError> {
        let ForeignObject {
            kind,
            namespace,
            name,
        } = object;
        let (resource, path) = match kind {
            ForeignKind::Secret => (
                "secrets",
                format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
            ),
            ForeignKind::ConfigMap => (
                "configmaps",
                format!("/api/v1/namespaces/{namespace}/configmaps/{name}"),
            ),
            ForeignKind::Namespace => ("namespaces", format!("/api/v1/namespaces/{name}")),
        };

        let action = Action {
            verb: "get",
            resource: resource.to_owned(),
        };

        // Names come from a plugin and must not lead to any other path.
        let named = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        };
        if !named(name)
            || name.starts_with('.')
            || (*kind != ForeignKind::Namespace && !named(namespace))
        {
            return Ok(None);
        }

        match self.request(path, accept, action).await {
            Ok(object) => Ok(Some(object)),
            Err(ApiError::Gone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn request(&self, path: String, accept: &str, action: Action) -> Result<Value, ApiError> {
        let request = Request::get(path)
            .header(header::ACCEPT, accept)
            .body(Vec::new());
        let request =
            request.map_err(|error| ApiError::Failed(action.clone(), error.to_string()))?;
        self.client
            .request::<Value>(request)
            .await
            .map_err(|error| ApiError::new(action, error))
    }
}

/// Managers under which the API server puts together who wrote a field: the oldest of many, and
/// those from before the first apply.
const TOGETHER: [&str; 2] = ["ancient-changes", "before-first-apply"];

/// Returns true if it is known that someone other than Skydock wrote the current value of an
/// annotation. Whoever writes the same value after it is noted in `managedFields`, too.
fn is_by_others(metadata: &ObjectMeta, annotation: &str) -> bool {
    let field = format!("f:{annotation}");
    let has_written = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        fields
            .and_then(|fields| {
                fields
                    .0
                    .get("f:metadata")?
                    .get("f:annotations")?
                    .get(&field)
            })
            .is_some()
    };

    let entries = metadata.managed_fields.iter().flatten();
    let mut writers = entries
        .filter(has_written)
        .filter_map(|entry| entry.manager.as_deref());
    writers.any(|manager| ![MANAGER, ""].contains(&manager) && !TOGETHER.contains(&manager))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_annotation_is_by_others_if_someone_else_is_known_to_have_written_its_value() {
        let by = |manager: &str, key: &str| json!({"manager": manager, "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, format!("f:{key}"): {}}}}});
        let other = json!({"manager": "skydock", "fieldsV1": {"f:status": {}}});
        for (managed, expected) in [
            (json!([by("skydock", "a.example/x")]), false),
            (json!([other, by("skydock", "a.example/x")]), false),
            (json!([by("kubectl-edit", "a.example/x")]), true),
            (
                json!([by("skydock", "a.example/x"), by("kubectl", "a.example/x")]),
                true,
            ),
            (
                json!([by("skydock", "a.example/y"), by("kubectl", "a.example/x")]),
                true,
            ),
            (json!([by("ancient-changes", "a.example/x")]), false),
            (json!([by("before-first-apply", "a.example/x")]), false),
            (json!([by("", "a.example/x")]), false),
            (json!([other]), false),
            (json!([]), false),
            (Value::Null, false),
        ] {
            let metadata = json!({"managedFields": managed});
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            assert_eq!(
                is_by_others(&metadata, "a.example/x"),
                expected,
                "{managed}"
            );
        }
    }

    fn secret(name: &str) -> ForeignObject {
        ForeignObject {
            kind: ForeignKind::Secret,
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    // Holds: SEC-62
    #[test]
    fn only_the_last_objects_of_a_service_are_checked() {
        let mut read = Remembered::default();
        read.record(&secret("0"), None, "ns/other");
        for number in 0..10 * MOST {
            read.record(&secret(&number.to_string()), None, "ns/web");
            read.record(&secret("always"), None, "ns/web");
        }
        assert_eq!(read.objects.len(), MOST + 1);
        let readers = |name: &str| read.objects.get(&secret(name)).map(|it| it.readers.len());
        let last = (10 * MOST - 1).to_string();
        let expected = (Some(1), None, Some(1), Some(1));
        assert_eq!(
            (
                readers("0"),
                readers("1"),
                readers("always"),
                readers(&last)
            ),
            expected
        );

        read.retain(|reader| reader == "ns/other");
        assert_eq!(read.objects.keys().collect::<Vec<_>>(), [&secret("0")]);
        assert_eq!(read.readers.len(), 1);
    }
}
