//! Skydock's own requests to STS of AWS, which assume roles.

use bytes::Bytes;
use http::{Request, Response, header};
use jiff::Timestamp;

use super::{
    request,
    sigv4::{Dated, Keys, Scope},
};
use crate::{
    config::{AssumeRole, IssuerUrl},
    sources::{
        failure::Failure,
        issuer_client::{IssuerClient, element, finish, missing},
    },
};
use crate::{
    masking::secret::Secret,
    request::{aws_endpoint, encode},
};

const VERSION: &str = "2011-06-15";

/// The STS endpoint to use.
pub(crate) struct Sts {
    url: String,
    scope: Scope,
}

/// A role to assume.
pub(crate) struct Wanted<'a> {
    pub(crate) role: &'a AssumeRole,
    pub(crate) external_id: Option<&'a Secret>,
}

impl Sts {
    pub(crate) fn new(region: &str, endpoint: Option<&IssuerUrl>) -> Result<Self, String> {
        if !aws_endpoint::is_region(region) {
            return Err(format!(
                "`{region}` is not a valid region; expected for example eu-west-1"
            ));
        }

        let url = endpoint.map_or_else(
            || format!("https://{}/", aws_endpoint::sts_host(region)),
            |endpoint| endpoint.join("/"),
        );

        Ok(Self {
            url,
            scope: Scope {
                region: region.to_owned(),
                service: "sts".to_owned(),
            },
        })
    }

    /// Obtains keys with a token whose issuer AWS trusts. The request is not signed, since there
    /// are no keys yet.
    pub(crate) async fn assume_with_web_identity(
        &self,
        issuer: &IssuerClient,
        role: &str,
        session: &str,
        token: &Secret,
    ) -> Result<Dated, Failure> {
        let pairs = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", VERSION),
            ("RoleArn", role),
            ("RoleSessionName", session),
            ("WebIdentityToken", token.expose_str().unwrap_or_default()),
        ];
        let answer = issuer.send(self.request(&pairs, &[])?).await?;
        keys(issuer, &answer)
    }

    /// Obtains keys of a role, signed with other keys.
    pub(crate) async fn assume(
        &self,
        issuer: &IssuerClient,
        by: &Keys,
        wanted: &Wanted<'_>,
    ) -> Result<Dated, Failure> {
        let role = wanted.role;
        // One hour is the most that AWS allows if a role assumes another one.
        let seconds = role.duration.map_or(3600, |it| it.as_secs()).to_string();
        let mut pairs = vec![
            ("Action", "AssumeRole"),
            ("Version", VERSION),
            ("RoleArn", role.role_arn.as_str()),
            ("RoleSessionName", role.session_name.as_str()),
            ("DurationSeconds", seconds.as_str()),
        ];

        if let Some(external_id) = wanted.external_id {
            pairs.push(("ExternalId", external_id.expose_str().unwrap_or_default()));
        }

        // A role can require these to prevent the confused deputy problem.
        let sources = [
            ("x-amz-source-arn", role.source_arn.as_deref()),
            ("x-amz-source-account", role.source_account.as_deref()),
        ];

        let request = self.request(&pairs, &sources)?;
        let (mut head, body) = request.into_parts();
        request::sign(&mut head, &body, by, &self.scope, issuer.now())?;
        let answer = issuer.send(Request::from_parts(head, body)).await?;
        keys(issuer, &answer)
    }

    fn request(
        &self,
        pairs: &[(&str, &str)],
        headers: &[(&'static str, Option<&str>)],
    ) -> Result<Request<Bytes>, Failure> {
        let mut request = Request::post(&self.url)
            .header(
                header::CONTENT_TYPE,
                "application/x-www-form-urlencoded; charset=utf-8",
            )
            .header(header::ACCEPT, "text/xml");
        for (name, value) in headers {
            if let Some(value) = value {
                request = request.header(*name, *value);
            }
        }

        finish(
            request,
            Bytes::from(encode::form_body(pairs.iter().copied())),
        )
    }
}

/// Parses keys in an answer of STS.
fn keys(issuer: &IssuerClient, answer: &Response<Bytes>) -> Result<Dated, Failure> {
    let text = std::str::from_utf8(answer.body()).unwrap_or_default();
    let (_, inner) = text
        .split_once("<Credentials>")
        .ok_or_else(|| missing("Credentials"))?;
    let inner = inner.split("</Credentials>").next().unwrap_or_default();

    let field = |name: &str| {
        element(inner, name)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| missing(name))
    };
    let end: Timestamp = field("Expiration")?
        .parse()
        .map_err(|_| missing("Expiration"))?;

    let keys = Keys {
        id: field("AccessKeyId")?,
        secret: issuer.keep(field("SecretAccessKey")?),
        session: Some(issuer.keep(field("SessionToken")?)),
    };

    Ok(Dated {
        keys,
        end: Some(end),
    })
}
