//! What a request to an API of one path asks for: `Action=` of query APIs, `X-Amz-Target`, SOAP.
//!
//! A request may name an action in several places, and servers differ in which they believe. So all are collected, and each of
//! them has to be permitted.

mod soap;

use http::{HeaderMap, Method, header, request::Parts};

use crate::glob::is_action;

/// Why the actions of a request cannot be told. A sentence's end.
pub(crate) type Unclear = &'static str;

/// Names of actions a request mentions, and whether its body may mention more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    pub(crate) named: Vec<String>,
    /// True if the body was not looked at yet and has a form that names actions.
    pub(crate) open: bool,
}

/// What the head mentions.
///
/// # Errors
/// A name that is none.
pub(crate) fn of_head(head: &Parts) -> Result<Actions, Unclear> {
    let mut named = Vec::new();
    form(head.uri.query().unwrap_or_default().as_bytes(), &mut named)?;
    for value in head.headers.get_all("x-amz-target") {
        let value = value.to_str().map_err(|_| "its X-Amz-Target is no text")?;
        named.push(action(value.rsplit('.').next().unwrap_or_default().as_bytes())?);
    }
    // Tencent's and Alibaba's.
    for value in ["x-tc-action", "x-acs-action"].iter().flat_map(|name| head.headers.get_all(*name)) {
        named.push(action(value.as_bytes())?);
    }
    for value in head.headers.get_all("soapaction") {
        let value = value.to_str().map_err(|_| "its SOAPAction is no text")?.trim().trim_matches('"');
        let name = value.rsplit(['/', '#', ':']).next().unwrap_or_default();
        // vSphere sends the version of its API there (`urn:vim25/8.0`), and no operation starts with a digit.
        if !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit()) {
            named.push(action(name.as_bytes())?);
        }
    }
    let json = !is_bodiless(&head.method) && is_json(&head.headers);
    if json && !named.is_empty() && !head.headers.contains_key("x-amz-target") {
        return Err("its body is JSON, and its action is not in X-Amz-Target");
    }
    Ok(Actions { named, open: !is_bodiless(&head.method) && !json })
}

/// True for methods whose requests have no body here.
pub(crate) fn is_bodiless(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// What the body mentions.
///
/// # Errors
/// A body that servers may read in several ways.
pub(crate) fn of_body(headers: &HeaderMap, body: &[u8]) -> Result<Vec<String>, Unclear> {
    let mut named = Vec::new();
    if body.is_empty() || is_json(headers) {
        return Ok(named);
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err("its body is compressed");
    }
    let (kind, charset) = content_type(headers)?;
    if !charset.is_none_or(|charset| ["utf-8", "us-ascii"].contains(&charset.as_str())) {
        return Err("its body is not in UTF-8");
    }
    let kind = kind.unwrap_or_default();
    if kind.is_empty() || kind == "application/x-www-form-urlencoded" {
        form(body, &mut named)?;
    } else if kind == "text/xml" || kind == "application/xml" || kind.ends_with("+xml") {
        for name in soap::operations(body)? {
            named.push(action(name.as_bytes())?);
        }
    } else {
        return Err("its body is neither a form nor XML nor JSON");
    }
    Ok(named)
}

fn content_type(headers: &HeaderMap) -> Result<(Option<String>, Option<String>), Unclear> {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = all.next() else { return Ok((None, None)) };
    if all.next().is_some() {
        return Err("it has more than one Content-Type");
    }
    let text = value.to_str().map_err(|_| "its Content-Type is no text")?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().map(str::to_owned);
    let charset = parts.find_map(|part| part.strip_prefix("charset="));
    Ok((kind, charset.map(|charset| charset.trim_matches('"').to_owned())))
}

fn is_json(headers: &HeaderMap) -> bool {
    let Ok((Some(kind), _)) = content_type(headers) else { return false };
    kind == "application/json" || kind.ends_with("+json") || kind.starts_with("application/x-amz-json-")
}

/// Adds the actions of a form or a query. `command` is CloudStack's word, and `Operation` one of older APIs of AWS.
fn form(text: &[u8], named: &mut Vec<String>) -> Result<(), Unclear> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for pair in text.split(|byte| *byte == b'&') {
        if let Some(value) = of_action(pair) {
            named.push(action(&decode(value))?);
        }
        // Some servers still take a semicolon for the end of a pair, and others for a part of it.
        if pair.split(|byte| *byte == b';').skip(1).any(|pair| of_action(pair).is_some()) {
            return Err("it names an action behind a semicolon");
        }
    }
    Ok(())
}

