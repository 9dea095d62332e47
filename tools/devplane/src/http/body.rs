//! Request bodies: their limit, and JSON, protobuf or a patch by the content type.

use axum::extract::Request;
use http::header;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;

use super::header_text;
use crate::{
    formats::{patch::Patch, protobuf},
    resources::schema,
    status::{Reason, StatusError},
};

/// Maximum bytes of a body, as in an API server.
const LIMIT: usize = 3 * 1024 * 1024;

/// Reads an object in JSON or in protobuf, which is decoded according to the schema.
pub(super) async fn object(
    request: Request,
    schema: &schema::Object,
) -> Result<Value, StatusError> {
    let media = media(&request);
    parse(&media, &bytes(request).await?, schema)
}

/// Reads an object, or nothing if the body is empty.
pub(super) async fn optional(
    request: Request,
    schema: &schema::Object,
) -> Result<Option<Value>, StatusError> {
    let media = media(&request);
    let body = bytes(request).await?;
    if body.is_empty() {
        Ok(None)
    } else {
        parse(&media, &body, schema).map(Some)
    }
}

fn parse(media: &str, body: &[u8], schema: &schema::Object) -> Result<Value, StatusError> {
    match media {
        // Pages of other sites can send text without a preflight request; API clients set a JSON or
        // protobuf type, or none.
        "" | "application/json" => json(body),
        "application/vnd.kubernetes.protobuf" => protobuf::decode(body, schema)
            .map_err(|error| StatusError::bad_request(error.to_string())),
        _ => Err(StatusError::new(
            Reason::UnsupportedMediaType,
            unsupported(
                media,
                "application/json or application/vnd.kubernetes.protobuf",
            ),
        )),
    }
}

/// Reads a patch of the type in `Content-Type`. The inner error means that the body is not a valid
/// patch.
pub(super) async fn patch(request: Request) -> Result<Result<Patch, StatusError>, StatusError> {
    let media = media(&request);
    let read: fn(&[u8]) -> Result<Patch, StatusError> = match media.as_str() {
        "application/json-patch+json" => |body| {
            let read = serde_json::from_value(json(body)?).map(Patch::Json);
            read.map_err(|error| {
                StatusError::bad_request(format!("the body is not a JSON patch: {error}"))
            })
        },
        "application/merge-patch+json" => |body| map(body).map(Patch::Merge),
        "application/strategic-merge-patch+json" => |body| map(body).map(Patch::Strategic),
        _ => {
            let offered = "application/json-patch+json, application/merge-patch+json or \
                           application/strategic-merge-patch+json";
            return Err(StatusError::of_server(
                Reason::UnsupportedMediaType,
                unsupported(&media, offered),
            ));
        }
    };

    Ok(read(&bytes(request).await?))
}

/// Parses a JSON object.
fn map(body: &[u8]) -> Result<Value, StatusError> {
    let value = json(body)?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(StatusError::bad_request(
            "the body of this patch must be an object",
        ))
    }
}

fn media(request: &Request) -> String {
    let content_type = header_text(request, header::CONTENT_TYPE);
    content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

fn unsupported(media: &str, offered: &str) -> String {
    format!("the body of the request was in an unknown format: {media:?}: send {offered}")
}

async fn bytes(request: Request) -> Result<bytes::Bytes, StatusError> {
    let collected = Limited::new(request.into_body(), LIMIT).collect().await;
    collected
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = format!("the body of the request is larger than {LIMIT} bytes");
                StatusError::new(Reason::RequestEntityTooLarge, message)
            } else {
                StatusError::bad_request(format!("the body of the request broke off: {error}"))
            }
        })
}

fn json(body: &[u8]) -> Result<Value, StatusError> {
    serde_json::from_slice(body)
        .map_err(|error| StatusError::bad_request(format!("the body is not JSON: {error}")))
}
