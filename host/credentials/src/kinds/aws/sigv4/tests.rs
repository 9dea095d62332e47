use super::*;

/// The test suite of AWS: see `tests/data/README.md`.
const SUITE: &str = include_str!("../../../../tests/data/aws4_testsuite.json");

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    req: String,
    creq: String,
    sts: String,
    authz: String,
}

struct Parsed {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Parses a request of the suite: paths may contain spaces, and headers may continue on the next
/// line.
fn parse(text: &str) -> Parsed {
    let text = text.replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let (method, rest) = lines.next().unwrap().split_once(' ').unwrap();
    let target = rest.rsplit_once(' ').unwrap().0;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in lines {
        match line.split_once(':').filter(|_| !line.starts_with(' ')) {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => headers.last_mut().unwrap().1.push_str(line),
        }
    }

    Parsed {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: body.to_owned(),
    }
}

fn keys() -> Keys {
    Keys {
        id: "AKIDEXAMPLE".to_owned(),
        secret: Secret::from("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        session: None,
    }
}

fn scope() -> Scope {
    Scope {
        region: "us-east-1".to_owned(),
        service: "service".to_owned(),
    }
}

#[test]
fn signs_every_aws_test_vector_as_published() {
    let cases: Vec<Case> = serde_json::from_str(SUITE).unwrap();
    assert_eq!(cases.len(), 34);
    for case in cases {
        let mut parsed = parse(&case.req);
        // In one case, the token is not in the request.
        let token = case
            .creq
            .lines()
            .find_map(|line| line.strip_prefix("x-amz-security-token:"));
        if let Some(token) = token.filter(|_| !case.req.contains("Security-Token")) {
            parsed
                .headers
                .push(("X-Amz-Security-Token".to_owned(), token.to_owned()));
        }
        let request = Unsigned {
            method: &parsed.method,
            path: &parsed.path,
            query: &parsed.query,
            headers: &parsed.headers,
            body: parsed.body.as_bytes(),
        };
        let name = &case.name;
        let date = "20150830T123600Z";
        let canonical = canonical_request(&request);
        assert_eq!(
            canonical,
            case.creq.replace("\r\n", "\n"),
            "{name}: canonical request"
        );
        let to_sign = string_to_sign(&canonical, &scope(), date);
        assert_eq!(
            to_sign,
            case.sts.replace("\r\n", "\n"),
            "{name}: string to sign"
        );
        assert_eq!(
            authorization(&request, &keys(), &scope(), date),
            case.authz,
            "{name}: authorization"
        );
    }
}

#[test]
fn dates_are_in_utc_with_seconds() {
    assert_eq!(
        date("2015-08-30T12:36:00.9+00:00".parse().unwrap()),
        "20150830T123600Z"
    );
    assert_eq!(
        date("2026-01-01T00:30:00+02:00".parse().unwrap()),
        "20251231T223000Z"
    );
}

#[test]
fn paths_are_normalized_and_encoded_again() {
    // Like botocore, for all services except S3.
    let table = [
        ("", "/"),
        ("/", "/"),
        ("//", "/"),
        ("/a//b", "/a/b"),
        ("/a/./b/../c/", "/a/c/"),
        ("/../a", "/a"),
        ("/a%2Fb c", "/a%252Fb%20c"),
        ("/%E1%88%B4", "/%25E1%2588%25B4"),
        ("/a:b@~", "/a%3Ab%40~"),
    ];
    for (path, canonical) in table {
        assert_eq!(canonical_path(path), canonical, "{path}");
    }
}

#[test]
fn queries_are_sorted_and_encoded_canonically() {
    let table = [
        ("", ""),
        ("b=2&a=1&a=0&A=9", "A=9&a=0&a=1&b=2"),
        ("a", "a="),
        ("a=b=c", "a=b%3Dc"),
        ("a=b+c", "a=b%20c"),
        ("a=b%2bc", "a=b%2Bc"),
        ("&&a=1&", "a=1"),
        ("a=%7e%2f*'", "a=~%2F%2A%27"),
        ("é=ü", "%C3%A9=%C3%BC"),
        // Names are sorted in encoded form.
        ("a=1&%C3%A9=2&B=3", "%C3%A9=2&B=3&a=1"),
    ];
    for (query, canonical) in table {
        assert_eq!(canonical_query(query), canonical, "{query}");
    }
}

#[test]
fn debug_output_of_keys_is_redacted() {
    let keys = Keys {
        session: Some(Secret::from("session-token")),
        ..keys()
    };
    assert_eq!(
        format!("{keys:?}"),
        "Keys { id: \"AKIDEXAMPLE\", secret: [redacted], session: Some([redacted]) }"
    );
}

#[test]
fn paths_are_canonical_with_their_last_slash() {
    for (path, expected) in [
        ("", "/"),
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a//./b", "/a/b"),
    ] {
        assert_eq!(canonical_path(path), expected, "{path:?}");
    }
}
