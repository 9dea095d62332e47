//! The paths that Skydock uses, and those of orders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::{Value, json};
use skydock_bench_scale::{ORDERS, Order, STATS};

use crate::patch::Rejected;
use crate::plane::{Denied, Plane};
use crate::watch::{Watched, watch};
use crate::wire;

const JSON: &str = "application/json";
/// The duration of a watch without a timeout parameter.
const WATCH: Duration = Duration::from_secs(1800);
/// The maximum size of orders and requests.
const LIMIT: usize = 16 << 20;

pub(crate) fn router(plane: Arc<Plane>) -> Router {
    Router::new()
        .route(
            "/version",
            get(|| async { json_body(StatusCode::OK, &version()) }),
        )
        .route(STATS, get(stats))
        .route(ORDERS, post(obey))
        .fallback(answer)
        .layer(axum::extract::DefaultBodyLimit::max(LIMIT))
        .with_state(plane)
}

async fn stats(State(plane): State<Arc<Plane>>) -> Response {
    json_body(
        StatusCode::OK,
        &json!(plane.read(crate::plane::Cluster::stats)),
    )
}

async fn obey(State(plane): State<Arc<Plane>>, body: Bytes) -> Response {
    match serde_json::from_slice::<Order>(&body) {
        Ok(order) => {
            plane.write(|cluster| cluster.obey(&order));
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => rejected(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string()),
    }
}

async fn answer(
    State(plane): State<Arc<Plane>>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let path: Vec<_> = uri.path().split('/').skip(1).collect();
    let count = |resource: &str| {
        let request = format!("{method} {resource}");
        plane.write(|cluster| *cluster.stats.requests.entry(request).or_default() += 1);
    };
    match (&method, &*path) {
        (&Method::GET, ["api", "v1", "nodes"]) => {
            count("nodes");
            list_or_watch(&plane, Watched::Nodes, &query)
        }
        (&Method::GET, ["api", "v1", "services"]) => {
            count("services");
            list_or_watch(&plane, Watched::Services, &query)
        }
        (&Method::PATCH, ["api", "v1", "nodes", name, subresource @ ..]) => {
            count(if subresource.is_empty() {
                "nodes"
            } else {
                "nodes/status"
            });
            patched(
                &plane,
                plane.write(|cluster| cluster.patch_node(name, content_type, &body)),
            )
        }
        (&Method::DELETE, ["api", "v1", "nodes", name]) => {
            count("nodes");
            let options: Value = serde_json::from_slice(&body).unwrap_or_default();
            let uid = options
                .pointer("/preconditions/uid")
                .and_then(Value::as_str);
            match plane.write(|cluster| cluster.delete_node(name, uid)) {
                Ok(()) => json_body(
                    StatusCode::OK,
                    &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                ),
                Err(denied) => rejection(&plane, denied),
            }
        }
        (
            &Method::PATCH,
            [
                "api",
                "v1",
                "namespaces",
                namespace,
                "services",
                name,
                subresource @ ..,
            ],
        ) => {
            count(if subresource.is_empty() {
                "services"
            } else {
                "services/status"
            });
            let name = format!("{namespace}/{name}");
            patched(
                &plane,
                plane.write(|cluster| cluster.patch_service(&name, content_type, &body)),
            )
        }
        (_, ["api", "v1", "namespaces", _, "events", ..]) => {
            count("events");
            event(&plane, &body)
        }
        (
            _,
            [
                "apis",
                "coordination.k8s.io",
                "v1",
                "namespaces",
                namespace,
                "leases",
                name @ ..,
            ],
        ) => {
            count("leases");
            lease(
                &plane,
                &method,
                &format!("{namespace}/{}", name.concat()),
                &body,
            )
        }
        _ => rejected(
            StatusCode::NOT_FOUND,
            "NotFound",
            &format!("no {method} {}", uri.path()),
        ),
    }
}

fn list_or_watch(
    plane: &Arc<Plane>,
    watched: Watched,
    query: &BTreeMap<String, String>,
) -> Response {
    let text = |key: &str| query.get(key).map(String::as_str).unwrap_or_default();
    let number = |key: &str| text(key).parse::<u64>().ok();
    let (list_type, watch_type) = match watched {
        Watched::Nodes => (wire::PROTOBUF, wire::WATCH),
        Watched::Services => (JSON, JSON),
    };
    if matches!(text("watch"), "true" | "1") {
        let lasts = number("timeoutSeconds").map_or(WATCH, Duration::from_secs);
        return match watch(
            plane,
            watched,
            number("resourceVersion").unwrap_or_default(),
            lasts,
        ) {
            Some(body) => typed(StatusCode::OK, watch_type, body),
            None => rejected(StatusCode::GONE, "Expired", "too old resource version"),
        };
    }
    // The token consists of the revision of the first page, after which the watch starts, and a
    // name.
    let limit = number("limit")
        .and_then(|limit| usize::try_from(limit).ok())
        .filter(|limit| *limit > 0);
    let (begun, after) = text("continue").split_once(':').unwrap_or_default();
    let revision = begun
        .parse()
        .unwrap_or_else(|_| plane.read(|cluster| cluster.revision));
    let token = |next: Option<String>| {
        next.map(|name| format!("{revision}:{name}"))
            .unwrap_or_default()
    };
    let limit = limit.unwrap_or(usize::MAX);
    let body = match watched {
        Watched::Nodes => {
            let (page, next) = plane.read(|cluster| cluster.nodes.page(after, limit));
            wire::list(&page, revision, &token(next))
        }
        Watched::Services => {
            let (page, next) = plane.read(|cluster| cluster.services.page(after, limit));
            let metadata =
                json!({"resourceVersion": revision.to_string(), "continue": token(next)});
            let list = json!({
                "kind": "ServiceList", "apiVersion": "v1", "metadata": metadata,
                "items": page.iter().map(|service| &**service).collect::<Vec<_>>(),
            });
            list.to_string().into()
        }
    };
    typed(StatusCode::OK, list_type, body)
}

/// Events are counted but not stored.
fn event(plane: &Plane, body: &[u8]) -> Response {
    let mut event: Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(reason) = event.get("reason").and_then(Value::as_str) {
        let reason = reason.to_owned();
        plane.write(|cluster| *cluster.stats.events.entry(reason).or_default() += 1);
    }
    if event.get("metadata").is_none()
        && let Some(event) = event.as_object_mut()
    {
        event.insert("metadata".to_owned(), json!({"resourceVersion": "1"}));
    }
    json_body(StatusCode::CREATED, &event)
}

fn lease(plane: &Plane, method: &Method, name: &str, body: &[u8]) -> Response {
    if method == Method::GET {
        return match plane.read(|cluster| cluster.lease(name).cloned()) {
            Some(lease) => json_body(StatusCode::OK, &lease),
            None => rejected(StatusCode::NOT_FOUND, "NotFound", "no such lease"),
        };
    }
    let lease: Value = serde_json::from_slice(body).unwrap_or_default();
    // The name of a lease that is created is only in the body.
    let made = lease
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = if name.ends_with('/') {
        format!("{name}{made}")
    } else {
        name.to_owned()
    };
    json_body(
        StatusCode::OK,
        &plane.write(|cluster| cluster.put_lease(&name, lease)),
    )
}

fn patched(plane: &Plane, result: Result<Value, Denied>) -> Response {
    match result {
        Ok(metadata) => {
            let written = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
            json_body(StatusCode::OK, &written)
        }
        Err(denied) => rejection(plane, denied),
    }
}

fn rejection(plane: &Plane, denied: Denied) -> Response {
    match denied {
        Denied::NotFound => rejected(StatusCode::NOT_FOUND, "NotFound", "not found"),
        Denied::Patch(Rejected::Conflict) => {
            plane.write(|cluster| cluster.stats.conflicts += 1);
            rejected(
                StatusCode::CONFLICT,
                "Conflict",
                "the object has been modified",
            )
        }
        Denied::Patch(Rejected::Invalid) => rejected(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "a test of the patch does not hold",
        ),
        Denied::Patch(Rejected::Unreadable(why)) => {
            rejected(StatusCode::BAD_REQUEST, "BadRequest", &why)
        }
    }
}

fn rejected(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    json_body(code, &status)
}

fn json_body(code: StatusCode, value: &Value) -> Response {
    typed(code, JSON, value.to_string())
}

fn typed(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    (code, [(header::CONTENT_TYPE, content_type)], body.into()).into_response()
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "clean", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    })
}
