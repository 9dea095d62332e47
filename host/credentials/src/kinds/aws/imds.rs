//! The EC2 metadata service, version 2 (IMDSv2): keys of the instance's role, and its region.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request};

use crate::{
    config::{AwsConfig, AwsSource, IssuerUrl},
    credential::{CredentialError, Issuer},
    sources::{
        clock::SystemClock,
        failure::Failure,
        issuer_client::{IssuerClient, finish},
    },
};

/// The address of the service in each instance.
const SERVICE: &str = "http://169.254.169.254";

/// A session with the service.
pub(super) struct Imds<'a> {
    issuer: &'a IssuerClient,
    base: &'a str,
    token: HeaderValue,
}

impl<'a> Imds<'a> {
    /// Obtains a token, which each other request needs.
    pub(super) async fn open(
        issuer: &'a IssuerClient,
        endpoint: Option<&'a IssuerUrl>,
    ) -> Result<Self, Failure> {
        let base = endpoint.map_or(SERVICE, IssuerUrl::as_str);
        let base = base.trim_end_matches('/');

        let request = Request::put(format!("{base}/latest/api/token"))
            // In seconds. The token is used immediately.
            .header("X-aws-ec2-metadata-token-ttl-seconds", "60");
        let answer = issuer.send(finish(request, Bytes::new())?).await?;
        let token = issuer.keep(answer.body().to_vec());
        let token = issuer.header_value(&token, "")?;
        Ok(Self {
            issuer,
            base,
            token,
        })
    }

    /// Returns the request for a path below `meta-data`.
    pub(super) fn get(&self, path: &str) -> Result<Request<Bytes>, Failure> {
        let url = format!("{}/latest/meta-data/{path}", self.base);
        let request = Request::get(url).header("X-aws-ec2-metadata-token", self.token.clone());
        finish(request, Bytes::new())
    }

    /// Returns the first line at a path below `meta-data`; `None` if it is empty.
    pub(super) async fn line(&self, path: &str) -> Result<Option<String>, Failure> {
        let answer = self.issuer.send(self.get(path)?).await?;
        let text = String::from_utf8_lossy(answer.body());
        let line = text.lines().next().map(str::trim);
        Ok(line.filter(|line| !line.is_empty()).map(str::to_owned))
    }
}

/// Returns the region of this instance, if the keys of the credential come from its metadata
/// service.
///
/// # Errors
/// If the service does not answer, or not with a region.
pub async fn instance_region(
    config: &AwsConfig,
    issuer: Arc<dyn Issuer>,
) -> Result<Option<String>, CredentialError> {
    let AwsSource::Imds { endpoint } = &config.source else {
        return Ok(None);
    };

    let issuer = IssuerClient::new(&config.name, issuer, Arc::new(SystemClock));
    let reading = async {
        let service = Imds::open(&issuer, endpoint.as_ref()).await?;
        let region = service.line("placement/region").await?;
        // It becomes part of host names.
        region.filter(|region| is_region(region)).ok_or_else(|| {
            Failure::unavailable("the metadata service of this instance did not return a region")
        })
    };
    let region = reading.await;
    region
        .map(Some)
        .map_err(|failure| failure.named(&config.name))
}

/// Returns true for what is formed like `eu-west-1`, with at most 63 characters, as a label of a
/// host name.
fn is_region(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63
        && text.bytes().all(is_part)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.ends_with(|last: char| last.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_a_part_of_host_names() {
        for (text, expected) in [
            ("eu-west-1", true),
            ("us-gov-east-1", true),
            ("ap-southeast-10", true),
            ("", false),
            ("-", false),
            ("1", false),
            ("-west-1", false),
            ("localhost", false),
            ("EU-WEST-1", false),
            ("eu-west-1.example", false),
            ("<html>", false),
        ] {
            assert_eq!(is_region(text), expected, "{text}");
        }
    }
}
