//! The API over HTTP.
//!
//! It listens on loopback only. Because web pages can reach it, too, a guard rejects everything
//! that a browser sends on behalf of another site.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;

use crate::{
    access::Credentials,
    faults::FaultSwitch,
    formats::{discovery, openapi},
    resources::resource::{Resource, Subresource},
    status::{Reason, StatusError},
    storage::{plane::Plane, write::Target},
};

mod accept;
mod body;
mod faults;
mod path;
mod query;
mod read;
mod token;
mod write;

use path::{ApiPath, Place};
use query::Query;

/// Adds the guard, for a socket that other programs can reach.
pub(crate) fn guarded(router: Router) -> Router {
    router.layer(middleware::from_fn(guard))
}

/// Requires the token.
pub(crate) fn authenticated(router: Router, credentials: &Credentials) -> Router {
    router.layer(middleware::from_fn_with_state(
        Arc::<str>::from(credentials.authorization()),
        authenticate,
    ))
}

/// Allows requests with the token, and all requests for health and version.
async fn authenticate(State(expected): State<Arc<str>>, request: Request, next: Next) -> Response {
    // An API server answers these without authentication, too (`system:public-info-viewer`).
    let open = ["/healthz", "/livez", "/readyz", "/version"].contains(&request.uri().path());
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .map_or(&[][..], HeaderValue::as_bytes);

    if open || same(given, expected.as_bytes()) {
        return next.run(request).await;
    }

    StatusError::new(Reason::Unauthorized, "Unauthorized").into_response()
}

/// Compares in a time that does not depend on where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let difference = one
        .iter()
        .zip(other)
        .fold(0_u8, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && difference == 0
}

/// Returns the router of the complete API.
pub(crate) fn router(plane: Arc<Plane>, faults: FaultSwitch) -> Router {
    let healthy = || async { "ok" };
    let router = Router::new()
        .route("/healthz", get(healthy))
        .route("/livez", get(healthy))
        .route("/readyz", get(healthy))
        .route(
            "/version",
            get(async || json(StatusCode::OK, &discovery::version())),
        )
        .route(
            "/openapi/v3",
            get(async || json(StatusCode::OK, &openapi::index())),
        )
        .fallback(handle)
        .with_state(plane);

    behind_faults(router, faults)
}

/// Adds faults to a router that serves the Kubernetes API, for example a proxy.
pub fn behind_faults(router: Router, faults: FaultSwitch) -> Router {
    router.layer(middleware::from_fn_with_state(faults, faults::inject))
}

/// Rejects requests with another host name (DNS rebinding), and requests from pages of other sites.
async fn guard(request: Request, next: Next) -> Response {
    if is_from_here(request.headers()) {
        return next.run(request).await;
    }
    let message = "only requests to localhost or a loopback address are served, and none from the pages of other sites";
    StatusError::new(Reason::Forbidden, message).into_response()
}

fn is_from_here(headers: &HeaderMap) -> bool {
    let header = |name| headers.get(name).map(HeaderValue::to_str);
    let host = header(header::HOST).is_some_and(|host| host.is_ok_and(is_local));

    // API clients send no `Origin`; browsers send it for pages of other sites.
    let origin = header(header::ORIGIN).is_none_or(|origin| {
        origin.is_ok_and(|origin| {
            origin
                .split_once("://")
                .is_some_and(|(_, host)| is_local(host))
        })
    });

    host && origin
}

/// Returns whether `HOST` or `HOST:PORT` is this machine.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let literal = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .map_or_else(
            || name.parse().map(IpAddr::V4),
            |name| name.parse().map(IpAddr::V6),
        );

    name.eq_ignore_ascii_case("localhost") || literal.is_ok_and(|address| address.is_loopback())
}

