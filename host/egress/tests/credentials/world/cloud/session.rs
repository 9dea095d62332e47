use axum::response::IntoResponse as _;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Cloud, PASSWORD, Reply, Seen, rejected};

pub(super) fn answer(cloud: &Cloud, seen: &Seen) -> Option<Reply> {
    match (seen.method.as_str(), seen.uri.path()) {
        ("POST", "/identity/v3/auth/tokens") => Some(keystone(cloud, seen)),
        ("POST", "/sdk") => Some(vsphere(cloud, seen)),
        ("POST", "/api/session/create") => Some(form(cloud, seen)),
        ("POST", "/api/login") => Some(json_login(cloud, seen)),
        _ => None,
    }
}

fn keystone(cloud: &Cloud, seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let user = &body["auth"]["identity"]["password"]["user"];
    if user["password"] != PASSWORD || user["name"] != "ccm" {
        return rejected(401, "Unauthorized");
    }
    let at = |seconds: i64| Timestamp::from_second(Timestamp::now().as_second() + seconds).unwrap();
    let lifetime = i64::try_from(cloud.lifetime()).unwrap();
    let body = json!({ "token": {
        "issued_at": at(0).to_string(), "expires_at": at(lifetime).to_string(),
        "catalog": [{ "type": "compute", "endpoints": [] }], "project": { "name": body["auth"]["scope"]["project"]["name"] },
    }});
    let headers = [
        ("x-subject-token", cloud.issue("keystone")),
        ("content-type", "application/json".to_owned()),
    ];
    (StatusCode::CREATED, headers, body.to_string()).into_response()
}

fn vsphere(cloud: &Cloud, seen: &Seen) -> Reply {
    let password = PASSWORD
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let good = seen.body.contains(
        "<Login xmlns=\"urn:vim25\"><_this type=\"SessionManager\">SessionManager</_this>",
    ) && seen.body.contains(&format!(
        "<userName>ccm</userName><password>{password}</password></Login>"
    ));
    if !good {
        let fault = "<soapenv:Fault><detail><InvalidLoginFault/></detail></soapenv:Fault>";
        return (StatusCode::INTERNAL_SERVER_ERROR, fault).into_response();
    }
    let session = cloud.issue("vmware");
    let cookie = format!("vmware_soap_session=\"{session}\"; Path=/; HttpOnly; Secure;");
    let body = format!(
        "<Envelope><Body><LoginResponse><returnval><key>{session}</key></returnval></LoginResponse></Body></Envelope>"
    );
    (
        [
            ("set-cookie", cookie),
            ("content-type", "text/xml; charset=utf-8".to_owned()),
        ],
        body,
    )
        .into_response()
}

fn form(cloud: &Cloud, seen: &Seen) -> Reply {
    if seen.field("j_username") != "ccm" || seen.field("j_password") != PASSWORD {
        return rejected(403, "bad login");
    }
    let cookies = [(
        "set-cookie",
        format!("JSESSIONID={}; Path=/; Secure", cloud.issue("nsx")),
    )];
    (cookies, "").into_response()
}

fn json_login(cloud: &Cloud, seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    if body["password"] != PASSWORD || seen.header("x-client") != "ccm" {
        return rejected(401, "bad login");
    }
    let body = json!({ "data": { "token": cloud.issue("json"), "ttl": cloud.lifetime() } });
    super::json_reply(&body)
}
