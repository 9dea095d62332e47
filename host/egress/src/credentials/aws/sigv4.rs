//! Signature Version 4, as AWS publishes it ("Create a signed AWS API request"): pure, the time passed in.
//!
//! Only what signs a request with a whole body in its headers: no presigned URLs, no chunks, no S3, whose paths have a canonical
//! form of their own.

use jiff::{Timestamp, tz::TimeZone};
use ring::{digest, hmac};

use crate::credentials::{
    encode::{percent, unpercent},
    secret::Secret,
};

/// The one algorithm.
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Keys to sign with.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: Secret,
    /// Of temporary keys.
    pub(crate) session: Option<Secret>,
}

/// What a signature is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) region: String,
    pub(crate) service: String,
}

/// A request as far as it is signed.
pub(crate) struct Unsigned<'a> {
    pub(crate) method: &'a str,
    /// As it is sent.
    pub(crate) path: &'a str,
    /// As it is sent, without `?`.
    pub(crate) query: &'a str,
    /// Those to sign, `Host` and `X-Amz-Date` among them, in the order sent.
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: &'a [u8],
}

/// The date as `X-Amz-Date` has it.
pub(crate) fn date(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The value of `Authorization`.
pub(crate) fn authorization(request: &Unsigned<'_>, keys: &Keys, scope: &Scope, date: &str) -> String {
    let headers = canonical_headers(request.headers);
    let to_sign = string_to_sign(&canonical_request(request), scope, date);
    let signature = hex::encode(mac(&signing_key(keys, scope, date), to_sign.as_bytes()));
    let (id, scope, signed) = (&keys.id, scope_text(scope, date), signed_headers(&headers));
    format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={signed}, Signature={signature}")
}

fn canonical_request(request: &Unsigned<'_>) -> String {
    let headers = canonical_headers(request.headers);
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    [
        request.method,
        &canonical_path(request.path),
        &canonical_query(request.query),
        &lines,
        &signed_headers(&headers),
        &sha256(request.body),
    ]
    .join("\n")
}

fn string_to_sign(canonical: &str, scope: &Scope, date: &str) -> String {
    [ALGORITHM, date, &scope_text(scope, date), &sha256(canonical.as_bytes())].join("\n")
}

fn scope_text(scope: &Scope, date: &str) -> String {
    format!("{}/{}/{}/aws4_request", day(date), scope.region, scope.service)
}

/// `20150830` of `20150830T123600Z`.
fn day(date: &str) -> &str {
    date.split('T').next().unwrap_or(date)
}

fn signing_key(keys: &Keys, scope: &Scope, date: &str) -> zeroize::Zeroizing<Vec<u8>> {
    let mut key = zeroize::Zeroizing::new([b"AWS4", keys.secret.expose()].concat());
    for part in [day(date), &scope.region, &scope.service, "aws4_request"] {
        key = zeroize::Zeroizing::new(mac(&key, part.as_bytes()));
    }
    key
}

fn mac(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec()
}

fn sha256(data: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, data))
}

/// The path without empty, `.` and `..` segments, each byte that is not unreserved encoded: as what is sent is encoded already, a `%` is
/// encoded once more.
fn canonical_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    let mut out: String = segments.iter().map(|segment| format!("/{}", percent(segment.as_bytes(), b""))).collect();
    // A path that ends in a slash keeps it; what ended in `.` or `..` is what is left.
    if out.is_empty() || path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..") {
        out.push('/');
    }
    out
}

/// The query with every name and value encoded in the one way that is signed, in the order given. What is sent must be this, too: a
/// server may read a `+` as a space, or as a plus.
pub(crate) fn encoded_query(query: &str) -> Vec<(String, String)> {
    let encoded = |part: &str| percent(&unpercent(&part.replace('+', " ")), b"");
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encoded(name), encoded(value)))
        .collect()
}

fn canonical_query(query: &str) -> String {
    let mut pairs = encoded_query(query);
    pairs.sort();
    query_text(&pairs)
}

/// Pairs as they stand in a URL.
pub(crate) fn query_text(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// Names in lower case and sorted, values of one name joined in the order sent, blanks made one.
fn canonical_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut sorted: Vec<(String, &str)> = headers.iter().map(|(name, value)| (name.to_lowercase(), &**value)).collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, value) in sorted {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        match out.last_mut().filter(|(last, _)| *last == name) {
            Some((_, joined)) => {
                joined.push(',');
                joined.push_str(&value);
            }
            None => out.push((name, value)),
        }
    }
    out
}

fn signed_headers(canonical: &[(String, String)]) -> String {
    let names: Vec<&str> = canonical.iter().map(|(name, _)| name.as_str()).collect();
    names.join(";")
}

#[cfg(test)]
mod tests;
