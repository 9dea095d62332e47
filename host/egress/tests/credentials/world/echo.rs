//! A server that quotes the credential of a request in an answer, in the ways of real ones.

use axum::{Router, body::Body, extract::Query, http::HeaderMap, response::IntoResponse as _};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Response, Uri};
use serde::Deserialize;
use serde_json::json;

/// Parameters with which a plugin can steer some of these servers.
#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    n: usize,
}

/// Starts the server and returns its URL.
pub(crate) async fn start() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(quote)).await });
    url
}

/// The token that this server issues.
pub(crate) const SESSION: &str = "tK7wE3nV9bX1mZ5qL8cR2yH6jD4fG0sP";

async fn quote(
    uri: Uri,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
    asked: String,
) -> Response<Body> {
    let value = headers.get("authorization");
    let value = value.map_or("", |value| value.to_str().unwrap()).to_owned();
    let all: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()))
        .collect();
    let escape = |prefix: &str, suffix: &str| -> String {
        let hex = |byte| format!("{prefix}{byte:02x}{suffix}");
        value.bytes().map(hex).collect()
    };
    let cut = |text: &str| text.chars().take(wanted.n).collect::<String>();
    let text = match uri.path() {
        // An API gateway that shows what it passed on.
        "/base64" => {
            let event = format!("{}{all}", "x".repeat(wanted.n));
            json!({ "isBase64Encoded": true, "body": STANDARD.encode(event) }).to_string()
        }
        // An error page with a limited length.
        "/cut" => format!("{{\"error\": \"invalid token: {}...\"}}", cut(&value)),
        "/end" => value.chars().skip(wanted.n).collect(),
        "/json" => format!("{{\"sent\": \"{}\"}}", escape("\\u00", "")),
        "/url" => format!("Location: /?token={}", escape("%", "")),
        "/html" => format!("<p>{}</p>", escape("&#x", ";")),
        "/upper" => value.to_uppercase(),
        "/hex" => hex::encode_upper(&value),
        "/trace" => all,
        "/utf16" => {
            // A framework that follows `Accept-Charset`, or always sends UTF-16.
            let unit = |unit: u16| unit.to_be_bytes();
            let bytes: Vec<u8> = value.encode_utf16().flat_map(unit).collect();
            let kind = [("content-type", "text/plain; charset=utf-16be")];
            return (kind, bytes).into_response();
        }
        "/ebcdic" => {
            let charset = headers.contains_key("accept-charset");
            let kind = if charset { "utf-8" } else { "ibm037" };
            return (
                [("content-type", format!("text/plain; charset={kind}"))],
                value,
            )
                .into_response();
        }
        // A download, or a proxy that compresses and does not say so.
        "/gzip" => {
            let kind = [("content-type", "application/octet-stream")];
            return (kind, stored(value.as_bytes())).into_response();
        }
        "/redirect" => {
            let head = [
                ("location", format!("/login?was={value}")),
                ("x-echo", STANDARD.encode(&all)),
                ("x-cut", cut(&value)),
            ];
            return (head, "").into_response();
        }
        // An issuer in debug mode.
        "/v3/auth/tokens" => {
            let head = [
                ("x-subject-token", SESSION.to_owned()),
                (
                    "content-type",
                    format!("application/json; asked={}", hex::encode(&asked)),
                ),
            ];
            let host = headers.get("host").and_then(|host| host.to_str().ok());
            let body = json!({
                "token": { "expires_at": "2099-01-01T00:00:00Z", "catalog": format!("http://{}/v3", host.unwrap()) },
                "asked": asked, "raw": STANDARD.encode(&asked),
                "session": [SESSION, hex::encode(SESSION), STANDARD.encode(SESSION), SESSION.to_uppercase()],
            });
            return (head, body.to_string()).into_response();
        }
        "/sdk" => {
            let head = [(
                "set-cookie",
                format!("vmware_soap_session=\"{SESSION}\"; Path=/"),
            )];
            let raw = STANDARD.encode(format!("{SESSION} {asked}"));
            let body = format!(
                "<LoginResponse><key>{SESSION}</key>{asked}<raw>{raw}</raw></LoginResponse>"
            );
            return (head, body).into_response();
        }
        // A server that quotes what the plugin sends.
        "/say" => {
            let said = uri.query().unwrap_or_default().to_owned();
            return ([("location", said.clone())], said).into_response();
        }
        path => panic!("{path}"),
    };
    text.into_response()
}

/// Returns a gzip file with one block that is not compressed, as `gzip -0` does; its checksum is not
/// computed.
fn stored(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let mut file = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x01".to_vec();
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(text);
    file.extend([0; 4]);
    file.extend(u32::from(length).to_le_bytes());
    file
}
