//! Answers in JSON.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{Error, core::WatchEvent};
use serde::Deserialize;

use super::{Event, Page};
use crate::informer::{Entry, Kind};

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: ListMeta,
    /// The API server may write an empty list as `null`.
    items: Option<Vec<T>>,
}

/// Decodes a page of a list.
pub(super) fn page<K: Kind>(body: &[u8]) -> Result<Page<K>, serde_json::Error> {
    let List::<K::Read> { metadata, items } = serde_json::from_slice(body)?;
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());

    Ok(Page {
        entries: items
            .unwrap_or_default()
            .into_iter()
            .map(|object| Entry::new(object.into()))
            .collect(),
        next: filled(metadata.continue_),
        version: filled(metadata.resource_version),
    })
}

/// Decodes a line of a watch. Returns `None` for an incomplete line, with which an interrupted answer
/// ends.
pub(super) fn event<K: Kind>(line: &str) -> Result<Option<Event<K>>, Error> {
    let event = match serde_json::from_str::<WatchEvent<K::Read>>(line) {
        Ok(event) => event,
        Err(error) if error.is_eof() => return Ok(None),
        Err(error) => {
            // A status may stand in place of an event.
            let status = serde_json::from_str(line)
                .ok()
                .map(|status| Error::Api(Box::new(status)));
            return Err(status.unwrap_or(Error::SerdeError(error)));
        }
    };

    Ok(Some(match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            Event::Applied(Entry::new(object.into()))
        }
        WatchEvent::Deleted(object) => Event::Deleted(Entry::new(object.into())),
        WatchEvent::Bookmark(bookmark) => Event::Bookmark(bookmark.metadata.resource_version),
        WatchEvent::Error(status) => return Err(Error::Api(status)),
    }))
}
