//! Names of the actions in requests to APIs with a single path: `Action=` of query APIs,
//! `X-Amz-Target`, SOAP.
//!
//! A request may name an action in several places, and servers differ in which one they use. So all
//! of them are collected, and each must be allowed.

mod soap;

use http::{HeaderMap, Method, header, request::Parts};
use memchr::memchr;

use crate::request::{Unclear, content_type::ContentType, encode::unpercent, glob::is_action};

/// Maximum number of actions that a request names in one place. Clouds read one; each must be
/// compared with the actions of rules.
const MAX_NAMED: usize = 16;

/// The actions that a request names, and whether its body may name more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Their names, without the name of the API.
    pub named: Vec<String>,
    /// True if the request can have a body, which was not read yet and may name more actions.
    pub open: bool,
}

/// Headers of Tencent Cloud and Alibaba Cloud that name the action of a body in JSON.
const OF_JSON: &[&str] = &["x-tc-action", "x-acs-action"];

/// Returns the actions that the head of a request names.
///
/// # Errors
/// If a name is not a valid action.
pub fn of_head(head: &Parts) -> Result<Actions, Unclear> {
    let mut named = Vec::new();
    form(head.uri.query().unwrap_or_default().as_bytes(), &mut named)?;

    for value in head.headers.get_all("x-amz-target") {
        let value = value.to_str().map_err(|_| "its X-Amz-Target is not text")?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._".contains(&byte);
        // CloudTrail's service has the name of a package. The action of others follows the first dot.
        let is_package = value.starts_with("com.amazonaws.");
        if !value.bytes().all(is_name) || !is_package && value.matches('.').count() > 1 {
            return Err("its X-Amz-Target is not valid");
        }

        add(
            &mut named,
            value.rsplit('.').next().unwrap_or_default().as_bytes(),
        )?;
    }

    for value in OF_JSON.iter().flat_map(|name| head.headers.get_all(*name)) {
        add(&mut named, value.as_bytes())?;
    }

    for value in head.headers.get_all("soapaction") {
        let value = value
            .to_str()
            .map_err(|_| "its SOAPAction is not text")?
            .trim()
            .trim_matches('"');
        if !value.is_empty() && !is_version(value) {
            add(&mut named, soap::last_part(value).as_bytes())?;
        }
    }

    let open = !is_bodiless(&head.method);
    if open
        && !named.is_empty()
        && ContentType::of(&head.headers)?.is_json()
        && !head.headers.contains_key("x-amz-target")
        && !OF_JSON.iter().any(|name| head.headers.contains_key(*name))
    {
        return Err("its body is JSON, but no header such as X-Amz-Target has its action");
    }

    if let Some(operation) = in_path(head.uri.path()) {
        add(&mut named, &operation)?;
    }

    Ok(Actions { named, open })
}

/// Returns the operation in a path of Smithy's RPC protocol: `/service/NAME/operation/NAME`.
fn in_path(path: &str) -> Option<Vec<u8>> {
    let path = unpercent(path);
    let mut rest = path
        .split(|byte| *byte == b'/')
        .filter(|segment| !segment.is_empty())
        .skip_while(|segment| !segment.eq_ignore_ascii_case(b"service"))
        .skip(2);

    let keyword = rest.next()?;
    let operation = rest.next()?;
    (keyword.eq_ignore_ascii_case(b"operation") && rest.next().is_none())
        .then(|| operation.to_vec())
}

/// Returns true for what vSphere gets as SOAPAction: the version of an API, such as `urn:vim25/8.0`.
fn is_version(action: &str) -> bool {
    let version = action.strip_prefix("urn:");
    version
        .and_then(|it| it.split_once('/'))
        .is_some_and(|(name, version)| {
            let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
            name.bytes().all(|byte| byte.is_ascii_alphanumeric()) && version.bytes().all(is_number)
        })
}

