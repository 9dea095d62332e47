//! Headers and parameters with which some servers replace the method of a request.
//!
//! Rules decide on the method of the request line. A server that reads another one elsewhere would
//! do what no rule allows. Names that mean nothing else, such as `_method`, are denied. Common names
//! such as `httpMethod` have other meanings, too, so only their value matters: a rule must allow the
//! method that it names.

mod multipart;

use http::{HeaderMap, Method, header::CONTENT_ENCODING, request::Parts};
use memchr::memmem;
use skydock_cloud::text;
use skydock_credentials::request::{Unclear, actions::decode, content_type::ContentType, json};

/// Maximum bytes of a name or a value that are read: what is longer is the text of another format,
/// unless a server ends the name before.
const LONGEST: usize = 256;

/// Beginnings of media types that are not parameters, unless [`PARAMETERS`] are in their names.
const NOT_PARAMETERS: [&str; 6] = [
    "application/",
    "image/",
    "audio/",
    "video/",
    "font/",
    "text/",
];
/// What is in the names of media types that servers read parameters from.
const PARAMETERS: [&str; 4] = ["urlencoded", "form", "json", "text/plain"];

/// Returns the header or the parameter of the URI whose name means another method.
pub(crate) fn denied_name_in_head(head: &Parts) -> Option<String> {
    let mut headers = head.headers.keys().map(http::HeaderName::as_str);
    if let Some(name) = headers.find(|name| means_method(name.as_bytes())) {
        return Some(format!("header {name}"));
    }

    if let Some(name) = path_parameters(head).find_map(denied_name) {
        return Some(format!("path parameter {name}"));
    }

    let name = denied_name(head.uri.query()?.as_bytes())?;
    Some(format!("query parameter {name}"))
}

/// Returns the parameter in the body whose name means another method.
///
/// # Errors
/// If that cannot be determined.
pub(crate) fn denied_name_in_body(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<String>, Unclear> {
    if body.is_empty() {
        return Ok(None);
    }

    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err("its body is compressed");
    }

    let content = ContentType::of(headers)?;
    content.check_charset()?;

    // Signs of forms within JSON belong to a text.
    if content.is_json() {
        return denied_key(body);
    }

    if looks_like_json(body)
        && let Some(name) = denied_key(body)?
    {
        return Ok(Some(name));
    }

    Ok(denied_name(body).or_else(|| multipart::denied_name(body)))
}

/// Returns the methods that parameters of the URI with common names have as values.
pub(crate) fn methods_in_uri(head: &Parts) -> Vec<String> {
    let mut values: Vec<_> = path_parameters(head).flat_map(methods).collect();
    values.extend(methods(head.uri.query().unwrap_or_default().as_bytes()));
    values
}

/// Returns such values in the body, if it may be a form. In JSON, they are those of health checks.
pub(crate) fn methods_in_body(headers: &HeaderMap, body: &[u8]) -> Vec<String> {
    if ContentType::of(headers).is_ok_and(|content| content.is_json()) || looks_like_json(body) {
        return Vec::new();
    }

    let mut values = methods(body);
    values.extend(multipart::methods(body));
    values
}

/// Returns the first of the methods that does not only read.
pub(crate) fn first_write(methods: &[String]) -> Option<&str> {
    let reads = |name: &&String| ["GET", "HEAD", "OPTIONS"].contains(&name.as_str());
    methods.iter().find(|name| !reads(name)).map(String::as_str)
}

/// Returns true if servers may read a method in the body of this request: they do so only with
/// POST, in a form or in JSON.
pub(crate) fn may_be_in_body(head: &Parts) -> bool {
    head.method == Method::POST
        // A `Content-Type` that is not valid is denied when the body is read.
        && ContentType::of(&head.headers).map_or(true, |content| may_have_parameters(&content.kind))
}

/// Returns true for media types that servers read parameters from, and for unknown ones, which
/// lenient servers take for forms.
fn may_have_parameters(kind: &str) -> bool {
    let is_other = NOT_PARAMETERS.iter().any(|family| kind.starts_with(family));
    !is_other || PARAMETERS.iter().any(|word| kind.contains(word))
}

fn path_parameters(head: &Parts) -> impl Iterator<Item = &[u8]> {
    let segments = head.uri.path().split('/');
    segments.filter_map(|segment| Some(segment.split_once(';')?.1.as_bytes()))
}

/// Returns true if the body starts like a JSON object, or like a list of them, also in UTF-16. Some
/// servers read JSON whatever its type.
fn looks_like_json(body: &[u8]) -> bool {
    let is_before = |byte: &u8| b" \t\r\n[\0\xef\xbb\xbf\xfe\xff".contains(byte);
    body.iter().find(|byte| !is_before(byte)) == Some(&b'{')
}

/// Returns the name of a pair in a form or a query that means another method.
fn denied_name(text: &[u8]) -> Option<String> {
    let mut names = pairs(text).map(|(name, _)| name);
    names.find(|name| is_denied(name)).map(|name| shown(&name))
}

