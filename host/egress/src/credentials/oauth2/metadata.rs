//! Tokens of the machine's own identity, from metadata services. The host asks them; a guest never reaches them.

use bytes::Bytes;
use http::Request;

use super::answer::token;
use crate::credentials::{
    config::IssuerUrl,
    encode,
    failure::Failure,
    renewed::Fresh,
    secret::Secret,
    upstream::{Upstream, finish},
};

/// By address: a name could be answered by somebody else.
const ENDPOINT: &str = "http://169.254.169.254";

fn base(endpoint: Option<&IssuerUrl>) -> &str {
    endpoint.map_or(ENDPOINT, IssuerUrl::as_str).trim_end_matches('/')
}

/// Google Compute Engine's.
pub(crate) async fn gce(
    upstream: &Upstream,
    endpoint: Option<&IssuerUrl>,
    account: &str,
    scopes: &[String],
) -> Result<Fresh<Secret>, Failure> {
    let account = encode::percent(account.as_bytes(), b"@");
    let mut url = format!("{}/computeMetadata/v1/instance/service-accounts/{account}/token", base(endpoint));
    if !scopes.is_empty() {
        url.push_str("?scopes=");
        url.push_str(&encode::percent(scopes.join(",").as_bytes(), b""));
    }
    let request = Request::get(url).header("Metadata-Flavor", "Google");
    let response = upstream.send(finish(request, Bytes::new())?).await?;
    // Something else at that address would not say so.
    if response.headers().get("Metadata-Flavor").is_none_or(|flavor| flavor != "Google") {
        return Err(Failure::denied("what answered is not the metadata service of Google Compute Engine"));
    }
    let answer = serde_json::from_slice(response.body())
        .map_err(|_| Failure::unavailable("the metadata service answered with something that is not JSON"))?;
    token(upstream, &answer)
}

/// Azure's.
pub(crate) async fn azure(
    upstream: &Upstream,
    endpoint: Option<&IssuerUrl>,
    resource: &str,
    client: Option<&str>,
) -> Result<Fresh<Secret>, Failure> {
    let resource = encode::percent(resource.as_bytes(), b"");
    let mut url =
        format!("{}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={resource}", base(endpoint));
    if let Some(client) = client {
        url.push_str("&client_id=");
        url.push_str(&encode::percent(client.as_bytes(), b""));
    }
    let request = Request::get(url).header("Metadata", "true");
    token(upstream, &upstream.json(finish(request, Bytes::new())?).await?)
}
