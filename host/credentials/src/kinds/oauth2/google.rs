//! Google: tokens by keys of service accounts, and by exchange of tokens from other issuers.

use bytes::Bytes;
use http::{Request, header};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ASSERTION, answer::token};
use crate::masking::secret::Secret;
use crate::{
    config::IssuerUrl,
    kinds::{jwt, renewed::Issued},
    sources::{
        failure::Failure,
        issuer_client::{IssuerClient, finish, missing},
    },
};

const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const STS_URL: &str = "https://sts.googleapis.com/v1/token";
const IAM_URL: &str = "https://iamcredentials.googleapis.com";

/// Scope of the token of the Security Token Service: impersonating a service account.
const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: zeroize::Zeroizing<String>,
    #[serde(default)]
    private_key_id: Option<String>,
    #[serde(default)]
    token_uri: Option<String>,
}

/// Obtains a token with the key of a service account.
pub(crate) async fn service_account(
    issuer: &IssuerClient,
    file: &Secret,
    url: Option<&IssuerUrl>,
    scope: &str,
) -> Result<Issued<Secret>, Failure> {
    // serde's error quotes the content, so it is dropped.
    let key: KeyFile = serde_json::from_slice(file.expose())
        .map_err(|_| Failure::malformed("its key file is not a Google service account key"))?;
    issuer.keep(key.private_key.as_bytes());

    let of_file = key.token_uri.map(IssuerUrl::try_from).transpose();
    let of_file =
        of_file.map_err(|_| Failure::malformed("`token_uri` in its key file is not a URL"))?;
    let url = url
        .or(of_file.as_ref())
        .map_or(TOKEN_URL, IssuerUrl::as_str);

    let now = issuer.now().as_second();
    let claims = json!({
        "iss": key.client_email, "sub": key.client_email, "scope": scope, "aud": url,
        "iat": now, "exp": now.saturating_add(ASSERTION),
    });

    let header = jwt::header(None, key.private_key_id.as_deref())?;
    let assertion = issuer.keep(jwt::sign(&header, &claims, key.private_key.as_bytes())?);
    let assertion = assertion.expose_str().unwrap_or_default();
    let pairs = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", assertion),
    ];

    token(issuer, &issuer.form(url, &pairs, None).await?)
}

/// A token exchange (RFC 8693), followed by impersonation of a service account if one is given.
pub(crate) struct Exchange<'a> {
    pub(crate) audience: &'a str,
    pub(crate) subject: &'a Secret,
    pub(crate) kind: &'a str,
    pub(crate) service_account: Option<&'a str>,
    pub(crate) sts: Option<&'a IssuerUrl>,
    pub(crate) iam: Option<&'a IssuerUrl>,
    pub(crate) scopes: &'a [String],
}

impl Exchange<'_> {
    pub(crate) async fn run(&self, issuer: &IssuerClient) -> Result<Issued<Secret>, Failure> {
        let scope = self.scopes.join(" ");
        let pairs = [
            (
                "grant_type",
                "urn:ietf:params:oauth:grant-type:token-exchange",
            ),
            ("audience", self.audience),
            (
                "scope",
                self.service_account
                    .map_or(scope.as_str(), |_| CLOUD_PLATFORM),
            ),
            (
                "requested_token_type",
                "urn:ietf:params:oauth:token-type:access_token",
            ),
            (
                "subject_token",
                self.subject.expose_str().unwrap_or_default(),
            ),
            ("subject_token_type", self.kind),
        ];

        let url = self.sts.map_or(STS_URL, IssuerUrl::as_str);
        let federated = token(issuer, &issuer.form(url, &pairs, None).await?)?;

        match self.service_account {
            Some(account) => self.act_as(issuer, account, &federated.value).await,
            None => Ok(federated),
        }
    }

    async fn act_as(
        &self,
        issuer: &IssuerClient,
        account: &str,
        token: &Secret,
    ) -> Result<Issued<Secret>, Failure> {
        let base = self
            .iam
            .map_or(IAM_URL, IssuerUrl::as_str)
            .trim_end_matches('/');
        let request = Request::post(format!(
            "{base}/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
        ))
        .header(header::CONTENT_TYPE, "application/json")
        .header(
            header::AUTHORIZATION,
            issuer.header_value(token, "Bearer ")?,
        );

        // One hour is the most that Google allows by default.
        let body = json!({ "scope": self.scopes, "lifetime": "3600s" }).to_string();
        let answer = issuer.json(finish(request, Bytes::from(body))?).await?;
        let value = issuer.secret_at(&answer, "/accessToken")?;

        let end = answer
            .get("expireTime")
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Timestamp>().ok());
        let end = end.ok_or_else(|| missing("/expireTime"))?;

        Ok(Issued {
            value,
            lifetime: Some(issuer.until(end)),
        })
    }
}
