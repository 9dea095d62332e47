//! Signing of a plugin's request to AWS: the scope it may be signed for, and the signature.

use http::{HeaderName, HeaderValue, Uri, header, request::Parts};
use jiff::Timestamp;

use super::sigv4::{self, ALGORITHM, Keys, Scope, Unsigned};
use crate::{
    place,
    request::aws_endpoint::{self, is_region},
    secret_requests,
    sources::failure::Failure,
};

/// The services and regions that requests may be signed for.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    pub(crate) services: Vec<String>,
    pub(crate) regions: Vec<String>,
}

/// Headers with a signature by the plugin, or that describe how a body is signed.
const SIGNING: &[&str] = &[
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
    "x-amz-s3session-token",
    "x-amz-region-set",
    "x-amz-signature",
];

/// Query parameters of presigned requests, in lower case.
const PRESIGNED: &[&str] = &[
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-signedheaders",
    "x-amz-signature",
    "x-amz-security-token",
    "awsaccesskeyid",
    "signature",
    "signaturemethod",
    "signatureversion",
];

fn not_among(what: &str, value: &str) -> Failure {
    Failure::denied(format!("{what} `{value}` is not in its `{what}s`"))
}

fn undetermined(what: &str, host: &str) -> Failure {
    Failure::malformed(format!(
        "cannot determine the {what} from host {host}: set it in an Authorization header with a dummy \
         Credential=x/DATE/REGION/SERVICE/aws4_request"
    ))
}

/// Determines the scope that the request is signed for.
pub(crate) fn scope(head: &Parts, body: &[u8], allowed: &Allowed) -> Result<Scope, Failure> {
    deny_forms(head)?;

    let host = head.uri.host().unwrap_or_default();
    let of_host = aws_endpoint::read(host);
    if of_host
        .as_ref()
        .is_some_and(|it| secret_requests::aws::is_secret_service(&it.service))
    {
        return Err(secret_service(host));
    }

    let host_service = of_host.as_ref().map(|it| it.service.clone());
    let stated = stated(head)?;
    // The plugin states the service to sign for, but the service in the host name receives the
    // request. If they differ, both must be allowed; otherwise any AWS service, for example an API
    // of a third party, could receive a request with a valid signature.
    if let (Some(host), Some(stated)) = (&of_host, &stated) {
        let is_among = |service: &String| allowed.services.contains(service);
        if host.service != stated.service && !is_among(&host.service) {
            return Err(not_among("service", &host.service));
        }
    }

    let service = stated
        .as_ref()
        .map(|it| it.service.clone())
        .or_else(|| Some(of_host.as_ref()?.service.clone()));
    let service = service.or_else(|| only(&allowed.services));
    let service = service.ok_or_else(|| undetermined("service", host))?;

    // Hosts of global services have no region.
    let region = stated
        .map(|it| it.region)
        .or_else(|| of_host?.region)
        .or_else(|| only(&allowed.regions));
    let region = region.ok_or_else(|| undetermined("region", host))?;

    if secret_requests::aws::is_secret_service(&service) {
        return Err(secret_service(&service));
    }
    if !allowed.services.contains(&service) {
        return Err(not_among("service", &service));
    }
    if !allowed.regions.contains(&region) {
        return Err(not_among("region", &region));
    }

    // If the two differ, the restrictions of both services apply.
    let receives = host_service.as_deref().unwrap_or(&service);
    secret_requests::aws::check(head, body, &[&service, receives])?;
    secret_requests::check(head, Some(body), None)?;

    Ok(Scope { region, service })
}

fn secret_service(name: &str) -> Failure {
    Failure::secret_request(format!(
        "{name} returns credentials, which is not allowed with Skydock's keys"
    ))
}

