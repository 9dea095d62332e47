//! Signature Version 4 as documented by AWS ("Create a signed AWS API request"), as pure functions
//! that receive the time.
//!
//! Only requests with a complete body and a signature in headers are supported: no presigned URLs,
//! no chunked signing, and no S3, whose paths have a different canonical form.

use jiff::{Timestamp, tz::TimeZone};
use ring::{digest, hmac};

use crate::{
    masking::secret::Secret,
    request::encode::{percent, unpercent},
};

pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Keys that requests are signed with.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: Secret,
    /// Session token of temporary keys.
    pub(crate) session: Option<Secret>,
}

/// Keys with their expiry.
pub(crate) struct Dated {
    pub(crate) keys: Keys,
    pub(crate) end: Option<Timestamp>,
}

/// The scope of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) region: String,
    pub(crate) service: String,
}

/// The parts of a request that are signed.
pub(crate) struct Unsigned<'a> {
    pub(crate) method: &'a str,
    /// The path as sent.
    pub(crate) path: &'a str,
    /// The query as sent, without `?`.
    pub(crate) query: &'a str,
    /// The headers to sign in the order sent, including `Host` and `X-Amz-Date`.
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: &'a [u8],
}

/// Returns the value of `X-Amz-Date`.
pub(crate) fn date(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC)
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string()
}

/// Returns the value of `Authorization`.
pub(crate) fn authorization(
    request: &Unsigned<'_>,
    keys: &Keys,
    scope: &Scope,
    date: &str,
) -> String {
    let headers = canonical_headers(request.headers);
    let to_sign = string_to_sign(&canonical_request(request), scope, date);
    let signature = hex::encode(mac(&signing_key(keys, scope, date), to_sign.as_bytes()));
    let id = &keys.id;
    let scope = scope_text(scope, date);
    let signed = signed_headers(&headers);
    format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={signed}, Signature={signature}")
}

fn canonical_request(request: &Unsigned<'_>) -> String {
    let headers = canonical_headers(request.headers);
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();

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
    [
        ALGORITHM,
        date,
        &scope_text(scope, date),
        &sha256(canonical.as_bytes()),
    ]
    .join("\n")
}

fn scope_text(scope: &Scope, date: &str) -> String {
    format!(
        "{}/{}/{}/aws4_request",
        day(date),
        scope.region,
        scope.service
    )
}

/// Returns the day of a date, for example `20150830` for `20150830T123600Z`.
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
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data)
        .as_ref()
        .to_vec()
}

fn sha256(data: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, data))
}

/// Returns the canonical path: without empty, `.` and `..` segments, and percent-encoded. The path
/// as sent is already encoded, so each `%` is encoded again.
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

    let mut out: String = segments
        .iter()
        .map(|segment| format!("/{}", percent(segment.as_bytes(), b"")))
        .collect();

    // A trailing slash is kept, and so is the one that remains after a final `.` or `..`.
    if out.is_empty() || path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..") {
        out.push('/');
    }

    out
}

/// Returns the names and values of the query in their canonical encoding, in the order given. The
/// request must be sent with this encoding: servers may interpret a `+` as a space or as a plus.
pub(crate) fn encoded_query(query: &str) -> Vec<(String, String)> {
    let encoded = |part: &str| percent(&unpercent(part.replace('+', " ")), b"");
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encoded(name), encoded(value)))
        .collect()
}

fn canonical_query(query: &str) -> String {
    let mut pairs = encoded_query(query);
    // AWS sorts what is encoded, by bytes.
    pairs.sort();
    query_text(&pairs)
}

/// Returns the pairs in the form of a URL's query.
pub(crate) fn query_text(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// Returns the canonical headers: names in lower case and sorted, values of the same name joined in
/// the order sent, and spaces collapsed.
fn canonical_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut sorted: Vec<(String, &str)> = headers
        .iter()
        .map(|(name, value)| (name.to_lowercase(), &**value))
        .collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));

    for (name, value) in sorted {
        // AWS collapses only these two, not other Unicode whitespace.
        let value = value
            .split([' ', '\t'])
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
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
