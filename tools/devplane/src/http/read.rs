//! Handles get, list and watch requests.

use std::{collections::VecDeque, sync::Arc};

use axum::{body::Body, response::Response};
use http::StatusCode;
use serde_json::{Value, json};

use super::{JSON, Line, accept, query::Query, raw};
use crate::{
    formats::render::{ListMeta, Rendering},
    resources::{
        object::{self, Object},
        resource::{Resource, Storage},
        selector::{Selector, SelectorError},
    },
    status::{Reason, StatusError},
    storage::{
        plane::Plane,
        store::Store,
        watch::{Start, Watch, WatchRequest},
        write::{self, Target},
    },
};

pub(super) fn get(
    plane: &Plane,
    target: &Target,
    accept: &str,
    query: &Query,
) -> Result<Response, StatusError> {
    let rendering = Rendering {
        resource: target.resource,
        form: accept::form(accept, query.include())?,
        clock: plane.clock().clone(),
    };
    let wanted = version(target.resource, query)?;
    let object = plane.read(|store| {
        not_to_come(wanted, store.revision())?;
        write::current(store, target)
    })?;

    Ok(raw(StatusCode::OK, JSON, rendering.object(&object)?))
}

/// Returns the namespace, if there is one, and the selectors of a list, a watch or a deletion of a
/// collection.
pub(super) fn selection(
    target: &Target,
    query: &Query,
) -> Result<(Option<String>, Selector), StatusError> {
    query.numbers(&["limit", "timeoutSeconds"])?;
    let selector = Selector::parse(&query.labels, &query.fields, target.resource);

    // Unsupported fields in a selector are reported last.
    if !matches!(
        selector,
        Err(SelectorError::Labels { .. } | SelectorError::Fields(_))
    ) {
        query.list_options()?;
    }

    let mut selector = selector.map_err(|error| StatusError::bad_request(error.to_string()))?;
    // Watching one object means watching all objects with its name.
    if !target.name.is_empty() && !selector.narrow_to(&target.name) {
        return Err(StatusError::bad_request(
            "fieldSelector metadata.name doesn't match requested name",
        ));
    }

    Ok((
        (!target.namespace.is_empty()).then(|| target.namespace.clone()),
        selector,
    ))
}

pub(super) fn list_or_watch(
    plane: &Arc<Plane>,
    target: &Target,
    accept: &str,
    query: &Query,
) -> Result<Response, StatusError> {
    let resource = target.resource;
    let rendering = Rendering {
        resource,
        form: accept::form(accept, query.include())?,
        clock: plane.clock().clone(),
    };

    let (namespace, selector) = selection(target, query)?;

    if query.watch {
        // For a watch, an API server returns another error than for a list.
        revision(&query.resource_version).map_err(|error| unforeseen(&error))?;
        let start = plane.read(|store| start(query, store.revision()))?;
        let request = WatchRequest {
            namespace,
            selector,
            rendering,
            start,
            bookmarks: query.bookmarks,
            timeout: query.timeout(),
        };

        let watch = Watch::start(Arc::clone(plane), request);
        let lines = futures::stream::unfold(watch, async |mut watch| {
            let line: Line = Ok(watch.next().await?);
            Some((line, watch))
        });
        return Ok(raw(StatusCode::OK, JSON, Body::from_stream(lines)));
    }

    let (objects, meta) = plane.read(|store| {
        page(
            store,
            resource,
            namespace.as_deref(),
            &selector,
            query,
            false,
        )
    })?;

    Ok(raw(StatusCode::OK, JSON, rendering.list(&objects, &meta)?))
}

/// Returns where a watch starts.
fn start(query: &Query, current: u64) -> Result<Start, StatusError> {
    if query.initial_events == Some(true) {
        return Ok(if query.bookmarks {
            Start::Initial
        } else {
            Start::Everything
        });
    }
    match revision(&query.resource_version)? {
        // Clients that allow bookmarks get one after the initial objects.
        0 if query.bookmarks => Ok(Start::Initial),
        0 => Ok(Start::Everything),
        // A revision from before the state was lost is treated as expired, so that the client lists
        // again.
        after if after > current => Err(StatusError::expired(after, current)),
        after => Ok(Start::After(after)),
    }
}

/// Rejects a revision in the future instead of waiting for it.
fn not_to_come(wanted: u64, current: u64) -> Result<(), StatusError> {
    if wanted > current {
        Err(StatusError::too_large(wanted, current))
    } else {
        Ok(())
    }
}

/// Returns one page of a list, or the complete list.
pub(super) fn page(
    store: &Store,
    resource: &'static Resource,
    namespace: Option<&str>,
    selector: &Selector,
    query: &Query,
    paged: bool,
) -> Result<(Vec<Arc<Object>>, ListMeta), StatusError> {
    let start = page_start(query, store.revision(), paged)?;
    let mut rest = objects_after(store, resource.storage, namespace, &start)?;

    let mut objects = Vec::new();
    while query.limit == 0 || objects.len() < query.limit {
        let Some(object) = rest.pop_front() else {
            break;
        };
        if selector.matches(&object.value) {
            objects.push(object);
        }
    }

    let mut meta = ListMeta {
        revision: start.revision,
        ..ListMeta::default()
    };
    // The next page shows whether the selector matches any of the remaining objects.
    if !rest.is_empty()
        && let Some(last) = objects.last()
    {
        meta.next = token(start.revision, &last.value);
        // With a selector, an API server does not know how many objects are left.
        meta.remaining = (*selector == Selector::default()).then_some(rest.len());
    }

    Ok((objects, meta))
}

