//! Handles create, update, patch and delete requests.

use axum::{extract::Request, response::Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::{JSON, accept, body, header_text, query::Query, raw};
use crate::{
    formats::render::Rendering,
    resources::{
        object::{self, as_map, text},
        schema::{self, meta::DELETE_OPTIONS},
    },
    status::StatusError,
    storage::{
        plane::Plane,
        write::{
            self, Options, Target, Written,
            delete::{DeleteOptions, Deleted},
        },
    },
};

pub(super) async fn create(
    plane: &Plane,
    target: Target,
    query: &Query,
    request: Request,
) -> Result<Response, StatusError> {
    let rendering = rendering(plane, &target, query, &request)?;
    let options = options(query, &request, "CreateOptions")?;
    let body = body::object(request, target.resource.schema).await?;
    let written = plane.write(|store, now| write::create(store, &target, body, &options, now))?;
    answer(&rendering, &written)
}

pub(super) async fn update(
    plane: &Plane,
    target: Target,
    query: &Query,
    request: Request,
) -> Result<Response, StatusError> {
    let rendering = rendering(plane, &target, query, &request)?;
    let options = options(query, &request, "UpdateOptions")?;
    let body = body::object(request, target.resource.schema).await?;
    let written = plane.write(|store, now| write::update(store, &target, body, &options, now))?;
    answer(&rendering, &written)
}

pub(super) async fn patch(
    plane: &Plane,
    target: Target,
    query: &Query,
    request: Request,
) -> Result<Response, StatusError> {
    let rendering = rendering(plane, &target, query, &request)?;
    let options = options(query, &request, "PatchOptions")?;

    let patch = body::patch(request).await?;
    let written = plane.write(|store, _| {
        // A missing object is reported before an invalid patch.
        write::current(store, &target)?;
        write::patch(store, &target, &patch?, &options)
    })?;
    answer(&rendering, &written)
}

pub(super) async fn delete(
    plane: &Plane,
    target: Target,
    query: &Query,
    request: Request,
) -> Result<Response, StatusError> {
    let rendering = rendering(plane, &target, query, &request)?;
    let options = delete_options(query, request).await?;
    let deleted = plane.write(|store, now| write::delete::delete(store, &target, &options, now))?;
    let Deleted { object, gone } = deleted;

    if gone && !target.resource.returns_deleted {
        let mut details = json!({
            "name": target.name, "kind": target.resource.plural, "uid": text(&object.value, "/metadata/uid"),
        });
        if !target.resource.group.is_empty() {
            as_map(&mut details).insert("group".into(), target.resource.group.into());
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        return Ok(super::json(StatusCode::OK, &status));
    }

    // As in an API server, only the deprecated field leads to 202: clients rely on 200 otherwise.
    let waits_for_dependents = !gone && options.orphan_dependents == Some(false);
    let code = if waits_for_dependents {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };

    Ok(raw(code, JSON, rendering.object(&object)?))
}

pub(super) async fn delete_collection(
    plane: &Plane,
    target: &Target,
    query: &Query,
    request: Request,
) -> Result<Response, StatusError> {
    let rendering = rendering(plane, target, query, &request)?;
    let (namespace, selector) = super::read::selection(target, query)?;
    let options = delete_options(query, request).await?;

    let (listed, meta) = plane.write(|store, now| {
        let page = super::read::page(
            store,
            target.resource,
            namespace.as_deref(),
            &selector,
            query,
            true,
        )?;
        for object in &page.0 {
            let target = Target {
                name: object::name(&object.value).to_owned(),
                ..target.clone()
            };
            write::delete::delete(store, &target, &options, now)?;
        }
        Ok::<_, StatusError>(page)
    })?;

    Ok(raw(StatusCode::OK, JSON, rendering.list(&listed, &meta)?))
}

/// Returns the options of a write. As in an API server, who writes is the beginning of the user agent
/// unless the query says it.
fn options(query: &Query, request: &Request, kind: &str) -> Result<Options, StatusError> {
    let mut options = query.options(kind)?;
    if options.manager.is_empty() {
        let agent = header_text(request, header::USER_AGENT);
        agent
            .split('/')
            .next()
            .unwrap_or_default()
            .clone_into(&mut options.manager);
    }
    Ok(options)
}

fn rendering(
    plane: &Plane,
    target: &Target,
    query: &Query,
    request: &Request,
) -> Result<Rendering, StatusError> {
    let form = accept::form(&header_text(request, header::ACCEPT), query.include())?;
    Ok(Rendering {
        resource: target.resource,
        form,
        clock: plane.clock().clone(),
    })
}

/// Reads the options from the body if there is one, otherwise from the query, never from both.
async fn delete_options(query: &Query, request: Request) -> Result<DeleteOptions, StatusError> {
    let body = body::optional(request, &DELETE_OPTIONS).await?;
    let Some(body) = body.map(|body| if body.is_null() { json!({}) } else { body }) else {
        query.numbers(&["gracePeriodSeconds"])?;
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let options = DeleteOptions {
            uid: given(&query.uid),
            resource_version: given(&query.resource_version),
            propagation: query.propagation.clone(),
            orphan_dependents: query.orphan,
            ..DeleteOptions::default()
        };
        return options.checked(&query.dry_run);
    };

    let kind = (text(&body, "/apiVersion"), text(&body, "/kind"));
    if !matches!(kind, ("" | "v1" | "meta.k8s.io/v1", "" | "DeleteOptions")) {
        return Err(StatusError::bad_request(
            "decoded object cannot be converted to DeleteOptions",
        ));
    }
    let body = schema::decode(body, &DELETE_OPTIONS, &mut Vec::new()).map_err(|mismatch| {
        StatusError::bad_request(format!("cannot read DeleteOptions: {mismatch}"))
    })?;

    let given = |pointer| {
        body.pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };

    let options = DeleteOptions {
        dry_run: false,
        uid: given("/preconditions/uid"),
        resource_version: given("/preconditions/resourceVersion"),
        propagation: given("/propagationPolicy"),
        orphan_dependents: body.get("orphanDependents").and_then(Value::as_bool),
    };
    options.checked(&object::strings(&body, "/dryRun"))
}

fn answer(rendering: &Rendering, written: &Written) -> Result<Response, StatusError> {
    let status = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };

    let mut response = raw(status, JSON, rendering.object(&written.object)?);
    for warning in &written.warnings {
        // RFC 7234: code, agent, and the text in quotes.
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }

    Ok(response)
}