/// Returns true for methods whose requests must not have a body here.
pub fn is_bodiless(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Returns true for methods whose requests can be reads: those that read, and POST, by which some
/// APIs read, too.
pub fn can_read(method: &Method) -> bool {
    is_bodiless(method) || *method == Method::POST
}

/// Returns the actions that the body of a request names.
///
/// # Errors
/// If servers may interpret the body in different ways.
pub fn of_body(headers: &HeaderMap, body: &[u8]) -> Result<Vec<String>, Unclear> {
    let mut named = Vec::new();
    let content = ContentType::of(headers)?;
    // In a URL, the last part is the action, as in SOAPAction.
    let action = content.action.map(soap::last_part);
    if let Some(action) = action.filter(|action| !action.is_empty()) {
        add(&mut named, action.as_bytes())?;
    }

    if body.is_empty() {
        return Ok(named);
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err("its body is compressed");
    }
    content.check_charset()?;

    let kind = content.kind.as_str();
    if content.is_json() {
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err("its body is not a JSON object although its Content-Type is JSON");
        }
        // Some servers ignore the type of the body and parse it as a form.
        form(body, &mut named)?;
    } else if kind.is_empty() || kind == "application/x-www-form-urlencoded" {
        form(body, &mut named)?;
    } else if kind == "text/xml" || kind == "application/xml" || kind.ends_with("+xml") {
        let operations = soap::operations(body)?;
        if operations.is_empty() && headers.contains_key("soapaction") {
            return Err("it has a SOAPAction, but its body is no envelope with an operation");
        }
        for name in operations {
            add(&mut named, name.as_bytes())?;
        }
    } else {
        return Err("its body is neither a form nor XML nor JSON");
    }

    Ok(named)
}

/// Adds the actions of a form or a query. CloudStack uses `command`, some older AWS APIs use
/// `Operation`.
fn form(text: &[u8], named: &mut Vec<String>) -> Result<(), Unclear> {
    // Some servers skip a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);

    for pair in text.split(|byte| *byte == b'&') {
        if pair.split(|byte| *byte == b';').any(resembles_action) {
            return Err("it has a parameter that resembles the name of an action");
        }
        if let Some(value) = of_action(pair) {
            add(named, &decode(value))?;
        }
        // Some servers still accept a semicolon as a separator of pairs; for others it is part of
        // the value.
        if pair
            .split(|byte| *byte == b';')
            .skip(1)
            .any(|pair| of_action(pair).is_some())
        {
            return Err("it names an action after a semicolon");
        }
    }
    Ok(())
}

/// Returns the value if the name of the pair is one that names actions.
fn of_action(pair: &[u8]) -> Option<&[u8]> {
    let mut halves = pair.splitn(2, |byte| *byte == b'=');
    let name = decode(halves.next().unwrap_or_default());

    let is_word = |name: &[u8]| {
        let name: Vec<u8> = name.iter().copied().filter(u8::is_ascii_graphic).collect();
        // Some servers read a list or a map with this name as a single value.
        let name = name.split(|byte| b"[.".contains(byte)).next();
        let name = name.unwrap_or_default();
        [&b"action"[..], b"command", b"operation"]
            .iter()
            .any(|word| name.eq_ignore_ascii_case(word))
    };

    // PHP ends a name at a zero byte, others ignore the byte.
    let ended = memchr(0, &name).and_then(|end| name.get(..end));
    (is_word(&name) || ended.is_some_and(is_word)).then(|| halves.next().unwrap_or_default())
}

/// Returns true if the name of the pair is one that names actions once its letters that are not ASCII,
/// such as full-width ones, are converted.
fn resembles_action(pair: &[u8]) -> bool {
    let name = decode(pair.split(|byte| *byte == b'=').next().unwrap_or_default());
    if name.is_ascii() {
        return false;
    }

    let name = String::from_utf8_lossy(&name);
    let name = name.trim_matches(|letter: char| letter.is_whitespace() || letter.is_control());
    let name = name.split(['[', '.']).next().unwrap_or_default();
    // What a letter is converted to depends on the server.
    let is_like = |word: &&str| {
        let mut pairs = name.chars().zip(word.chars());
        name.chars().count() == word.len()
            && pairs.all(|(letter, it)| !letter.is_ascii() || letter.eq_ignore_ascii_case(&it))
    };
    ["action", "command", "operation"].iter().any(is_like)
}

/// Adds the name of an action.
fn add(named: &mut Vec<String>, name: &[u8]) -> Result<(), Unclear> {
    if named.len() >= MAX_NAMED {
        return Err("it names too many actions");
    }

    match std::str::from_utf8(name) {
        Ok(name) if !name.is_empty() && name.bytes().all(is_action) => named.push(name.to_owned()),
        _ => return Err("it names an invalid action"),
    }
    Ok(())
}