/// What stands behind a name that is a word for actions.
fn of_action(pair: &[u8]) -> Option<&[u8]> {
    let mut halves = pair.splitn(2, |byte| *byte == b'=');
    let name = decode(halves.next().unwrap_or_default());
    let name: Vec<u8> = name.into_iter().filter(u8::is_ascii_graphic).collect();
    let is_word = [&b"action"[..], b"command", b"operation"].iter().any(|word| name.eq_ignore_ascii_case(word));
    is_word.then(|| halves.next().unwrap_or_default())
}

fn action(name: &[u8]) -> Result<String, Unclear> {
    match std::str::from_utf8(name) {
        Ok(name) if !name.is_empty() && name.bytes().all(is_action) => Ok(name.to_owned()),
        _ => Err("it names an action that is no name"),
    }
}

/// Undoes the encoding of forms; what encodes nothing stays as it is.
pub(crate) fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = after.get(2..).unwrap_or_default();
            }
            (b'+', ..) => decoded.push(b' '),
            (byte, ..) => decoded.push(*byte),
        }
    }
    decoded
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

    fn named(head: &Parts, body: &str) -> Result<Vec<String>, Unclear> {
        let mut actions = of_head(head)?.named;
        actions.extend(of_body(&head.headers, body.as_bytes())?);
        Ok(actions)
    }

    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");
    const SOAP: &str =
        "<?xml version=\"1.0\"?><s:Envelope xmlns:s=\"x\"><s:Body><RetrieveProperties/></s:Body></s:Envelope>";

    #[test]
    fn an_action_is_found_wherever_an_api_puts_it() {
        type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, &'a [&'a str]);
        let table: [Case<'_>; 12] = [
            ("POST", "/", &[FORM], "Version=1&Action=DescribeTags", &["DescribeTags"]),
            ("POST", "/", &[FORM], "%41ction=A%62c", &["Abc"]),
            ("POST", "/", &[FORM], "+action=Abc&ACTION=Def", &["Abc", "Def"]),
            ("POST", "/", &[], "Action=Abc", &["Abc"]),
            ("GET", "/?Action=Abc", &[], "", &["Abc"]),
            ("GET", "/client/api?command=listZones", &[], "", &["listZones"]),
            ("POST", "/?Action=Abc", &[FORM], "Action=Def", &["Abc", "Def"]),
            (
                "POST",
                "/",
                &[("x-amz-target", "Kms_2014.Decrypt"), ("content-type", "application/x-amz-json-1.1")],
                "{}",
                &["Decrypt"],
            ),
            (
                "POST",
                "/",
                &[("soapaction", "\"http://example.com/svc/Stop\""), ("content-type", "text/xml")],
                SOAP,
                &["Stop", "RetrieveProperties"],
            ),
            (
                "POST",
                "/sdk",
                &[("soapaction", "urn:vim25/8.0.1.0"), ("content-type", "text/xml")],
                SOAP,
                &["RetrieveProperties"],
            ),
            ("POST", "/v3/x", &[("content-type", "application/json")], "{\"Action\":1}", &[]),
            ("GET", "/v3/x?limit=1", &[], "", &[]),
        ];
        for (method, uri, headers, body, expected) in table {
            assert_eq!(named(&head(method, uri, headers), body).unwrap(), expected, "{method} {uri} {body}");
        }
    }

    #[test]
    fn what_servers_may_read_in_several_ways_is_refused() {
        let target = http::Request::post("/?Action=A").header("content-type", "application/json").body(()).unwrap();
        assert!(of_head(&target.into_parts().0).is_err());
        let table: [(&[(&str, &str)], &str); 9] = [
            (&[FORM], "Action=DescribeTags;Action=Terminate"),
            (&[FORM], "Action="),
            (&[FORM], "Action=Describe%00Terminate"),
            (&[("content-type", "application/x-www-form-urlencoded; charset=ibm037")], "Action=A"),
            (&[("content-type", "multipart/form-data; boundary=x")], "--x"),
            (&[FORM, ("content-encoding", "gzip")], "Action=A"),
            (&[FORM, FORM], "Action=A"),
            (&[("content-type", "text/xml")], "<!DOCTYPE x><Envelope><Body><A/></Body></Envelope>"),
            (&[("x-amz-target", "")], ""),
        ];
        for (headers, body) in table {
            assert!(named(&head("POST", "/", headers), body).is_err(), "{headers:?} {body}");
        }
    }

    #[test]
    fn only_bodies_that_may_name_actions_are_looked_at() {
        let table = [
            ("GET", "text/plain", false),
            ("POST", "application/json", false),
            ("POST", "text/xml", true),
            ("DELETE", "", true),
        ];
        for (method, kind, open) in table {
            let head = head(method, "/", &[("content-type", kind)]);
            assert_eq!(of_head(&head).unwrap().open, open, "{method} {kind}");
        }
    }
}
