//! Headers and parameters with which some servers replace the method of a request.
//!
//! Rules decide on the method of the request line. A server that reads another one elsewhere would
//! do what no rule allows.

use http::{
    HeaderMap, Method,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};
use memchr::memmem;

use crate::{
    actions::{Unclear, decode},
    json,
};

/// Maximum bytes of a name: what is longer is the text of another format.
const LONGEST: usize = 256;

/// Charsets in which ASCII characters are as in ASCII.
const CHARSETS: &[&str] = &["utf-8", "us-ascii", "iso-8859-1", "windows-1252"];

/// Returns the header or query parameter that could replace the method.
pub(crate) fn in_head(head: &Parts) -> Option<String> {
    let mut headers = head.headers.keys().map(http::HeaderName::as_str);
    if let Some(name) = headers.find(|name| is_override(name.as_bytes())) {
        return Some(format!("header {name}"));
    }
    let parameters = head
        .uri
        .path()
        .split('/')
        .filter_map(|segment| segment.split_once(';'));
    for (_, parameters) in parameters {
        if let Some(name) = form_override(parameters.as_bytes()) {
            return Some(format!("path parameter {name}"));
        }
    }
    let name = form_override(head.uri.query()?.as_bytes())?;
    Some(format!("query parameter {name}"))
}

/// Returns true if servers may read a method in the body of this request: they do so only with
/// POST, in a form or in JSON.
pub(crate) fn may_be_in_body(head: &Parts) -> bool {
    let mut kinds = head.headers.get_all(CONTENT_TYPE).iter();
    let kind = kinds.next().map(|kind| kind.to_str().unwrap_or_default());
    head.method == Method::POST
        && (kinds.next().is_some() || kind.is_none_or(|kind| is_read(&kind.to_ascii_lowercase())))
}

/// Returns true for media types that servers read parameters from.
fn is_read(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let other = [
        "application/",
        "image/",
        "audio/",
        "video/",
        "font/",
        "text/",
    ];
    !other.iter().any(|family| kind.starts_with(family))
        || ["urlencoded", "form", "json", "text/plain"]
            .iter()
            .any(|word| kind.contains(word))
}

/// Returns the parameter in the body that could replace the method.
///
/// # Errors
/// If that cannot be determined.
pub(crate) fn in_body(headers: &HeaderMap, body: &[u8]) -> Result<Option<String>, Unclear> {
    if body.is_empty() {
        return Ok(None);
    }
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err("its body is compressed");
    }
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    let charset = kind.split_once("charset").map(|(_, rest)| {
        rest.trim_matches([' ', '=', '"'])
            .split([';', '"', ' '])
            .next()
            .unwrap_or_default()
    });
    if charset.is_some_and(|charset| !CHARSETS.contains(&charset)) {
        return Err("its body is not UTF-8");
    }
    // Signs of forms within JSON belong to a text.
    if kind.contains("json") {
        return json_override(body);
    }
    let in_form = form_names(body, is_field);
    Ok(in_form.or_else(|| multipart_override(body)))
}

/// Returns true for names that mean another method: `_method` (Rails, Laravel, Symfony, Spring),
/// `_HttpMethod` (Salesforce), `$httpMethod` (Google), `X-HTTP-Method-Override` and so on. PHP reads
/// `.method` and `_method[]` as `_method`, and ends a name at a zero byte.
fn is_override(name: &[u8]) -> bool {
    let name = until_bracket(name);
    let letters: Vec<u8> = name
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .collect();
    let mut word = letters.as_slice();
    for start in [b"x".as_slice(), b"http"] {
        word = word.strip_prefix(start).unwrap_or(word);
    }
    word = word.strip_suffix(b"override").unwrap_or(word);
    // A parameter with the plain name has another meaning.
    [&b"method"[..], b"verb"].contains(&word) && !name.eq_ignore_ascii_case(word)
}

/// Returns true for names of fields in a body that mean another method. Without a sign before it, or
/// the word at its end, `httpMethod` is a common field, for example of health checks.
fn is_field(name: &[u8]) -> bool {
    let lower = until_bracket(name).to_ascii_lowercase();
    let signed = lower.first().is_some_and(|it| !it.is_ascii_alphanumeric());
    let means = signed || lower.starts_with(b"x-") || lower.starts_with(b"x_");
    (means || lower.ends_with(b"override")) && is_override(name)
}