fn only(all: &[String]) -> Option<String> {
    match all {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Rejects signing methods that are not needed for requests with a complete body.
fn deny_forms(head: &Parts) -> Result<(), Failure> {
    let text = |name: &str| {
        let values = head.headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase())
            .collect::<Vec<_>>()
            .join(",")
    };

    let hash = text("x-amz-content-sha256");
    if hash.contains("unsigned") || hash.contains("streaming") {
        return Err(Failure::malformed(
            "unsigned bodies and bodies signed in chunks are not supported",
        ));
    }
    secret_requests::plain_body(head)?;
    if !text("x-amz-trailer").is_empty() {
        return Err(Failure::malformed(
            "bodies signed in chunks are not supported",
        ));
    }

    let query = crate::request::encode::form_pairs(head.uri.query().unwrap_or_default());
    if query
        .iter()
        .any(|(name, _)| PRESIGNED.contains(&name.trim().to_ascii_lowercase().as_str()))
    {
        return Err(Failure::malformed(
            "signatures in the query are not supported: Skydock signs in headers",
        ));
    }

    Ok(())
}

/// Returns the scope that a plugin states in a dummy signature. Other `Authorization` headers do
/// not state a scope.
fn stated(head: &Parts) -> Result<Option<Scope>, Failure> {
    let bad = || {
        Failure::malformed(
            "the Authorization header has no Credential=x/DATE/REGION/SERVICE/aws4_request",
        )
    };

    let values: Vec<_> = head.headers.get_all(header::AUTHORIZATION).iter().collect();
    let [value] = values.as_slice() else {
        return if values.is_empty() {
            Ok(None)
        } else {
            Err(bad())
        };
    };

    let Some(text) = value.to_str().ok().filter(|text| text.starts_with("AWS4")) else {
        return Ok(None);
    };
    let rest = text
        .strip_prefix(ALGORITHM)
        .ok_or_else(|| Failure::malformed(format!("only {ALGORITHM} is supported")))?;
    let credential = rest
        .split([',', ' '])
        .find_map(|part| part.trim().strip_prefix("Credential="))
        .ok_or_else(bad)?;
    let mut parts = credential.rsplit('/');
    let (Some("aws4_request"), Some(service), Some(region), Some(_), Some(_)) = (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    ) else {
        return Err(bad());
    };

    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if service.is_empty() || !service.bytes().all(word) || !is_region(region) {
        return Err(bad());
    }

    Ok(Some(Scope {
        region: region.to_owned(),
        service: service.to_owned(),
    }))
}

/// Removes the plugin's signature and signs the request.
pub(crate) fn sign(
    head: &mut Parts,
    body: &[u8],
    keys: &Keys,
    scope: &Scope,
    at: Timestamp,
) -> Result<(), Failure> {
    place::strip(&mut head.headers);
    place::remove(&mut head.headers, SIGNING);

    // Servers read `+` in a query in different ways, so the request is sent as it is signed.
    head.uri = with_query(&head.uri)?;

    let date = sigv4::date(at);
    insert(head, &header::HOST, host(&head.uri)?)?;
    insert(head, &HeaderName::from_static("x-amz-date"), date.clone())?;
    if let Some(session) = &keys.session {
        let value = session
            .header("")
            .ok_or_else(|| Failure::malformed("its session token is not text"))?;
        head.headers.insert("x-amz-security-token", value);
    }

    // The headers are collected after the last one was added, so that all are signed.
    let headers = signed(head)?;
    let unsigned = Unsigned {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers: &headers,
        body,
    };
    let authorization = sigv4::authorization(&unsigned, keys, scope, &date);
    insert(head, &header::AUTHORIZATION, authorization)?;
    // Its value is then neither shown in debug output nor kept in tables of HTTP/2.
    if let Some(value) = head.headers.get_mut(header::AUTHORIZATION) {
        value.set_sensitive(true);
    }

    Ok(())
}

fn insert(head: &mut Parts, name: &HeaderName, value: String) -> Result<(), Failure> {
    let value = HeaderValue::try_from(value)
        .map_err(|_| Failure::malformed(format!("cannot create `{name}`")))?;

    head.headers.insert(name, value);
    Ok(())
}

/// Returns the headers to sign, which proxies and clients do not change: host, content type, and
/// those of AWS.
fn signed(head: &Parts) -> Result<Vec<(String, String)>, Failure> {
    let own = head.headers.iter().filter(|(name, _)| {
        *name == header::HOST
            || *name == header::CONTENT_TYPE
            || name.as_str().starts_with("x-amz-")
    });
    own.map(|(name, value)| {
        let text = std::str::from_utf8(value.as_bytes())
            .ok()
            .map(|text| (name.as_str().to_owned(), text.to_owned()));
        text.ok_or_else(|| {
            Failure::malformed(format!("header `{name}` is not text and cannot be signed"))
        })
    })
    .collect()
}

/// Returns the value of `Host`: in lower case, and without the default port.
fn host(uri: &Uri) -> Result<String, Failure> {
    let host = uri
        .host()
        .ok_or_else(|| Failure::malformed("the request has no host"))?
        .to_ascii_lowercase();

    let usual = if uri.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    Ok(match uri.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

/// Returns the URL with its query in canonical form.
fn with_query(uri: &Uri) -> Result<Uri, Failure> {
    let Some(query) = uri.query() else {
        return Ok(uri.clone());
    };

    let query = sigv4::query_text(&sigv4::encoded_query(query));
    let path = if query.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{query}", uri.path())
    };

    let mut parts = uri.clone().into_parts();
    let bad = || Failure::malformed("the URL cannot be signed");
    parts.path_and_query = Some(path.parse().map_err(|_| bad())?);
    Uri::from_parts(parts).map_err(|_| bad())
}

#[cfg(test)]
mod tests;
