//! What the process tells about itself, as upstream's zpages do: `/configz`, `/flagz`, `/statusz`, and
//! the verbosity of the log, which can be set (`PUT /debug/flags/v`). Only those who are authorized
//! may read it: it is not for plain HTTP. `/statusz/overview` is a page for people. It names objects of
//! the cluster, so permission for `/statusz`, which upstream's pages have, is not enough for it.

pub mod overview;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::State,
    response::{Html, IntoResponse as _, Response},
    routing::{any, get},
};
use http::{HeaderMap, Method, Request, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::overview::{Overview, Process};
use crate::status;

/// The name of the component, as upstream.
const COMPONENT: &str = "cloud-controller-manager";
/// What upstream writes above its pages.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is \
                       for debugging purposes only.";
/// Maximum length of a verbosity in bytes.
const MAX_VERBOSITY: usize = 16;

/// What the process tells about itself. Nothing of it may be secret.
pub struct Zpages {
    /// The flags that are in effect, by name.
    pub flags: BTreeMap<String, String>,
    /// The configuration by API group.
    pub configuration: Value,
    /// The version of the program.
    pub version: &'static str,
    /// The version of Rust that it is built with.
    pub rust_version: &'static str,
    /// Returns what the process does.
    pub overview: Box<dyn Fn() -> Overview + Send + Sync>,
    /// Sets the verbosity of the log. The error says what is expected instead.
    pub set_verbosity: fn(&str) -> Result<(), String>,
}

/// The pages, and since when there are any.
struct Pages {
    zpages: Zpages,
    started_at: Timestamp,
    started: Instant,
}

impl Zpages {
    /// Returns the router for them.
    pub fn router(self) -> Router {
        Router::new()
            .route("/configz", get(configz))
            .route("/flagz", get(flagz))
            .route("/statusz", get(statusz))
            .route("/statusz/overview", get(for_people))
            .route("/debug/flags/v", any(verbosity))
            .with_state(Arc::new(Pages {
                zpages: self,
                started_at: Timestamp::now(),
                started: Instant::now(),
            }))
    }
}

async fn configz(State(pages): State<Arc<Pages>>) -> Json<Value> {
    Json(pages.zpages.configuration.clone())
}

async fn flagz(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let flags = &pages.zpages.flags;
    if wants_json(&headers) {
        return object("Flagz", json!({ "flags": flags }));
    }

    let lines = flags
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"));
    page("flagz", &lines.collect::<String>())
}

async fn statusz(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let Zpages {
        version,
        rust_version,
        ..
    } = &pages.zpages;
    let started = pages.started_at;
    let up = pages.started.elapsed().as_secs();
    let paths = [
        "/configz",
        "/debug",
        "/flagz",
        "/healthz",
        "/livez",
        "/metrics",
        "/readyz",
        "/statusz",
        "/statusz/overview",
    ];
    if wants_json(&headers) {
        let fields = json!({
            "startTime": started.to_string(), "uptimeSeconds": up, "rustVersion": rust_version,
            "binaryVersion": version, "paths": paths,
        });
        return object("Statusz", fields);
    }

    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let text = format!(
        "Started: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\nRust version: {rust_version}\n\
         Binary version: {version}\nPaths: {}\n",
        paths.join(" ")
    );
    page("statusz", &text)
}

async fn for_people(State(pages): State<Arc<Pages>>) -> Response {
    let overview = (pages.zpages.overview)();
    let process = Process {
        version: pages.zpages.version,
        started: pages.started_at,
        now: Timestamp::now(),
    };
    let headers = [
        (header::CONTENT_SECURITY_POLICY, overview::policy()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    let page = overview::page(&overview, &process);
    (headers, Html(page)).into_response()
}

/// Sets the verbosity to the number in the body.
async fn verbosity(State(pages): State<Arc<Pages>>, request: Request<Body>) -> Response {
    if request.method() != Method::PUT {
        let text = "unsupported http method".to_owned();
        return status::plain(StatusCode::NOT_ACCEPTABLE, text);
    }

    let body = to_bytes(request.into_body(), MAX_VERBOSITY).await;
    let given = body
        .ok()
        .and_then(|body| String::from_utf8(body.to_vec()).ok());
    let level = given.unwrap_or_default();
    match (pages.zpages.set_verbosity)(level.trim()) {
        Ok(()) => {
            let text = format!("successfully set verbosity to {}", level.trim());
            status::plain(StatusCode::OK, text)
        }
        Err(expected) => status::plain(StatusCode::BAD_REQUEST, expected),
    }
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    accepted.is_some_and(|accepted| accepted.trim_start().starts_with("application/json"))
}

fn page(name: &str, text: &str) -> Response {
    let text = format!("\n{COMPONENT} {name}\n{WARNING}\n\n{text}");
    status::plain(StatusCode::OK, text)
}

/// Returns an object of upstream's API for these pages.
fn object(kind: &str, mut fields: Value) -> Response {
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("kind".to_owned(), kind.into());
        fields.insert("apiVersion".to_owned(), "config.k8s.io/v1beta1".into());
        fields.insert("metadata".to_owned(), json!({ "name": COMPONENT }));
    }
    Json(fields).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    fn set(level: &str) -> Result<(), String> {
        let parsed: Result<u8, _> = level.parse();
        parsed.map(drop).map_err(|_| "expected a number".to_owned())
    }

    async fn answer(method: &str, path: &str, accept: &str, body: &str) -> (u16, String) {
        let answer = respond(method, path, accept, body).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn respond(method: &str, path: &str, accept: &str, body: &str) -> Response {
        let zpages = Zpages {
            flags: BTreeMap::from([("leader-elect".to_owned(), "true".to_owned())]),
            configuration: json!({"group": {"a": 1}}),
            version: "1.2.3",
            rust_version: "1.95",
            overview: Box::new(Overview::default),
            set_verbosity: set,
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", accept)
            .body(Body::from(body.to_owned()));
        zpages.router().oneshot(request.unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn pages_are_texts_or_objects_as_of_upstream() {
        let (_, text) = answer("GET", "/flagz", "*/*", "").await;
        assert!(
            text.starts_with("\ncloud-controller-manager flagz\nWarning: ")
                && text.ends_with("\nleader-elect=true\n"),
            "{text}"
        );
        let accept = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
        let (_, object) = answer("GET", "/flagz", accept, "").await;
        let object: Value = serde_json::from_str(&object).unwrap();
        let expected = json!({"kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1",
            "metadata": {"name": "cloud-controller-manager"}, "flags": {"leader-elect": "true"}});
        assert_eq!(object, expected);

        let (_, text) = answer("GET", "/statusz", "", "").await;
        assert!(
            text.contains("\nUp: 0 hr 00 min 0") && text.contains("\nBinary version: 1.2.3\n"),
            "{text}"
        );
        assert!(text.ends_with(" /statusz /statusz/overview\n"), "{text}");
        let (_, object) = answer("GET", "/configz", "", "").await;
        assert_eq!(object, r#"{"group":{"a":1}}"#);
    }

    #[tokio::test]
    async fn people_get_a_page_without_scripts() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let response = respond("GET", "/statusz/overview", browser, "").await;
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        assert_eq!(header("content-type"), "text/html; charset=utf-8");
        assert_eq!(header("x-content-type-options"), "nosniff");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");

        // Who may read the pages of upstream may not read this one.
        for (path, accept, is_page) in [
            ("/statusz/overview", browser, true),
            ("/statusz/overview", "*/*", true),
            ("/statusz/overview", "", true),
            ("/statusz", browser, false),
            ("/statusz", "text/html", false),
            ("/flagz", browser, false),
        ] {
            let (_, text) = answer("GET", path, accept, "").await;
            let is_html = text.starts_with("<!doctype html>");
            assert_eq!(is_html, is_page, "{path} {accept}");
        }
    }

    #[tokio::test]
    async fn the_verbosity_is_set_by_put() {
        for (method, body, expected) in [
            ("PUT", "4", 200),
            ("PUT", "4\n", 200),
            ("PUT", "all", 400),
            ("PUT", "", 400),
            ("PUT", "11111111111111111111111", 400),
            ("GET", "4", 406),
            ("POST", "4", 406),
        ] {
            let (status, text) = answer(method, "/debug/flags/v", "", body).await;
            assert_eq!(status, expected, "{method} {body}: {text}");
        }
    }
}
