use axum::response::IntoResponse as _;
use base64::{Engine as _, engine::general_purpose};
use jiff::Timestamp;
use ring::signature;
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use super::{API_KEY, ASSERTION, CLIENT_SECRET, Cloud, Reply, Seen, json_reply, rejected};

pub(super) fn answer(cloud: &Cloud, seen: &Seen) -> Option<Reply> {
    let path = seen.uri.path();
    match (seen.method.as_str(), path) {
        ("POST", "/oauth/token") => Some(token(cloud, seen)),
        ("POST", "/sts/v1/token") => Some(exchange(cloud, seen)),
        ("POST", "/v1/projects/-/serviceAccounts/ccm@project:generateAccessToken") => {
            Some(act_as(cloud, seen))
        }
        ("GET", "/computeMetadata/v1/instance/service-accounts/default/token") => {
            Some(gce(cloud, seen))
        }
        ("GET", "/metadata/identity/oauth2/token") => Some(azure(cloud, seen)),
        _ => None,
    }
}

fn issued(cloud: &Cloud) -> Reply {
    let token = cloud.issue("access");
    json_reply(&json!({
        "access_token": token, "token_type": "Bearer", "expires_in": cloud.lifetime(),
        "refresh_token": cloud.issue("refresh"),
    }))
}

fn token(cloud: &Cloud, seen: &Seen) -> Reply {
    let url = format!("{}/oauth/token", cloud.url);
    let good = match seen.field("grant_type").as_str() {
        "client_credentials" if !seen.field("client_assertion").is_empty() => {
            let jwt = seen.field("client_assertion");
            seen.field("client_assertion_type")
                == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
                && (jwt == ASSERTION
                    || claims(&jwt).is_some_and(|it| it["aud"] == url && it["iss"] == it["sub"]))
        }
        "client_credentials" => {
            // RFC 6749, section 2.3.1.
            let basic = general_purpose::STANDARD.encode("client:cl1ent~secret%2F%2B%3D%26");
            seen.field("client_secret") == CLIENT_SECRET
                || seen.header("authorization") == format!("Basic {basic}")
        }
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            let claims = claims(&seen.field("assertion"));
            claims.is_some_and(|it| {
                // Google's Python client uses Google's own endpoint as the audience, wherever it
                // sends the assertion.
                (it["aud"] == url || it["aud"] == "https://oauth2.googleapis.com/token")
                    && it["scope"] == "compute"
                    && it["exp"].as_i64() > it["iat"].as_i64()
            })
        }
        "apikey" => seen.field("apikey") == API_KEY,
        _ => false,
    };
    if good {
        issued(cloud)
    } else {
        rejected(400, "invalid_client")
    }
}

fn exchange(cloud: &Cloud, seen: &Seen) -> Reply {
    let good = seen.field("grant_type") == "urn:ietf:params:oauth:grant-type:token-exchange"
        && seen.field("subject_token") == ASSERTION
        && seen.field("subject_token_type") == "urn:ietf:params:oauth:token-type:jwt"
        && seen.field("requested_token_type") == "urn:ietf:params:oauth:token-type:access_token"
        && seen.field("audience") == "//iam/pool";
    if good {
        issued(cloud)
    } else {
        rejected(400, "invalid_request")
    }
}

fn act_as(cloud: &Cloud, seen: &Seen) -> Reply {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let token = seen.header("authorization");
    if !token.starts_with("Bearer access-issued-") || body["scope"] != json!(["compute"]) {
        return rejected(403, "PERMISSION_DENIED");
    }
    let end = Timestamp::from_second(Timestamp::now().as_second() + 3600).unwrap();
    json_reply(&json!({ "accessToken": cloud.issue("acting"), "expireTime": end.to_string() }))
}

fn gce(cloud: &Cloud, seen: &Seen) -> Reply {
    if seen.header("metadata-flavor") != "Google" || !seen.header("x-forwarded-for").is_empty() {
        return rejected(403, "no flavor");
    }
    let body =
        json!({ "access_token": cloud.issue("gce"), "expires_in": 3599, "token_type": "Bearer" });
    (
        [
            ("metadata-flavor", "Google"),
            ("content-type", "application/json"),
        ],
        body.to_string(),
    )
        .into_response()
}

fn azure(cloud: &Cloud, seen: &Seen) -> Reply {
    let query = seen.uri.query().unwrap_or_default();
    let good = seen.header("metadata") == "true"
        && query.contains("api-version=2018-02-01")
        && query.contains("resource=https%3A%2F%2Fmanagement.azure.com%2F");
    if !good {
        return rejected(400, "invalid_request");
    }
    // This service returns numbers as text.
    json_reply(
        &json!({ "access_token": cloud.issue("msi"), "expires_in": "86399", "token_type": "Bearer" }),
    )
}

/// Returns the claims of an assertion with a valid signature and a valid time.
fn claims(jwt: &str) -> Option<Value> {
    let decode = |text: &str| general_purpose::URL_SAFE_NO_PAD.decode(text).ok();
    let (signed, signature) = jwt.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
    let PrivateKeyDer::Pkcs8(key) = PrivateKeyDer::from_pem_slice(include_bytes!(
        "../../../../../credentials/tests/data/rsa.key"
    ))
    .ok()?
    else {
        return None;
    };
    let pair = signature::RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).ok()?;
    let public = signature::UnparsedPublicKey::new(
        &signature::RSA_PKCS1_2048_8192_SHA256,
        pair.public().as_ref(),
    );
    public.verify(signed.as_bytes(), &decode(signature)?).ok()?;
    let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
    let now = Timestamp::now().as_second();
    let timely = claims["exp"].as_i64()? > now && claims["iat"].as_i64()? <= now;
    let keyed = header["kid"] == "key-1"
        || header["x5t"] == include_str!("../../../../../credentials/tests/data/rsa.x5t").trim();
    (header["alg"] == "RS256" && timely && keyed).then_some(claims)
}
