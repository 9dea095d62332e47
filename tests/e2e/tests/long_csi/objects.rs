//! The objects of the cluster, as JSON: `k8s-openapi` does not have all of their types.

use anyhow::{Context as _, Result};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use skydock_support::{Seen, eventually};

use crate::LIMIT;

pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";
pub(crate) const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub(crate) const ATTRIBUTES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
pub(crate) const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(crate) const SNAPSHOTS: &str =
    "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
pub(crate) const SNAPSHOT_CONTENTS: &str =
    "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
pub(crate) const SNAPSHOT_CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";

/// Returns an object: `rest` is everything but its kind and its name.
pub(crate) fn object(version: &str, kind: &str, name: &str, mut rest: Value) -> Value {
    rest["apiVersion"] = version.into();
    rest["kind"] = kind.into();
    rest["metadata"] = json!({"name": name});
    rest
}

/// The objects of a cluster.
#[derive(Clone)]
pub(crate) struct Objects(Client);

impl Objects {
    /// Uses this client, which needs all permissions.
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
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

        match self.0.request::<Value>(request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).context(what),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        self.send(Method::GET, path, &Value::Null).await
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.get(path).await?.with_context(|| path.to_owned())?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let created = self.send(Method::POST, path, object).await?;
        created.with_context(|| format!("{path} is not served"))?;
        Ok(())
    }

    /// Merges a patch into an object.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Result<()> {
        let patched = self.send(Method::PATCH, path, patch).await?;
        patched.with_context(|| format!("{path} does not exist"))?;
        Ok(())
    }

    /// Deletes an object, or all of a list.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.send(Method::DELETE, path, &Value::Null).await?;
        Ok(())
    }

    /// Waits until an object is as wanted, and returns it.
    pub(crate) async fn becomes(
        &self,
        path: &str,
        wanted: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let became = eventually(LIMIT, || async {
            Ok(match self.get(path).await? {
                Some(it) if is_wanted(&it) => Seen::Yes(it),
                Some(it) => Seen::NotYet(shown(it)),
                None => Seen::NotYet("it does not exist".to_owned()),
            })
        });
        became.await.with_context(|| format!("{path} is {wanted}"))
    }

    /// Waits until an object, or all of a list, is gone.
    pub(crate) async fn is_gone(&self, path: &str) -> Result<()> {
        let gone = eventually(LIMIT, || async {
            Ok(match self.get(path).await? {
                None => Seen::Yes(()),
                Some(it) => match it["items"].as_array() {
                    Some(items) => Seen::when(items.is_empty(), format!("{} left", items.len())),
                    None => Seen::NotYet(shown(it)),
                },
            })
        });
        gone.await.with_context(|| format!("{path} is gone"))
    }

    /// Waits until an event about the object with this name has this reason, and returns its message.
    pub(crate) async fn told(&self, name: &str, reason: &str) -> Result<String> {
        let path = format!("{EVENTS}?fieldSelector=involvedObject.name={name}");
        let told = eventually(LIMIT, || async {
            let all = self.list(&path).await?;
            let mut matching = all.iter().filter(|it| it["reason"] == reason);
            Ok(match matching.next() {
                Some(event) => Seen::Yes(event["message"].to_string()),
                None => Seen::NotYet(format!("{} events", all.len())),
            })
        });
        told.await
            .with_context(|| format!("event {reason} about {name}"))
    }

    /// Returns the warnings of controllers and sidecars, for an error message.
    pub(crate) async fn warnings(&self) -> String {
        let all = self.list(EVENTS).await.unwrap_or_default();
        let warnings = all.iter().filter(|it| it["type"] == "Warning");
        let lines = warnings.map(|it| {
            let name = &it["involvedObject"]["name"];
            format!("{name}: {} {}\n", it["reason"], it["message"])
        });
        lines.take(20).collect()
    }
}

/// Returns an object without what nobody reads.
fn shown(mut object: Value) -> String {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object.to_string()
}