/// Where a page starts.
struct PageStart {
    revision: u64,
    /// Namespace and name of the last object of the previous page.
    after: Option<(String, String)>,
}

fn page_start(query: &Query, current: u64, paged: bool) -> Result<PageStart, StatusError> {
    if !query.next.is_empty() {
        let (revision, after) = read_token(&query.next)?;
        return Ok(PageStart {
            revision,
            after: Some(after),
        });
    }

    let wanted = revision(&query.resource_version)?;
    not_to_come(wanted, current)?;
    // A page at a revision contains exactly that revision, unless the query says otherwise.
    let exact = query.version_match == "Exact"
        || query.version_match.is_empty() && (query.limit > 0 || paged);
    Ok(PageStart {
        revision: if exact && wanted > 0 { wanted } else { current },
        after: None,
    })
}

/// Returns all objects that a page and those after it may contain.
fn objects_after(
    store: &Store,
    storage: Storage,
    namespace: Option<&str>,
    start: &PageStart,
) -> Result<VecDeque<Arc<Object>>, StatusError> {
    let in_range = |object: &Arc<Object>| {
        let key = (
            object::namespace(&object.value),
            object::name(&object.value),
        );
        namespace.is_none_or(|namespace| namespace == key.0)
            && start
                .after
                .as_ref()
                .is_none_or(|(of, name)| key > (of.as_str(), name.as_str()))
    };

    if start.revision == store.revision() {
        let objects = store.objects(storage, namespace);
        return Ok(objects.filter(|object| in_range(object)).cloned().collect());
    }

    let past = store.objects_at(storage, start.revision).map_err(|_| {
        let message = "The provided continue parameter is too old to display a consistent list result. \
                       You must start a new list without the continue parameter.";
        StatusError::new(Reason::Expired, message)
    })?;
    Ok(past.into_values().filter(in_range).collect())
}

/// Returns the requested revision. For an invalid one, an API server returns another error for
/// resources that it caches.
fn version(resource: &Resource, query: &Query) -> Result<u64, StatusError> {
    revision(&query.resource_version).map_err(|error| match resource.storage {
        Storage::Events => error,
        _ => unforeseen(&error),
    })
}

fn unforeseen(error: &StatusError) -> StatusError {
    StatusError::new(
        Reason::Unknown,
        format!("resourceVersion: Invalid value: {error}"),
    )
}

fn revision(text: &str) -> Result<u64, StatusError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        StatusError::bad_request(format!(
            "invalid resource version {text:?}: expected a whole number"
        ))
    })
}

/// Returns the token of the next page: after this object, at this revision.
fn token(at: u64, last: &Value) -> String {
    let text = json!({"v": 1, "at": at, "after": [object::namespace(last), object::name(last)]})
        .to_string();
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn read_token(token: &str) -> Result<(u64, (String, String)), StatusError> {
    let byte = |index| {
        token
            .get(index..index + 2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };

    let text: Option<Vec<u8>> = (0..token.len()).step_by(2).map(byte).collect();
    let value: Option<Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
    let read = value.and_then(|value| {
        let after = |index| Some(value.get("after")?.get(index)?.as_str()?.to_owned());
        Some((value.get("at")?.as_u64()?, (after(0)?, after(1)?)))
    });

    read.ok_or_else(|| {
        StatusError::bad_request("the continue parameter is not one that this server gave out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_survives_a_round_trip() {
        let last = json!({"metadata": {"namespace": "a", "name": "b"}});
        assert_eq!(
            read_token(&token(7, &last)).unwrap(),
            (7, ("a".into(), "b".into()))
        );
        for bad in ["x", "7b7d", "ü", "123"] {
            assert!(read_token(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_watch_starts_at_the_requested_version() {
        let query = |version: &str| Query {
            resource_version: version.into(),
            ..Query::default()
        };
        assert_eq!(start(&query(""), 9).unwrap(), Start::Everything);
        assert_eq!(start(&query("0"), 9).unwrap(), Start::Everything);
        assert_eq!(start(&query("5"), 9).unwrap(), Start::After(5));
        assert_eq!(
            start(&query("10"), 9).unwrap_err().reason(),
            Reason::Expired
        );
        assert_eq!(
            start(&query("x"), 9).unwrap_err().reason(),
            Reason::BadRequest
        );
        assert_eq!(
            start(
                &Query {
                    initial_events: Some(true),
                    bookmarks: true,
                    ..query("")
                },
                9
            )
            .unwrap(),
            Start::Initial
        );
    }
}
