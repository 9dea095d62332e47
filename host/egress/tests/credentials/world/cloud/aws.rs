use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde_json::json;

use super::{ASSERTION, Cloud, EXTERNAL_ID, POD_TOKEN, Reply, Seen, json_reply, rejected};

pub(super) fn answer(cloud: &Cloud, seen: &Seen) -> Option<Reply> {
    match (seen.method.as_str(), seen.uri.path()) {
        ("PUT", "/latest/api/token") => {
            let asked = !seen
                .header("x-aws-ec2-metadata-token-ttl-seconds")
                .is_empty();
            Some(if asked {
                cloud.issue("imds-token").into_response()
            } else {
                rejected(400, "no ttl")
            })
        }
        ("GET", path)
            if path.starts_with("/latest/meta-data/")
                && !cloud.is_good(&seen.header("x-aws-ec2-metadata-token")) =>
        {
            Some(rejected(401, "no token"))
        }
        ("GET", "/latest/meta-data/iam/security-credentials/") => {
            Some("node-role\n".into_response())
        }
        ("GET", "/latest/meta-data/iam/security-credentials/node-role") => Some(keys(cloud)),
        ("GET", "/latest/meta-data/placement/region") => Some("eu-central-1\n".into_response()),
        ("GET", "/v1/credentials") if seen.header("authorization") == POD_TOKEN => {
            Some(keys(cloud))
        }
        ("GET", "/v1/credentials") => Some(rejected(401, "no token")),
        ("GET", "/v2/credentials/x") => Some(keys(cloud)),
        ("POST", "/sts/") => Some(sts(cloud, seen)),
        _ => None,
    }
}

fn end(cloud: &Cloud) -> String {
    let end = Timestamp::from_second(
        Timestamp::now().as_second() + i64::try_from(cloud.lifetime()).unwrap(),
    );
    end.unwrap().to_string()
}

fn keys(cloud: &Cloud) -> Reply {
    json_reply(&json!({
        "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "ASIAEXAMPLE", "Expiration": end(cloud),
        "SecretAccessKey": cloud.issue("aws-secret"), "Token": cloud.issue("aws-session"),
    }))
}

fn sts(cloud: &Cloud, seen: &Seen) -> Reply {
    let action = seen.field("Action");
    let authorization = seen.header("authorization");
    let signed = authorization.contains("/eu-central-1/sts/aws4_request")
        && authorization.contains("SignedHeaders=content-type;host;x-amz-date");
    let good = match action.as_str() {
        "AssumeRoleWithWebIdentity" => {
            seen.field("WebIdentityToken") == ASSERTION && authorization.is_empty()
        }
        "AssumeRole" => {
            let arn = seen.header("x-amz-source-arn");
            signed
                && (arn.is_empty()
                    || authorization.contains("x-amz-source-account;x-amz-source-arn"))
                && ["", EXTERNAL_ID].contains(&seen.field("ExternalId").as_str())
        }
        _ => false,
    };
    if !good {
        let body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>";
        return (http::StatusCode::FORBIDDEN, body).into_response();
    }
    let (secret, session, end) = (
        cloud.issue("sts-secret"),
        cloud.issue("sts-session&<"),
        end(cloud),
    );
    let session = session.replace('&', "&amp;").replace('<', "&lt;");
    let body = format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result><Credentials>\
         <AccessKeyId>ASIASTS</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
         <SessionToken>{session}</SessionToken><Expiration>{end}</Expiration></Credentials></{action}Result></{action}Response>"
    );
    ([("content-type", "text/xml")], body).into_response()
}