fn until_bracket(name: &[u8]) -> &[u8] {
    let mut parts = name.split(|byte| b"[\0".contains(byte));
    parts.next().unwrap_or_default()
}

/// Returns a name in a query that means another method.
fn form_override(text: &[u8]) -> Option<String> {
    form_names(text, is_override)
}

/// Returns the name of a pair that means another method.
fn form_names(text: &[u8], means: impl Fn(&[u8]) -> bool) -> Option<String> {
    let names = text
        .split(|byte| b"&;".contains(byte))
        .filter_map(|pair| pair.split(|byte| *byte == b'=').next());
    let names = names.map(without_blanks);
    let mut names = names.filter(|name| name.len() <= LONGEST).map(decode);
    names.find(|name| means(name)).map(|name| shown(&name))
}

/// Returns the name without the blanks before it, which PHP ignores.
fn without_blanks(mut name: &[u8]) -> &[u8] {
    let blanks: [&[u8]; 3] = [b" ", b"+", b"%20"];
    while let Some(rest) = blanks.iter().find_map(|blank| name.strip_prefix(*blank)) {
        name = rest;
    }
    name
}

/// Returns a name of a part of a multipart body that means another method, wherever it is written.
fn multipart_override(body: &[u8]) -> Option<String> {
    let lower = body.to_ascii_lowercase();
    let mut places = memmem::find_iter(&lower, b"name").peekable();
    std::iter::from_fn(|| Some((places.next()?, places.peek().copied()))).find_map(|(at, next)| {
        // A body can consist of nothing but such names. What has another in it is no method.
        let rest = lower.get(at + b"name".len()..next.unwrap_or(lower.len()));
        let rest = rest.unwrap_or_default();
        let extended = rest.strip_prefix(b"*");
        // A name that is continued (RFC 2231) is found only if all of its pieces are put together.
        if extended.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit)) {
            return Some("`name*0`".to_owned());
        }
        let rest = extended.unwrap_or(rest).trim_ascii_start();
        let value = rest.strip_prefix(b"=")?.trim_ascii_start();
        let value = value.get(..LONGEST).unwrap_or(value);
        let name = match value.strip_prefix(b"\"") {
            Some(quoted) => quoted.split(|byte| b"\"\r\n".contains(byte)).next(),
            None => value.split(|byte| b";\r\n".contains(byte)).next(),
        };
        let name = decode(name?);
        // In the extended form, the charset and the language come before the name; and PHP takes
        // single quotes, too.
        let mut parts = name.split(|byte| *byte == b'\'');
        parts.find(|part| is_field(part)).map(shown)
    })
}

/// Returns a key of a JSON object that means another method.
fn json_override(body: &[u8]) -> Result<Option<String>, Unclear> {
    let keys = json::keys(body).map_err(|_| "its body is not valid JSON")?;
    let found = keys.into_iter().find(|key| is_field(key.as_bytes()));
    Ok(found.map(|key| shown(key.as_bytes())))
}

