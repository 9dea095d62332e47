//! Answers to requests that are rejected, in the words of `k8s.io/apiserver`
//! (`endpoints/handlers/responsewriters/errors.go`).

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, StatusCode, header};
use serde::Serialize;

/// Tells clients not to guess the type of the content.
const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");

/// The fields of `Status`, in upstream's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    status: &'static str,
    message: &'a str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Empty>,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

/// Nobody knows who sent the request.
pub(crate) fn unauthorized() -> Response {
    status(
        StatusCode::UNAUTHORIZED,
        "Unauthorized",
        "Unauthorized",
        None,
    )
}

/// The user may not do this. The reason is that of the authorizer, or empty.
pub(crate) fn forbidden(user: &str, verb: &str, path: &str, reason: &str) -> Response {
    let mut message = sanitized(&format!(
        "forbidden: User {user:?} cannot {verb} path {path:?}"
    ));
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    status(StatusCode::FORBIDDEN, &message, "Forbidden", Some(Empty {}))
}

/// It could not be decided whether the user may do this. The log says why.
pub(crate) fn internal_error(uri: &str) -> Response {
    let text = format!("Internal Server Error: {uri:?}: the request could not be authorized\n");
    plain(StatusCode::INTERNAL_SERVER_ERROR, sanitized(&text))
}

/// There is no such page.
pub(crate) fn not_found() -> Response {
    plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

/// Returns an answer with plain text, as Go's `http.Error`.
pub(crate) fn plain(status: StatusCode, text: String) -> Response {
    let kind = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
    (status, [kind, NOSNIFF], text).into_response()
}

fn status(
    code: StatusCode,
    message: &str,
    reason: &'static str,
    details: Option<Empty>,
) -> Response {
    let status = Status {
        kind: "Status",
        api_version: "v1",
        metadata: Empty {},
        status: "Failure",
        message,
        reason,
        details,
        code: code.as_u16(),
    };
    // The fields are texts and numbers, so this does not fail.
    let mut text = serde_json::to_vec(&status).unwrap_or_default();
    text.push(b'\n');

    let kind = (header::CONTENT_TYPE, "application/json");
    (code, [kind, NOSNIFF], Body::from(text)).into_response()
}

/// Replaces what a browser would read as HTML.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn text(response: Response) -> (u16, String) {
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn rejections_have_the_words_of_upstream() {
        let (code, body) = text(unauthorized()).await;
        let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
        assert_eq!((code, body.trim_end()), (401, expected));

        let (code, body) = text(forbidden("system:anonymous", "get", "/metrics", "")).await;
        let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"","reason":"Forbidden","details":{},"code":403}"#;
        assert_eq!((code, body.trim_end()), (403, expected));

        let (_, body) = text(forbidden("<b>", "get", "/a&b", "no role")).await;
        assert!(
            body.contains(r#"User \"&lt;b&gt;\" cannot get path \"/a&amp;b\": no role"#),
            "{body}"
        );

        let (code, body) = text(internal_error("/metrics")).await;
        assert_eq!(code, 500);
        assert!(
            body.starts_with("Internal Server Error: \"/metrics\": "),
            "{body}"
        );
    }
}
