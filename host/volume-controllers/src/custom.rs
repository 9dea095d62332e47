//! Objects of kinds for which there is no type: those of custom resources, and of newer versions.

use http::{Request, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::Deserialize as _;
use serde_json::Value;
use skydock_cloud::Pairs;
use skydock_kube::api::{Action, ApiError};

/// Maximum number of objects in an answer.
const PAGE: usize = 500;

/// Requests only the metadata of a list.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A kind of objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    /// Group and version, as in a path.
    api: &'static str,
    plural: &'static str,
}

/// VolumeSnapshots.
pub(crate) const SNAPSHOTS: Resource = Resource {
    api: "snapshot.storage.k8s.io/v1",
    plural: "volumesnapshots",
};

/// VolumeSnapshotContents.
pub(crate) const CONTENTS: Resource = Resource {
    api: "snapshot.storage.k8s.io/v1",
    plural: "volumesnapshotcontents",
};

/// VolumeSnapshotClasses.
pub(crate) const SNAPSHOT_CLASSES: Resource = Resource {
    api: "snapshot.storage.k8s.io/v1",
    plural: "volumesnapshotclasses",
};

/// VolumeAttributesClasses.
pub(crate) const ATTRIBUTES_CLASSES: Resource = Resource {
    api: "storage.k8s.io/v1",
    plural: "volumeattributesclasses",
};

impl Resource {
    fn action(self, verb: &'static str) -> Action {
        Action {
            verb,
            resource: self.plural.to_owned(),
        }
    }

    /// Returns the path of an object. Its name is from a field that users write: as a name of another form,
    /// it could be the path of something else.
    fn path(self, namespace: Option<&str>, name: &str) -> Option<String> {
        let Self { api, plural } = self;
        if !is_name(name) || !namespace.is_none_or(is_name) {
            return None;
        }
        Some(match namespace {
            Some(namespace) => format!("/apis/{api}/namespaces/{namespace}/{plural}/{name}"),
            None => format!("/apis/{api}/{plural}/{name}"),
        })
    }

    /// Returns an object.
    pub(crate) async fn get(
        self,
        client: &Client,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, ApiError> {
        let action = self.action("get");
        let Some(path) = self.path(namespace, name) else {
            let message = format!("{name:?} is not a valid name");
            return Err(ApiError::Rejected(action, message));
        };
        send(client, action, Request::get(path).body(Vec::new())).await
    }

    /// Returns the metadata of all objects.
    pub(crate) async fn list(self, client: &Client) -> Result<Vec<ObjectMeta>, ApiError> {
        let Self { api, plural } = self;
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let request = Request::get(format!("/apis/{api}/{plural}?limit={PAGE}{token}"))
                .header(header::ACCEPT, METADATA)
                .body(Vec::new());
            let page = send(client, self.action("list"), request).await?;
            let items = field(&page, "/items").as_array().into_iter().flatten();
            let metadata = items.map(|it| ObjectMeta::deserialize(field(it, "/metadata")));
            all.extend(metadata.filter_map(Result::ok));

            match field(&page, "/metadata/continue").as_str() {
                Some(next) if !next.is_empty() => token = format!("&continue={next}"),
                _ => return Ok(all),
            }
        }
    }

    /// Writes a merge patch to an object.
    pub(crate) async fn patch(
        self,
        client: &Client,
        namespace: Option<&str>,
        name: &str,
        body: &Value,
    ) -> Result<(), ApiError> {
        let action = self.action("patch");
        let Some(path) = self.path(namespace, name) else {
            return Err(ApiError::Gone(action));
        };
        let request = Request::patch(path)
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(body.to_string().into_bytes());
        send(client, action, request).await.map(drop)
    }
}

async fn send(
    client: &Client,
    action: Action,
    request: http::Result<Request<Vec<u8>>>,
) -> Result<Value, ApiError> {
    let request = match request {
        Ok(request) => request,
        Err(error) => return Err(ApiError::Failed(action, error.to_string())),
    };
    let answer = Box::pin(client.request::<Value>(request)).await;
    answer.map_err(|error| ApiError::new(action, error))
}

/// Returns the parameters of a VolumeAttributesClass; `None` if it is for another driver.
pub(crate) fn attributes(class: &Value, driver: &str) -> Option<Pairs> {
    if field(class, "/driverName").as_str() != Some(driver) {
        return None;
    }
    let parameters = field(class, "/parameters").as_object();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pairs = parameters.into_iter().flatten();
    Some(
        pairs
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
    )
}

/// Returns what a JSON pointer points to, or `null`.
pub(crate) fn field<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    static NULL: Value = Value::Null;
    object.pointer(pointer).unwrap_or(&NULL)
}

/// Returns true for the name of an object, which is one in DNS.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain =
        |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-' || it == '.';
    let starts = name.starts_with(|it: char| it.is_ascii_lowercase() || it.is_ascii_digit());
    starts && name.len() <= 253 && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        let path = |namespace, name| SNAPSHOTS.path(namespace, name);
        let expected = "/apis/snapshot.storage.k8s.io/v1/namespaces/ns/volumesnapshots/a.b-1";
        assert_eq!(path(Some("ns"), "a.b-1").as_deref(), Some(expected));
        for name in [
            "",
            "..",
            "a/../b",
            "a?b",
            "A",
            "a b",
            "a%2fb",
            &"a".repeat(254),
        ] {
            assert_eq!(path(Some("ns"), name), None, "{name}");
            assert_eq!(path(Some(name), "a"), None, "{name}");
        }
        let class = ATTRIBUTES_CLASSES.path(None, "gold");
        let expected = "/apis/storage.k8s.io/v1/volumeattributesclasses/gold";
        assert_eq!(class.as_deref(), Some(expected));
    }
}