async fn handle(State(plane): State<Arc<Plane>>, request: Request) -> Response {
    dispatch(plane, request)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn dispatch(plane: Arc<Plane>, request: Request) -> Result<Response, StatusError> {
    let query = Query::parse(request.uri())?;
    let path = request.uri().path();

    match path::parse(path) {
        // An API server does not know the paths of a group that it does not serve, and answers
        // without a Status.
        Some(Place::Api(api)) if !is_served(&api) => Ok(page_not_found()),
        Some(Place::Api(api)) => serve_objects(&plane, api, &query, request).await,
        Some(place) if request.method() == Method::GET => serve_discovery(place, &request),
        Some(_) => Err(not_allowed(request.method())),
        None => unknown_path(path),
    }
}

fn unknown_path(path: &str) -> Result<Response, StatusError> {
    // Below these paths, an API server answers with a Status.
    let served = [
        "/api/",
        "/apis/coordination.k8s.io/v1/",
        "/apis/events.k8s.io/v1/",
    ];
    if served.iter().any(|root| path.starts_with(root)) {
        Err(StatusError::no_such_path())
    } else {
        Ok(page_not_found())
    }
}

/// Returns whether the group of a path is served.
fn is_served(api: &ApiPath) -> bool {
    let group_version = (api.group.as_str(), api.version.as_str());
    api.group.is_empty() || discovery::group_versions().contains(&group_version)
}

/// Serves the descriptions of the API.
fn serve_discovery(place: Place, request: &Request) -> Result<Response, StatusError> {
    let accept = header_text(request, header::ACCEPT);
    let found = match place {
        Place::Root { core } if accept::aggregated(&accept) => return Ok(aggregated(core)),
        Place::Root { core: true } => Some(discovery::core_versions()),
        Place::Root { core: false } => Some(discovery::groups()),
        Place::Group(group) => discovery::named_group(&group),
        Place::Version { group, version } => discovery::resources(&group, &version),
        Place::OpenApi { group, version } => openapi::document(&group, &version),
        Place::Api(_) => None,
    };

    found
        .map(|value| json(StatusCode::OK, &value))
        .ok_or_else(StatusError::no_such_path)
}

/// Serves the objects of a resource.
async fn serve_objects(
    plane: &Arc<Plane>,
    api: ApiPath,
    query: &Query,
    request: Request,
) -> Result<Response, StatusError> {
    let resource = crate::resources::resource::find(&api.group, &api.version, &api.plural)
        .ok_or_else(StatusError::no_such_path)?;
    let (target, everywhere) = target(resource, api)?;
    let method = request.method().clone();
    let accept = header_text(&request, header::ACCEPT);

    if method != Method::GET && !resource.verbs().contains(&"create") {
        let message = format!(
            "{} can only be listed here: nothing runs them",
            resource.plural
        );
        return Err(StatusError::new(Reason::MethodNotAllowed, message));
    }
    if everywhere && method != Method::GET {
        return Err(not_allowed(&method));
    }

    let named = !target.name.is_empty();
    match (method, named, target.subresource) {
        // Also with `watch`: a single object is watched by its name in a field selector.
        (Method::GET, true, Some(Subresource::Status) | None) => {
            read::get(plane, &target, &accept, query)
        }
        (Method::GET, false, None) => read::list_or_watch(plane, &target, &accept, query),
        (Method::POST, true, Some(Subresource::Token)) => {
            token::create(plane, &target, query, request).await
        }
        (Method::POST, false, None) => write::create(plane, target, query, request).await,
        (Method::PUT, true, Some(Subresource::Status) | None) => {
            write::update(plane, target, query, request).await
        }
        (Method::PATCH, true, Some(Subresource::Status) | None) => {
            write::patch(plane, target, query, request).await
        }
        (Method::DELETE, true, None) => write::delete(plane, target, query, request).await,
        (Method::DELETE, false, None) if resource.verbs().contains(&"deletecollection") => {
            write::delete_collection(plane, &target, query, request).await
        }
        (method, ..) => Err(not_allowed(&method)),
    }
}

fn page_not_found() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// Returns the target of a path, and whether it includes all namespaces.
fn target(resource: &'static Resource, api: ApiPath) -> Result<(Target, bool), StatusError> {
    let subresource = match api.subresource.as_str() {
        "" => None,
        name => {
            let known = resource
                .subresources
                .iter()
                .find(|known| known.name() == name);
            Some(*known.ok_or_else(StatusError::no_such_path)?)
        }
    };

    let everywhere = resource.namespaced && api.namespace.is_empty();
    if !resource.namespaced && !api.namespace.is_empty() || everywhere && !api.name.is_empty() {
        return Err(StatusError::no_such_path());
    }

    Ok((
        Target {
            resource,
            namespace: api.namespace,
            name: api.name,
            subresource,
        },
        everywhere,
    ))
}

fn not_allowed(method: &Method) -> StatusError {
    StatusError::of_server(
        Reason::MethodNotAllowed,
        format!("the server does not allow {method} on the requested resource"),
    )
}

fn header_text(request: &Request, name: header::HeaderName) -> String {
    request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

fn aggregated(core: bool) -> Response {
    let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    raw(
        StatusCode::OK,
        media,
        discovery::aggregated(core).to_string(),
    )
}

fn json(status: StatusCode, value: &Value) -> Response {
    raw(status, JSON, value.to_string())
}

const JSON: &str = "application/json";

fn raw(status: StatusCode, media: &'static str, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, media)], body.into()).into_response()
}

impl IntoResponse for StatusError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.reason().code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        json(status, &self.status())
    }
}

/// Type of a line that cannot fail, for streams.
type Line = Result<bytes::Bytes, Infallible>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_are_local() {
        for host in [
            "localhost",
            "localhost:80",
            "LocalHost:1",
            "127.0.0.1:8080",
            "127.0.0.2",
            "[::1]",
            "[::1]:80",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "10.0.0.1",
            "[::1].x",
            "::1:x",
            "[127.0.0.1]",
            "[::2]",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