/// Returns a key of a JSON object that means another method.
fn denied_key(body: &[u8]) -> Result<Option<String>, Unclear> {
    let keys = json::keys(body).map_err(|_| "its body is not valid JSON")?;
    let found = keys.into_iter().find(|key| is_denied(key.as_bytes()));
    Ok(found.map(|key| shown(key.as_bytes())))
}

/// Returns the methods that pairs with common names in a form or a query have as values.
fn methods(text: &[u8]) -> Vec<String> {
    let values = pairs(text).filter(|(name, _)| is_common(name));
    values
        .map(|(_, value)| method(&decode(truncated(value))))
        .collect()
}

/// Returns the pairs of a form or a query, with decoded names.
fn pairs(text: &[u8]) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
    let pairs = text.split(|byte| b"&;".contains(byte));
    pairs.map(|pair| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let name = halves.next().unwrap_or_default();
        let value = halves.next().unwrap_or_default();
        (decode(truncated(without_blanks(name))), value)
    })
}

/// Returns the method that a value names.
fn method(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim().to_ascii_uppercase()
}

/// Returns true for names that mean the method in any way: `_method` (Rails, Laravel, Symfony,
/// Spring), `_HttpMethod` (Salesforce), `$httpMethod` (Google), `X-HTTP-Method-Override` and so on.
/// PHP reads `.method` and `_method[]` as `_method`, and ends a name at a zero byte.
fn means_method(name: &[u8]) -> bool {
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

/// Returns true for names of fields and parameters that mean the method and nothing else: with a
/// sign before them, or `override` at their end.
fn is_denied(name: &[u8]) -> bool {
    let name = until_bracket(name);
    let is_sign = |byte: &u8| !byte.is_ascii_alphanumeric();

    let has_sign = match name {
        [b'x' | b'X', second, ..] => is_sign(second),
        [first, ..] => is_sign(first),
        [] => false,
    };

    let end = name.len().checked_sub(b"override".len());
    let end = end.and_then(|at| name.get(at..));
    let overrides = end.is_some_and(|end| end.eq_ignore_ascii_case(b"override"));

    (has_sign || overrides) && means_method(name)
}

/// Returns true for `httpMethod` in all of its spellings, which is a common field, for example of
/// health checks.
fn is_common(name: &[u8]) -> bool {
    memmem::find(&name.to_ascii_lowercase(), b"http").is_some() && means_method(name)
}

fn until_bracket(name: &[u8]) -> &[u8] {
    let mut parts = name.split(|byte| b"[\0".contains(byte));
    parts.next().unwrap_or_default()
}

fn truncated(text: &[u8]) -> &[u8] {
    text.get(..LONGEST).unwrap_or(text)
}

/// Returns the name without the blanks before it, which PHP ignores.
fn without_blanks(mut name: &[u8]) -> &[u8] {
    let blanks: [&[u8]; 3] = [b" ", b"+", b"%20"];
    while let Some(rest) = blanks.iter().find_map(|blank| name.strip_prefix(*blank)) {
        name = rest;
    }
    name
}

/// Returns the name for a message.
fn shown(name: &[u8]) -> String {
    format!("`{}`", text::beginning(&String::from_utf8_lossy(name), 40))
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
        let long_name = format!("/?a=b&_method%00{}", "=DELETE".repeat(300));
        let table = [
            ("/?_method=DELETE", "x-a", true),
            ("/?a=1&%5FMETHOD=DELETE", "x-a", true),
            ("/?a=1;_method", "x-a", true),
            ("/?x_method=DELETE", "x-a", true),
            ("/?a=1;_HttpMethod=x", "x-a", true),
            ("/?$httpMethod=DELETE", "x-a", true),
            ("/?httpMethod=GET&http_method=GET", "x-a", false),
            ("/?http_method_override=DELETE", "x-a", true),
            ("/?x.http.method=DELETE", "x-a", true),
            (&long_name, "x-a", true),
            ("/", "method-override", true),
            ("/", "http-verb", true),
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
            ("/?verb=get&adverb=x&httpVerb=x&httpMethods=x", "x-a", false),
        ];
        for (uri, header, expected) in table {
            let found = denied_name_in_head(&head("GET", uri, &[(header, "DELETE")]));
            assert_eq!(found.is_some(), expected, "{uri} {header}: {found:?}");
        }
    }

    #[test]
    fn values_of_common_names_are_found() {
        for (uri, expected) in [
            ("/x?httpMethod=DELETE", &["DELETE"][..]),
            (
                "/x?http_method=GET&a=b&HTTP-Method=delete",
                &["GET", "DELETE"],
            ),
            ("/x?http%4dethod%5b%5d=+put;httpVerb", &["PUT", ""]),
            ("/x;httpMethod=DELETE/y", &["DELETE"]),
            ("/x?method=DELETE&httpMethods=a&verb=b&auth_method=c", &[]),
        ] {
            assert_eq!(methods_in_uri(&head("GET", uri, &[])), expected, "{uri}");
        }

        let form = "application/x-www-form-urlencoded";
        let multipart = "multipart/form-data; boundary=x";
        let many = "name=httpMethod;".repeat(20_000);
        for (kind, body, expected) in [
            (
                form,
                "httpMethod=POST&httpMethod=DELETE",
                &["POST", "DELETE"][..],
            ),
            ("", "httpMethod=DELETE", &["DELETE"]),
            ("application/json", "\"&httpMethod=DELETE&\"", &[]),
            (form, "{\"httpMethod\": \"GET\"}", &[]),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name=\"httpMethod\"\r\n\r\nDelete\r\n--x--",
                &["DELETE"],
            ),
            (
                multipart,
                "--x\nContent-Disposition: form-data; name='http_method[]'\nContent-Type: text/plain\n\n GET \n--x--",
                &["GET"],
            ),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name=httpMethod; filename=x\r\n\r\nGET\r\n--x--",
                &[""],
            ),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name*=utf-8''http%4dethod\r\n\r\n\r\nDELETE\r\n--x--",
                &[""],
            ),
            (
                multipart,
                "--x\r\nContent-Disposition: form-data; name=method\r\n\r\nname=\"x\"\r\n--x--",
                &[],
            ),
        ] {
            let head = head("POST", "/", &[("content-type", kind)]);
            let found = methods_in_body(&head.headers, body.as_bytes());
            assert_eq!(found, expected, "{kind} {body}");
        }
        let head = head("POST", "/", &[("content-type", multipart)]);
        assert_eq!(
            methods_in_body(&head.headers, many.as_bytes()).len(),
            20_000
        );
    }

    #[test]
    fn another_method_in_a_body_is_found() {
        let form = "application/x-www-form-urlencoded";
        let multipart = "multipart/form-data; boundary=x";
        let json = "application/json; charset=utf-8";
        let blanks = format!("{}%20_method=DELETE", "+".repeat(260));
        let names = "name=".repeat(200_000);
        let long = "x".repeat(300);
        let ended = format!("_method%00{long}=DELETE");
        let in_brackets = format!("a=b&_method[{long}]=DELETE");
        let (padded, long_part) = [" ".repeat(300), String::new()]
            .map(|blanks| {
                format!("--x\r\nContent-Disposition: form-data; name=\"{blanks}_method[{long}]\"")
            })
            .into();
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
            (form, &ended, true),
            (form, &in_brackets, true),
            (multipart, &padded, true),
            (multipart, &long_part, true),
            // The media type is what counts, and not other words in the header.
            (
                "application/x-www-form-urlencoded; a=json",
                "\"&_method=DELETE&\"",
                true,
            ),
            (
                "application/x-www-form-urlencoded; v=json",
                "[\"&_method=DELETE&\"]",
                true,
            ),
            (
                "application/x-www-form-urlencoded; charset=iso-8859-15",
                "_method=DELETE",
                true,
            ),
            ("application/json; charset=utf8", "{\"a\": 1}", false),
            // Some servers read JSON of any type.
            ("text/plain", "{\"_method\": \"DELETE\"}", true),
            ("", "\u{feff} [{\"_method\": \"DELETE\"}]", true),
            (form, "{\"a\": 1, \"_method\": \"DELETE\"}", true),
            ("text/json", "{\"_method\": \"DELETE\"}", true),
            ("text/plain", "{\"a\": \"b\"}", false),
            ("text/plain", "[section]\nmethod = x", false),
            (form, "formula=name*2&x=filename*1", false),
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
            let found = denied_name_in_body(&head.headers, body.as_bytes()).unwrap();
            assert_eq!(found.is_some(), expected, "{kind} {body}: {found:?}");
        }
    }

    #[test]
    fn a_body_that_cannot_be_read_is_unclear() {
        const KIND: &str = "content-type";
        const FORM: &str = "application/x-www-form-urlencoded";
        let table: [(&[(&str, &str)], &str); 9] = [
            (&[(KIND, "application/json")], "{'_method': 'DELETE'}"),
            (
                &[(KIND, "application/x-www-form-urlencoded; charset=ibm037")],
                "x",
            ),
            (
                &[(
                    KIND,
                    "application/x-www-form-urlencoded; xcharset=utf-8; charset=ibm037",
                )],
                "x",
            ),
            (
                &[(KIND, "application/json"), (KIND, FORM)],
                "\"&_method=DELETE&\"",
            ),
            (
                &[(KIND, "text/xml; a=b, application/x-www-form-urlencoded")],
                "_method=DELETE",
            ),
            (&[(KIND, "application/json; x=é")], "{}"),
            (&[(KIND, "text/plain")], "{\"a\": 1} x"),
            (&[], "\0{\0\"\0_\0m\0\""),
            (&[("content-encoding", "gzip")], "x"),
        ];
        for (headers, body) in table {
            let head = head("POST", "/", headers);
            assert!(may_be_in_body(&head), "{headers:?}");
            assert!(
                denied_name_in_body(&head.headers, body.as_bytes()).is_err(),
                "{headers:?}"
            );
        }
    }

    #[test]
    fn only_forms_and_json_of_posts_are_read() {
        for (method, kind, expected) in [
            ("POST", "application/octet-stream", false),
            ("POST", "text/xml; charset=utf-8", false),
            ("POST", "application/octet-stream; a=json", false),
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
