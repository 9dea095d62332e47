use http::Request;

use super::*;
use crate::{credential::CredentialErrorKind, masking::secret::Secret};

fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::post(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn allowed() -> Allowed {
    Allowed {
        services: ["ec2", "elasticloadbalancing"].map(str::to_owned).to_vec(),
        regions: ["eu-central-1", "us-east-1"].map(str::to_owned).to_vec(),
    }
}

fn credential(scope: &str) -> String {
    format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00")
}

fn scoped(uri: &str, authorization: Option<&str>) -> Result<String, CredentialErrorKind> {
    let headers: Vec<_> = authorization
        .map(|value| ("authorization", value))
        .into_iter()
        .collect();
    scope(
        &head(uri, &headers),
        b"Action=DescribeInstances",
        &allowed(),
    )
    .map(|it| format!("{}/{}", it.region, it.service))
    .map_err(|failure| failure.kind)
}

#[test]
fn the_scope_comes_from_the_signature_or_the_host_name() {
    use CredentialErrorKind::{Denied, Malformed, SecretRequest};
    let local = "http://127.0.0.1:5000/";
    let ec2 = "https://ec2.eu-central-1.amazonaws.com/";
    let good = credential("x/20260101/us-east-1/elasticloadbalancing/aws4_request");
    let table = [
        (ec2, None, Ok("eu-central-1/ec2")),
        (
            local,
            Some(good.clone()),
            Ok("us-east-1/elasticloadbalancing"),
        ),
        (ec2, Some(good), Ok("us-east-1/elasticloadbalancing")),
        (ec2, Some("Bearer x".to_owned()), Ok("eu-central-1/ec2")),
        (local, None, Err(Malformed)),
        ("https://ec2.amazonaws.com/", None, Err(Malformed)),
        ("https://ec2.eu-west-1.amazonaws.com/", None, Err(Denied)),
        ("https://s3.eu-central-1.amazonaws.com/", None, Err(Denied)),
        (
            "https://sts.eu-central-1.amazonaws.com/",
            None,
            Err(SecretRequest),
        ),
        (
            "https://sts-fips.us-east-1.amazonaws.com/",
            None,
            Err(SecretRequest),
        ),
        ("https://STS.amazonaws.com./", None, Err(SecretRequest)),
        // STS with another service in the signature.
        (
            "https://sts.us-east-1.amazonaws.com/",
            Some(credential("x/20260101/us-east-1/ec2/aws4_request")),
            Err(SecretRequest),
        ),
        // Someone's API with EC2 in the signature.
        (
            "https://abc123.execute-api.eu-central-1.amazonaws.com/",
            Some(credential("x/20260101/eu-central-1/ec2/aws4_request")),
            Err(Denied),
        ),
        (
            local,
            Some(credential("x/20260101/us-east-1/sts/aws4_request")),
            Err(SecretRequest),
        ),
        (
            local,
            Some(credential("x/20260101/us-east-1/iam/aws4_request")),
            Err(Denied),
        ),
        (
            local,
            Some(credential("x/20260101/us-west-1/ec2/aws4_request")),
            Err(Denied),
        ),
        (
            local,
            Some(credential("x/us-east-1/ec2/aws4_request")),
            Err(Malformed),
        ),
        (
            local,
            Some(credential("x/20260101/us-east-1/EC2/aws4_request")),
            Err(Malformed),
        ),
        (
            local,
            Some("AWS4-ECDSA-P256-SHA256 Credential=x/20260101/ec2/aws4_request".to_owned()),
            Err(Malformed),
        ),
        (
            local,
            Some("AWS4-HMAC-SHA256 Signature=0".to_owned()),
            Err(Malformed),
        ),
    ];
    for (uri, authorization, expected) in table {
        let found = scoped(uri, authorization.as_deref());
        assert_eq!(
            found,
            expected.map(str::to_owned),
            "{uri} {authorization:?}"
        );
    }
}

#[test]
fn the_only_allowed_region_and_service_are_defaults() {
    let one = Allowed {
        services: vec!["ec2".to_owned()],
        regions: vec!["eu-central-1".to_owned()],
    };
    let found = scope(&head("http://127.0.0.1/", &[]), b"", &one).unwrap();
    assert_eq!(
        found,
        Scope {
            region: "eu-central-1".to_owned(),
            service: "ec2".to_owned()
        }
    );
    let found = scope(&head("https://ec2.amazonaws.com/", &[]), b"", &one).unwrap();
    assert_eq!(found.region, "eu-central-1");
}

#[test]
fn rejects_other_signing_methods() {
    let ec2 = "https://ec2.eu-central-1.amazonaws.com/";
    for (uri, header) in [
        (
            ec2.to_owned(),
            Some(("x-amz-content-sha256", "UNSIGNED-PAYLOAD")),
        ),
        (
            ec2.to_owned(),
            Some(("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")),
        ),
        (ec2.to_owned(), Some(("content-encoding", "aws-chunked"))),
        (ec2.to_owned(), Some(("content-encoding", "gzip"))),
        (
            ec2.to_owned(),
            Some(("x-amz-trailer", "x-amz-checksum-crc32")),
        ),
        (format!("{ec2}?X-Amz-Signature=0"), None),
        (format!("{ec2}?x-amz-%63redential=a"), None),
        (format!("{ec2}?Signature=0&AWSAccessKeyId=a"), None),
        (format!("{ec2}?Action=A&X-Amz-Security-Token=t"), None),
    ] {
        let headers: Vec<_> = header.into_iter().collect();
        let failure = scope(&head(&uri, &headers), b"", &allowed()).unwrap_err();
        assert_eq!(
            failure.kind,
            CredentialErrorKind::Malformed,
            "{uri} {header:?}"
        );
    }
}

fn keys(session: Option<&str>) -> Keys {
    let secret = Secret::from("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    Keys {
        id: "AKIDEXAMPLE".to_owned(),
        secret,
        session: session.map(Secret::from),
    }
}

#[test]
fn the_signature_of_the_host_replaces_that_of_the_guest() {
    let mut head = head(
        "https://EC2.eu-central-1.amazonaws.com:443/?b=x+y&a=%7e",
        &[
            (
                "authorization",
                &credential("DUMMY/20200101/eu-central-1/ec2/aws4_request"),
            ),
            ("x-amz-date", "20200101T000000Z"),
            ("x-amz-security-token", "dummy"),
            ("x-amz-content-sha256", "abc"),
            ("host", "evil.example"),
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            ),
            ("user-agent", "guest/1"),
        ],
    );
    let scope = Scope {
        region: "eu-central-1".to_owned(),
        service: "ec2".to_owned(),
    };
    sign(
        &mut head,
        b"Action=A",
        &keys(Some("session")),
        &scope,
        "2026-01-02T03:04:05Z".parse().unwrap(),
    )
    .unwrap();
    assert_eq!(head.headers["host"], "ec2.eu-central-1.amazonaws.com");
    assert_eq!(head.headers["x-amz-date"], "20260102T030405Z");
    assert_eq!(head.headers["x-amz-security-token"], "session");
    assert_eq!(head.headers["user-agent"], "guest/1");
    assert!(!head.headers.contains_key("x-amz-content-sha256"));
    assert_eq!(
        head.uri,
        "https://EC2.eu-central-1.amazonaws.com:443/?b=x%20y&a=~"
    );
    let authorization = head.headers["authorization"].to_str().unwrap();
    let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/eu-central-1/ec2/aws4_request, \
                 SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
    // Computed by botocore for the same request and time.
    let signature = "cda077a39d560eab200565dd0e308e21b8e4f39fcb935cf1b412e5675928f89c";
    assert_eq!(authorization, format!("{start}{signature}"));
    assert!(
        head.headers["authorization"].is_sensitive()
            && head.headers["x-amz-security-token"].is_sensitive()
    );
}

#[test]
fn the_host_includes_a_port_other_than_the_default() {
    for (uri, expected) in [
        ("http://127.0.0.1:5000/", "127.0.0.1:5000"),
        ("http://a.example:80/", "a.example"),
        ("https://a.example:80/", "a.example:80"),
        ("https://[::1]:443/", "[::1]"),
    ] {
        assert_eq!(host(&uri.parse().unwrap()).unwrap(), expected);
    }
}
