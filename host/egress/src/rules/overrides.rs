//! Headers and parameters with which some servers replace the method of a request.
//!
//! Rules decide on the method of the request line. A server that reads another one elsewhere would
//! do what no rule allows.

use http::{HeaderMap, Method, header::CONTENT_ENCODING, request::Parts};
use memchr::memmem;
use skydock_credentials::{
    request::actions::{Unclear, decode},
    request::content_type::ContentType,
    request::json,
};

/// Maximum bytes of a name that are read: what is longer is the text of another format, unless a
/// server ends the name before.
const LONGEST: usize = 256;

/// Returns the header or query parameter that could replace the method.
pub(crate) fn in_head(head: &Parts) -> Option<String> {
    let mut headers = head.headers.keys().map(http::HeaderName::as_str);
    let has_word = |name: &str| {
        let ends = ["method", "verb", "override"];
        ends.iter().any(|end| name.ends_with(end))
    };

    if let Some(name) = headers.find(|name| has_word(name) && is_override(name.as_bytes())) {
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

/// Returns the values of parameters such as `httpMethod` in the URI, which some servers read as the
/// method. They are common names, so a rule must allow what they say.
pub(crate) fn named_in_uri(head: &Parts) -> Vec<String> {
    let segments = head.uri.path().split('/');
    let mut texts = segments.filter_map(|segment| Some(segment.split_once(';')?.1));
    let mut named: Vec<_> = texts.by_ref().flat_map(|it| named(it.as_bytes())).collect();
    named.extend(self::named(head.uri.query().unwrap_or_default().as_bytes()));
    named
}

/// Returns such values in the body, if it may be a form. In JSON, they are those of health checks.
pub(crate) fn named_in_body(headers: &HeaderMap, body: &[u8]) -> Vec<String> {
    if ContentType::of(headers).is_ok_and(|content| content.is_json()) || looks_like_json(body) {
        return Vec::new();
    }

    let mut found = named(body);
    found.extend(named_in_parts(body));
    found
}

/// Returns the first of such values that does not only read.
pub(crate) fn write(named: &[String]) -> Option<&str> {
    let reads = |name: &&String| ["GET", "HEAD", "OPTIONS"].contains(&name.as_str());
    named.iter().find(|name| !reads(name)).map(String::as_str)
}

fn named(text: &[u8]) -> Vec<String> {
    let value = |pair: &[u8]| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let name = decode(beginning(without_blanks(halves.next()?)));
        names_method(&name).then(|| method(&decode(beginning(halves.next().unwrap_or_default()))))
    };

    let pairs = text.split(|byte| b"&;".contains(byte));
    pairs.filter_map(value).collect()
}

fn named_in_parts(body: &[u8]) -> Vec<String> {
    let value = |(name, after): (PartName, &[u8])| match name {
        PartName::Whole(names) => names
            .iter()
            .any(|name| names_method(name))
            .then(|| method(part_value(after))),
        // Requests with such names are denied before.
        PartName::Continued => None,
    };

    let lower = body.to_ascii_lowercase();
    part_names(&lower).filter_map(value).collect()
}

/// Returns true for `httpMethod` in all of its spellings.
fn names_method(name: &[u8]) -> bool {
    memmem::find(&name.to_ascii_lowercase(), b"http").is_some() && is_override(name)
}

fn method(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim().to_ascii_uppercase()
}

/// Returns the first line of a part's value, given what follows its name, or nothing, which is no
/// method, if the value is not found.
fn part_value(after_name: &[u8]) -> &[u8] {
    let ends: [&[u8]; 2] = [b"\r\n\r\n", b"\n\n"];
    let starts = ends.iter().filter_map(|end| {
        let at = memmem::find(after_name, end)?;
        Some(at + end.len())
    });

    let value = starts.min().and_then(|at| after_name.get(at..));
    let line = value.and_then(|value| value.split(|byte| b"\r\n".contains(byte)).next());
    line.unwrap_or_default()
}

/// Returns true if servers may read a method in the body of this request: they do so only with
/// POST, in a form or in JSON.
pub(crate) fn may_be_in_body(head: &Parts) -> bool {
    head.method == Method::POST
        // A `Content-Type` that is not valid is denied when the body is read.
        && ContentType::of(&head.headers).map_or(true, |content| is_read(&content.kind))
}

/// Returns true for media types that servers read parameters from.
fn is_read(kind: &str) -> bool {
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

    let content = ContentType::of(headers)?;
    content.check_charset()?;

    // Signs of forms within JSON belong to a text.
    if content.is_json() {
        return json_override(body);
    }

    if looks_like_json(body)
        && let Some(name) = json_override(body)?
    {
        return Ok(Some(name));
    }

    Ok(form_override(body).or_else(|| multipart_override(body)))
}

/// Returns true if the body starts like a JSON object, or like a list of them, also in UTF-16. Some
/// servers read JSON whatever its type.
fn looks_like_json(body: &[u8]) -> bool {
    let is_before = |byte: &u8| b" \t\r\n[\0\xef\xbb\xbf\xfe\xff".contains(byte);
    body.iter().find(|byte| !is_before(byte)) == Some(&b'{')
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

/// Returns true for names of fields and parameters that mean another method. Without a sign before
/// it, or the word at its end, `httpMethod` is a common field, for example of health checks.
fn is_field(name: &[u8]) -> bool {
    let name = until_bracket(name);
    let is_sign = |byte: &u8| !byte.is_ascii_alphanumeric();

    let means = match name {
        [b'x' | b'X', second, ..] => is_sign(second),
        [first, ..] => is_sign(first),
        [] => false,
    };

    let end = name.len().checked_sub(b"override".len());
    let end = end.and_then(|at| name.get(at..));
    let overrides = end.is_some_and(|end| end.eq_ignore_ascii_case(b"override"));

    (means || overrides) && is_override(name)
}

fn until_bracket(name: &[u8]) -> &[u8] {
    let mut parts = name.split(|byte| b"[\0".contains(byte));
    parts.next().unwrap_or_default()
}

/// Returns the name of a pair in a form or a query that means another method.
fn form_override(text: &[u8]) -> Option<String> {
    let mut names = text
        .split(|byte| b"&;".contains(byte))
        .filter_map(|pair| pair.split(|byte| *byte == b'=').next())
        .map(|name| decode(beginning(without_blanks(name))));

    names.find(|name| is_field(name)).map(|name| shown(&name))
}

fn beginning(name: &[u8]) -> &[u8] {
    name.get(..LONGEST).unwrap_or(name)
}

/// Returns the name without the blanks before it, which PHP ignores.
fn without_blanks(mut name: &[u8]) -> &[u8] {
    let blanks: [&[u8]; 3] = [b" ", b"+", b"%20"];
    while let Some(rest) = blanks.iter().find_map(|blank| name.strip_prefix(*blank)) {
        name = rest;
    }
    name
}

/// Returns a name of a part of a multipart body that means another method.
fn multipart_override(body: &[u8]) -> Option<String> {
    let lower = body.to_ascii_lowercase();
    part_names(&lower).find_map(|(name, _)| match name {
        PartName::Whole(names) => names.iter().find(|name| is_field(name)).map(|it| shown(it)),
        PartName::Continued => Some("`name*0`".to_owned()),
    })
}

/// The name of a part of a multipart body.
enum PartName {
    /// The name, in all of the ways in which servers read it.
    Whole(Vec<Vec<u8>>),
    /// A name that is continued (RFC 2231) is known only if all of its pieces are put together.
    Continued,
}

/// Returns the names of the parts of a body in lower case, wherever they are written, each with
/// what follows it until the next one.
fn part_names(lower: &[u8]) -> impl Iterator<Item = (PartName, &[u8])> {
    let mut places = memmem::find_iter(lower, b"name").peekable();
    let places = std::iter::from_fn(move || Some((places.next()?, places.peek().copied())));

    places.filter_map(|(at, next)| {
        // A body can consist of nothing but such names. What has another in it is no method.
        let after = lower.get(at + b"name".len()..next.unwrap_or(lower.len()));
        let after = after.unwrap_or_default();

        let extended = after.strip_prefix(b"*");
        if extended.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit)) {
            return Some((PartName::Continued, after));
        }

        let value = extended.unwrap_or(after).trim_ascii_start();
        let value = value.strip_prefix(b"=")?.trim_ascii_start();
        let (value, ends) = match value.strip_prefix(b"\"") {
            Some(quoted) => (quoted, &b"\"\r\n"[..]),
            None => (value, &b";\r\n"[..]),
        };

        let value = beginning(without_blanks(value));
        let name = decode(value.split(|byte| ends.contains(byte)).next()?);

        // In the extended form, the charset and the language come before the name; and PHP takes
        // single quotes, too.
        let names = name.split(|byte| *byte == b'\'').map(<[u8]>::to_vec);
        Some((PartName::Whole(names.collect()), after))
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
            let found = in_head(&head("GET", uri, &[(header, "DELETE")]));
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
            assert_eq!(named_in_uri(&head("GET", uri, &[])), expected, "{uri}");
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
            let found = named_in_body(&head.headers, body.as_bytes());
            assert_eq!(found, expected, "{kind} {body}");
        }
        let head = head("POST", "/", &[("content-type", multipart)]);
        assert_eq!(named_in_body(&head.headers, many.as_bytes()).len(), 20_000);
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
                in_body(&head.headers, body.as_bytes()).is_err(),
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
