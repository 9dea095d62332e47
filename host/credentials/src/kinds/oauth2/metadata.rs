//! Tokens of the instance's own identity, from metadata services. Only Skydock sends these
//! requests; plugins cannot.

use bytes::Bytes;
use http::Request;

use super::answer::token;
use crate::{
    config::IssuerUrl,
    kinds::renewed::Issued,
    sources::{
        failure::Failure,
        issuer_client::{IssuerClient, finish},
    },
};
use crate::{masking::secret::Secret, request::encode};

/// An address, since a name could resolve to another server.
const ENDPOINT: &str = "http://169.254.169.254";

fn base(endpoint: Option<&IssuerUrl>) -> &str {
    endpoint
        .map_or(ENDPOINT, IssuerUrl::as_str)
        .trim_end_matches('/')
}

/// Obtains a token from the metadata service of Google Compute Engine.
pub(crate) async fn gce(
    issuer: &IssuerClient,
    endpoint: Option<&IssuerUrl>,
    account: &str,
    scopes: &[String],
) -> Result<Issued<Secret>, Failure> {
    let account = encode::percent(account.as_bytes(), b"@");
    let mut url = format!(
        "{}/computeMetadata/v1/instance/service-accounts/{account}/token",
        base(endpoint)
    );

    if !scopes.is_empty() {
        url.push_str("?scopes=");
        url.push_str(&encode::percent(scopes.join(",").as_bytes(), b""));
    }

    let request = Request::get(url).header("Metadata-Flavor", "Google");
    let response = issuer.send(finish(request, Bytes::new())?).await?;
    // Another server at that address would not set this header.
    if response
        .headers()
        .get("Metadata-Flavor")
        .is_none_or(|flavor| flavor != "Google")
    {
        return Err(Failure::denied(
            "the server is not the metadata service of Google Compute Engine",
        ));
    }

    let answer = serde_json::from_slice(response.body())
        .map_err(|_| Failure::unavailable("the metadata service did not return JSON"))?;
    token(issuer, &answer)
}

/// Obtains a token from the metadata service of Azure.
pub(crate) async fn azure(
    issuer: &IssuerClient,
    endpoint: Option<&IssuerUrl>,
    resource: &str,
    client: Option<&str>,
) -> Result<Issued<Secret>, Failure> {
    let resource = encode::percent(resource.as_bytes(), b"");
    let mut url = format!(
        "{}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={resource}",
        base(endpoint)
    );

    if let Some(client) = client {
        url.push_str("&client_id=");
        url.push_str(&encode::percent(client.as_bytes(), b""));
    }

    let request = Request::get(url).header("Metadata", "true");
    token(issuer, &issuer.json(finish(request, Bytes::new())?).await?)
}