/// Decodes form encoding; invalid escape sequences are not changed.
pub fn decode(text: &[u8]) -> Vec<u8> {
    let mut spaced = text.to_vec();
    for plus in memchr::memchr_iter(b'+', text) {
        if let Some(byte) = spaced.get_mut(plus) {
            *byte = b' ';
        }
    }

    unpercent(spaced)
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

    const FORM: (&str, &str) = (
        "content-type",
        "application/x-www-form-urlencoded; charset=utf-8",
    );
    const SOAP: &str = "<?xml version=\"1.0\"?><s:Envelope xmlns:s=\"x\"><s:Body><RetrieveProperties/></s:Body></s:Envelope>";

    #[test]
    fn finds_actions_in_query_form_header_and_soap_body() {
        type Case<'a> = (
            &'a str,
            &'a str,
            &'a [(&'a str, &'a str)],
            &'a str,
            &'a [&'a str],
        );
        let table: [Case<'_>; 24] = [
            (
                "POST",
                "/",
                &[FORM],
                "Version=1&Action=DescribeTags",
                &["DescribeTags"],
            ),
            ("POST", "/", &[FORM], "%41ction=A%62c", &["Abc"]),
            (
                "POST",
                "/",
                &[FORM],
                "+action=Abc&ACTION=Def",
                &["Abc", "Def"],
            ),
            ("POST", "/", &[], "Action=Abc", &["Abc"]),
            (
                "POST",
                "/",
                &[(
                    "content-type",
                    "application/x-www-form-urlencoded;charset=utf8;",
                )],
                "Action%00x=Abc&A%00ction=Def",
                &["Abc", "Def"],
            ),
            ("GET", "/?Action=Abc", &[], "", &["Abc"]),
            (
                "GET",
                "/client/api?command=listZones",
                &[],
                "",
                &["listZones"],
            ),
            (
                "POST",
                "/?Action=Abc",
                &[FORM],
                "Action=Def",
                &["Abc", "Def"],
            ),
            (
                "POST",
                "/",
                &[
                    ("x-tc-action", "DescribeInstances"),
                    ("content-type", "application/json"),
                ],
                "{\"Limit\": 1}",
                &["DescribeInstances"],
            ),
            (
                "POST",
                "/",
                &[
                    ("x-amz-target", "Kms_2014.Decrypt"),
                    ("content-type", "application/x-amz-json-1.1"),
                ],
                "{}",
                &["Decrypt"],
            ),
            (
                "POST",
                "/",
                &[
                    ("soapaction", "\"http://example.com/svc/Stop\""),
                    ("content-type", "text/xml"),
                ],
                SOAP,
                &["Stop", "RetrieveProperties"],
            ),
            (
                "POST",
                "/",
                &[("soapaction", "Stop/"), ("content-type", "text/xml")],
                SOAP,
                &["Stop", "RetrieveProperties"],
            ),
            (
                "POST",
                "/",
                &[("soapaction", "urn:Stop#8"), ("content-type", "text/xml")],
                SOAP,
                &["8", "RetrieveProperties"],
            ),
            (
                "POST",
                "/sdk",
                &[
                    ("soapaction", "urn:vim25/8.0.1.0"),
                    ("content-type", "text/xml"),
                ],
                SOAP,
                &["RetrieveProperties"],
            ),
            (
                "POST",
                "/v3/x",
                &[("content-type", "application/json")],
                "{\"Action\":1}",
                &[],
            ),
            (
                "POST",
                "/",
                &[("content-type", "application/json")],
                "{}&Action=Abc",
                &["Abc"],
            ),
            (
                "POST",
                "/sdk",
                &[(
                    "content-type",
                    "application/soap+xml; charset=utf-8; action=\"urn:x/Stop\"",
                )],
                SOAP,
                &["Stop", "RetrieveProperties"],
            ),
            ("GET", "/v3/x?limit=1", &[], "", &[]),
            ("GET", "/v3/x?%C3%A4ctive=1&factor=%EF%BC%A1", &[], "", &[]),
            (
                "GET",
                "/?Action=DescribeX&Action.1=Terminate&Action[]=Stop&Actions.member.1=A",
                &[],
                "",
                &["DescribeX", "Terminate", "Stop"],
            ),
            (
                "POST",
                "/service/S/operation/Terminate",
                &[
                    ("x-amz-target", "Svc.DescribeX"),
                    ("content-type", "application/json"),
                ],
                "{}",
                &["DescribeX", "Terminate"],
            ),
            (
                "POST",
                "/x//Service/S/%6fperation/Terminate/",
                &[],
                "",
                &["Terminate"],
            ),
            ("GET", "/service/operation/x", &[], "", &[]),
            (
                "POST",
                "/",
                &[(
                    "x-amz-target",
                    "com.amazonaws.cloudtrail.v20131101.CloudTrail_20131101.LookupEvents",
                )],
                "",
                &["LookupEvents"],
            ),
        ];
        for (method, uri, headers, body, expected) in table {
            assert_eq!(
                named(&head(method, uri, headers), body).unwrap(),
                expected,
                "{method} {uri} {body}"
            );
        }
    }

    #[test]
    fn ambiguous_actions_are_rejected() {
        let target = http::Request::post("/?Action=A")
            .header("content-type", "application/json")
            .body(())
            .unwrap();
        assert!(of_head(&target.into_parts().0).is_err());
        let table: [(&[(&str, &str)], &str); 24] = [
            (&[FORM], "%EF%BC%A1ction=Terminate&Action=DescribeX"),
            (&[FORM], "Action=DescribeX;%EF%BC%A1ction[]=Terminate"),
            (&[FORM], "c\u{ff4f}mmand=Terminate"),
            (&[FORM], "Action=DescribeTags;Action=Terminate"),
            (&[FORM], "Action="),
            (&[FORM], "Action=Describe%00Terminate"),
            (&[FORM], "Action%00x=&Acti%00on=A"),
            (
                &[(
                    "content-type",
                    "application/x-www-form-urlencoded; charset=ibm037",
                )],
                "Action=A",
            ),
            (
                &[("content-type", "multipart/form-data; boundary=x")],
                "--x",
            ),
            (&[FORM, ("content-encoding", "gzip")], "Action=A"),
            (&[FORM, FORM], "Action=A"),
            (
                &[("content-type", "text/xml")],
                "<!DOCTYPE x><Envelope><Body><A/></Body></Envelope>",
            ),
            (&[("x-amz-target", "")], ""),
            (&[("x-amz-target", "Svc.Terminate.DescribeX")], ""),
            (&[("x-amz-target", "Svc.Terminate,Svc.DescribeX")], ""),
            (
                &[("content-type", "text/xml"), ("soapaction", "DescribeX")],
                "<Terminate/>",
            ),
            // Some servers parse the type only up to the first comma, space or slash.
            (
                &[("content-type", "application/x-www-form-urlencoded,x/y+json")],
                "Action=Terminate",
            ),
            (
                &[("content-type", "application/x-www-form-urlencoded x/y+json")],
                "Action=Terminate",
            ),
            (
                &[("content-type", "application/x-www-form-urlencoded/y+json")],
                "Action=Terminate",
            ),
            (&[("content-type", "application/json")], "Action=Terminate"),
            // Some servers use the last charset, and some accept spaces around the `=`.
            (
                &[(
                    "content-type",
                    "application/x-www-form-urlencoded; charset=utf-8; charset=ibm037",
                )],
                "x=%83",
            ),
            (
                &[(
                    "content-type",
                    "application/x-www-form-urlencoded; charset =ibm037",
                )],
                "x=%83",
            ),
            (
                &[(
                    "content-type",
                    "application/x-www-form-urlencoded; charset= ibm037",
                )],
                "x=%83",
            ),
            (
                &[("content-type", "application/x-www-form-urlencoded; charset")],
                "x=%83",
            ),
        ];
        for (headers, body) in table {
            assert!(
                named(&head("POST", "/", headers), body).is_err(),
                "{headers:?} {body}"
            );
        }

        assert!(named(&head("POST", "/", &[FORM]), &"Action=A&".repeat(MAX_NAMED)).is_ok());
        assert!(
            named(
                &head("POST", "/", &[FORM]),
                &"Action=A&".repeat(MAX_NAMED + 1)
            )
            .is_err()
        );
    }

    #[test]
    fn any_body_except_of_get_may_name_actions() {
        let table = [
            ("GET", "text/plain", false),
            ("POST", "application/json", true),
            ("POST", "text/xml", true),
            ("DELETE", "", true),
        ];
        for (method, kind, open) in table {
            let head = head(method, "/", &[("content-type", kind)]);
            assert_eq!(of_head(&head).unwrap().open, open, "{method} {kind}");
        }
    }

    #[test]
    fn requests_that_can_be_reads_are_told_by_their_method() {
        let methods = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];
        let reads = methods.map(|name| can_read(&Method::from_bytes(name.as_bytes()).unwrap()));
        assert_eq!(reads, [true, true, true, true, false, false, false]);
    }
}
