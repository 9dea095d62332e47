//! The objects of the cluster, as JSON: `k8s-openapi` does not have all of their types.

use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use skydock_support::{Seen, eventually};

/// PersistentVolumeClaims of the default namespace.
pub const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
/// PersistentVolumes.
pub const VOLUMES: &str = "/api/v1/persistentvolumes";
/// Pods of the default namespace.
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// Events of the default namespace.
pub const EVENTS: &str = "/api/v1/namespaces/default/events";
/// StorageClasses.
pub const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
/// VolumeAttributesClasses.
pub const ATTRIBUTES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
/// CSIDrivers.
pub const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
/// CSINodes.
pub const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
/// VolumeAttachments.
pub const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
/// VolumeSnapshots of the default namespace.
pub const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
/// VolumeSnapshotContents.
pub const SNAPSHOT_CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
/// VolumeSnapshotClasses.
pub const SNAPSHOT_CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";

/// Returns an object: `rest` is everything but its kind and its name.
#[must_use]
pub fn object(version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    if let (Some(fields), Value::Object(rest)) = (object.as_object_mut(), rest) {
        fields.extend(rest);
    }
    object
}

/// The objects of a cluster.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    /// How long a step may take.
    limit: Duration,
}

impl Objects {
    /// Uses this client, which needs all permissions. A step may take as long as `limit`.
    #[must_use]
    pub fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit }
    }

    /// Returns the answer, or `None` if there is no such object.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Option<Value>> {
        let what = format!("{method} {path}");
        let content = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let body = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body)?
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
            .body(body)?;

        match Box::pin(self.client.request::<Value>(request)).await {
            Ok(answer) => Ok(Some(answer)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).context(what),
        }
    }

    /// Returns an object or a list, or `None` if there is no such object.
    ///
    /// # Errors
    /// Fails if the API server rejects the request.
    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// Returns the objects of a list.
    ///
    /// # Errors
    /// Fails if the API server rejects the request.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.get(path).await?.with_context(|| path.to_owned())?;
        let items = list.get("items").and_then(Value::as_array);
        Ok(items.cloned().unwrap_or_default())
    }

    /// Creates an object in a list.
    ///
    /// # Errors
    /// Fails if the API server rejects the request.
    pub async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let created = self.send(Method::POST, path, object).await?;
        created.with_context(|| format!("{path} is not served"))?;
        Ok(())
    }

    /// Merges a patch into an object.
    ///
    /// # Errors
    /// Fails if the API server rejects the request, or if the object does not exist.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<()> {
        let patched = self.send(Method::PATCH, path, patch).await?;
        patched.with_context(|| format!("{path} does not exist"))?;
        Ok(())
    }

    /// Deletes an object, or all of a list.
    ///
    /// # Errors
    /// Fails if the API server rejects the request.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.send(Method::DELETE, path, &Value::Null).await?;
        Ok(())
    }

    /// Waits until an object is as wanted, and returns it.
    ///
    /// # Errors
    /// Fails with the object if it is not in time.
    pub async fn becomes(
        &self,
        path: &str,
        wanted: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let became = eventually(self.limit, || async {
            Ok(match self.get(path).await? {
                Some(it) if is_wanted(&it) => Seen::Yes(it),
                Some(it) => Seen::NotYet(shown(it)),
                None => Seen::NotYet("it does not exist".to_owned()),
            })
        });
        became.await.with_context(|| format!("{path} is {wanted}"))
    }

    /// Waits until an object, or all of a list, is gone.
    ///
    /// # Errors
    /// Fails with what is left after the limit.
    pub async fn is_gone(&self, path: &str) -> Result<()> {
        let gone = eventually(self.limit, || async {
            Ok(match self.get(path).await? {
                None => Seen::Yes(()),
                Some(it) => match it.get("items").and_then(Value::as_array) {
                    Some(items) => Seen::when(items.is_empty(), format!("{} left", items.len())),
                    None => Seen::NotYet(shown(it)),
                },
            })
        });
        gone.await.with_context(|| format!("{path} is gone"))
    }

    /// Waits until an event about the object with this name has this reason, and returns its message.
    ///
    /// # Errors
    /// Fails if there is none in time.
    pub async fn told(&self, name: &str, reason: &str) -> Result<String> {
        let path = format!("{EVENTS}?fieldSelector=involvedObject.name={name}");
        let told = eventually(self.limit, || async {
            let all = self.list(&path).await?;
            let mut matching = all.iter().filter(|it| text(it, "/reason") == reason);
            Ok(match matching.next() {
                Some(event) => Seen::Yes(text(event, "/message").to_owned()),
                None => Seen::NotYet(format!("{} events", all.len())),
            })
        });
        told.await
            .with_context(|| format!("event {reason} about {name}"))
    }

    /// Returns the warnings of controllers and sidecars, for an error message.
    pub async fn warnings(&self) -> String {
        let all = self.list(EVENTS).await.unwrap_or_default();
        let warnings = all.iter().filter(|it| text(it, "/type") == "Warning");
        let lines = warnings.map(|it| {
            let [name, reason, message] =
                ["/involvedObject/name", "/reason", "/message"].map(|field| text(it, field));
            format!("{name}: {reason} {message}\n")
        });
        lines.take(20).collect()
    }
}

/// Returns the text that a JSON pointer points to.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns an object without what nobody reads.
fn shown(mut object: Value) -> String {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object.to_string()
}