/// Returns the name for a message.
fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    format!("`{}`", name.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn another_method_in_a_head_is_found() {
        let table = [
            ("/?_method=DELETE", "x-a", true),
            ("/?a=1&%5FMETHOD=DELETE", "x-a", true),
            ("/?a=1;_method", "x-a", true),
            ("/?x_method=DELETE", "x-a", true),
            ("/?a=1;_HttpMethod=x", "x-a", true),
            ("/?$httpMethod=DELETE", "x-a", true),
            ("/?httpMethod=DELETE", "x-a", true),
            ("/?X-HTTP-Method-Override=DELETE", "x-a", true),
            ("/?.method=DELETE", "x-a", true),
            ("/?_method[]=DELETE", "x-a", true),
            ("/x;a=b;_method=DELETE/y", "x-a", true),
            ("/x;a=b/_method=DELETE", "x-a", false),
            ("/", "x-method", true),
            ("/", "x-http-method", true),
            ("/", "x-http-method-override", true),
            ("/", "x-method-override", true),
            ("/?method=listZones&auth_method=x", "method", false),
            ("/?a=_method", "access-control-request-method", false),
            ("/?_verb=DELETE", "x-a", true),
            ("/?httpVerb=DELETE", "x-a", true),
            ("/?verb=get&adverb=x&httpMethods=x", "x-a", false),
        ];
        for (uri, header, expected) in table {
            let found = in_head(&head("GET", uri, &[(header, "DELETE")]));
            assert_eq!(found.is_some(), expected, "{uri} {header}: {found:?}");
        }
    }

    #[test]
    fn another_method_in_a_body_is_found() {
        let form = "application/x-www-form-urlencoded";
        let multipart = "multipart/form-data; boundary=x";
        let json = "application/json; charset=utf-8";
        let blanks = format!("{}%20_method=DELETE", "+".repeat(260));
        let names = "name=".repeat(200_000);
        let table = [
            (form, "_method=DELETE", true),
            (form, "a=b&%5fmethod=DELETE", true),
            (form, "a=b&_HttpMethod=DELETE", true),
            ("", "a&_method=DELETE", true),
            ("text/plain", "_method=DELETE", true),
            (form, "a=b&_method%00x=DELETE", true),
            (form, &blanks, true),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name='_method'\r\n\r\nDELETE\r\n--x--",
                true,
            ),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name=\"_method\r\n\r\nDELETE\r\n--x--",
                true,
            ),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name*0=\"_met\"; name*1=\"hod\"\r\n\r\nDELETE",
                true,
            ),
            (form, "_verb=DELETE", true),
            (form, "HttpMethod=GET&http-method=GET", false),
            (form, "http_method_override=DELETE", true),
            // It takes no longer than another one.
            (form, &names, false),
            (form, "method=DELETE&a=_method", false),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--x--",
                true,
            ),
            (
                multipart,
                "--x\r\ncontent-disposition:form-data;NAME = _Method\r\n\r\nDELETE\r\n--x--",
                true,
            ),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name*=UTF-8''%5Fmethod\r\n\r\nDELETE",
                true,
            ),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name=\"method\"\r\n\r\n_method\r\n--x--",
                false,
            ),
            (json, r#"{"a": 1, "_method": "DELETE"}"#, true),
            (json, r#"{"\u005fmethod": "DELETE"}"#, true),
            (json, r#"{"$httpMethod": "DELETE"}"#, true),
            (json, "{}\n{\"_method\": 1}", true),
            // Fields of health checks.
            (json, r#"{"healthmonitor": {"http_method": "GET"}}"#, false),
            (json, r#"{"httpMethod": "GET", "method": "GET"}"#, false),
            (json, r#"[{"a": [1.5, -1, null, true, "x"]}]"#, false),
            (json, r#"[{"_method": "DELETE"}]"#, true),
            (json, r#"{"url": "http://h/?a=1&_method=x"}"#, false),
            (json, r#"{"description": "HTTP probe; method"}"#, false),
            (
                json,
                r#"{"rule": "a&!method", "x": "set name=_method"}"#,
                false,
            ),
            (json, "", false),
        ];
        for (kind, body, expected) in table {
            let head = head("POST", "/", &[("content-type", kind)]);
            assert!(may_be_in_body(&head), "{kind}");
            let found = in_body(&head.headers, body.as_bytes()).unwrap();
            assert_eq!(found.is_some(), expected, "{kind} {body}: {found:?}");
        }
    }

    #[test]
    fn a_body_that_cannot_be_read_is_unclear() {
        for (name, value, body) in [
            ("content-type", "application/json", "{'_method': 'DELETE'}"),
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=ibm037",
                "x",
            ),
            ("content-encoding", "gzip", "x"),
        ] {
            let head = head("POST", "/", &[(name, value)]);
            assert!(in_body(&head.headers, body.as_bytes()).is_err(), "{value}");
        }
    }

    #[test]
    fn only_forms_and_json_of_posts_are_read() {
        for (method, kind, expected) in [
            ("POST", "application/octet-stream", false),
            ("POST", "text/xml; charset=utf-8", false),
            ("POST", "application/soap+xml", false),
            ("POST", "application/vnd.api+json", true),
            ("POST", "nonsense", true),
            ("PUT", "application/json", false),
        ] {
            let head = head(method, "/", &[("content-type", kind)]);
            assert_eq!(may_be_in_body(&head), expected, "{method} {kind}");
        }
        let none = head("POST", "/", &[]);
        assert!(may_be_in_body(&none));
    }
}
