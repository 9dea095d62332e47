//! Creating, changing and deleting.

use axum::{extract::Request, response::Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::{JSON, accept, body, header_text, query::Query, raw};
use crate::{
    object::{self, text},
    patch::Patch,
    plane::Plane,
    refusal::{Reason, Refusal},
    render::{ListMeta, Rendering},
    schema::{self, meta::DELETE_OPTIONS},
    selector::Selector,
    write::{
        self, Options, Target, Written,
        delete::{DeleteOptions, Deleted},
    },
};

pub(super) async fn create(
    plane: &Plane,
    target: Target,
    query: &Query,
    request: Request,
) -> Result<Response, Refusal> {
    let (rendering, options) = prepare(&target, query, &request)?;
    let body = body::object(request, target.resource.schema).await?;
    let written = plane.write(|store, now| write::create(store, &target, body, &options, now))?;
    Ok(answer(rendering, &written))
}

pub(super) async fn update(
    plane: &Plane,
    target: Target,
    query: &Query,
    request: Request,
) -> Result<Response, Refusal> {
    let (rendering, options) = prepare(&target, query, &request)?;
    let body = body::object(request, target.resource.schema).await?;
    let written = plane.write(|store, _| write::update(store, &target, body, &options))?;
    Ok(answer(rendering, &written))
}

pub(super) async fn patch(plane: &Plane, target: Target, query: &Query, request: Request) -> Result<Response, Refusal> {
    let (rendering, options) = prepare(&target, query, &request)?;
    let patch = body::patch(request).await?;
    if matches!(patch, Patch::Apply(_)) && !query.names_manager() {
        return Err(Refusal::bad_request("server-side apply needs the query parameter fieldManager"));
    }
    let written = plane.write(|store, now| write::patch(store, &target, &patch, &options, now))?;
    Ok(answer(rendering, &written))
}

pub(super) async fn delete(
    plane: &Plane,
    target: Target,
    query: &Query,
    request: Request,
) -> Result<Response, Refusal> {
    let (rendering, _) = prepare(&target, query, &request)?;
    let options = delete_options(query, body::optional(request, &DELETE_OPTIONS).await?)?;
    let Deleted { object, gone } = plane.write(|store, now| write::delete::delete(store, &target, &options, now))?;
    if gone && !target.resource.returns_deleted {
        let details = json!({
            "name": target.name, "group": target.resource.group, "kind": target.resource.plural,
            "uid": text(&object.value, "/metadata/uid"),
        });
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        return Ok(super::json(StatusCode::OK, &status));
    }
    Ok(raw(StatusCode::OK, JSON, rendering.object(&object)))
}

pub(super) async fn delete_collection(
    plane: &Plane,
    target: &Target,
    query: &Query,
    request: Request,
) -> Result<Response, Refusal> {
    let (rendering, _) = prepare(target, query, &request)?;
    let options = delete_options(query, body::optional(request, &DELETE_OPTIONS).await?)?;
    let selector = Selector::parse(&query.labels, &query.fields, target.resource);
    let selector = selector.map_err(|error| Refusal::bad_request(error.to_string()))?;
    let (deleted, revision) = plane.write(|store, now| {
        let namespace = target.resource.namespaced.then_some(target.namespace.as_str());
        let names: Vec<_> = store
            .objects(target.resource.shelf, namespace)
            .filter(|object| selector.matches(&object.value))
            .map(|object| object::name(&object.value).to_owned())
            .collect();
        let one = |name| {
            let target = Target { name, ..target.clone() };
            write::delete::delete(store, &target, &options, now).map(|deleted| deleted.object)
        };
        let deleted = names.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        Ok((deleted, store.revision()))
    })?;
    let meta = ListMeta { revision, ..ListMeta::default() };
    Ok(raw(StatusCode::OK, JSON, rendering.list(&deleted, &meta)))
}

fn prepare(target: &Target, query: &Query, request: &Request) -> Result<(Rendering, Options), Refusal> {
    let form = accept::form(&header_text(request, header::ACCEPT), query.include()?)?;
    let options = query.options(&header_text(request, header::USER_AGENT))?;
    Ok((Rendering { resource: target.resource, form }, options))
}

/// From the body if there is one, and else from the query: never from both.
fn delete_options(query: &Query, body: Option<Value>) -> Result<DeleteOptions, Refusal> {
    let Some(body) = body else {
        return Ok(DeleteOptions {
            dry_run: query.dry_run,
            uid: Some(query.uid.clone()).filter(|uid| !uid.is_empty()),
            resource_version: Some(query.resource_version.clone()).filter(|version| !version.is_empty()),
        });
    };
    let body = schema::decode(body, &DELETE_OPTIONS, &mut Vec::new())
        .map_err(|mismatch| Refusal::bad_request(format!("cannot read DeleteOptions: {mismatch}")))?;
    let given = |pointer| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let dry_run = object::list(&body, "/dryRun");
    if let Some(other) = dry_run.iter().find(|value| *value != "All") {
        let message = "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value:";
        return Err(Refusal::new(Reason::Invalid, format!("{message} {other}: supported values: \"All\"")));
    }
    Ok(DeleteOptions {
        dry_run: !dry_run.is_empty(),
        uid: given("/preconditions/uid"),
        resource_version: given("/preconditions/resourceVersion"),
    })
}

fn answer(rendering: Rendering, written: &Written) -> Response {
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = raw(status, JSON, rendering.object(&written.object));
    for warning in &written.warnings {
        // RFC 7234: code, agent, and the text in quotes.
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
