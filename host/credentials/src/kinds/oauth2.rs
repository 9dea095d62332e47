//! OAuth2: access tokens from token endpoints and metadata services.

mod answer;
mod google;
mod metadata;

use async_trait::async_trait;
use serde_json::json;
use zeroize::Zeroizing;

pub(crate) use self::answer::seconds;
use self::answer::token;
use crate::{
    config::{Escape, Grant, OAuth2Config},
    kinds::{
        jwt,
        renewed::{Issued, Source},
        template::Filled,
        token::{Token, TokenSource},
    },
    sources::{
        failure::Failure,
        file::{self, SecretFile},
        issuer_client::IssuerClient,
        variable::Variable,
    },
};
use crate::{masking::secret::Secret, request::encode};

/// The assertion type of signed JWTs (RFC 7523, section 2.2).
const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Validity of assertions that are signed here, in seconds. They are used immediately, but clocks
/// may differ.
const ASSERTION: i64 = 600;

/// A source of access tokens.
pub(crate) struct OAuth2 {
    issuer: IssuerClient,
    config: OAuth2Config,
    files: Vec<SecretFile>,
    /// The variable with the client secret, if that is in no file.
    variable: Option<Variable>,
    fields: Vec<(String, Filled)>,
}

impl OAuth2 {
    pub(crate) fn new(config: &OAuth2Config, issuer: IssuerClient) -> Result<Self, String> {
        let mut files = Vec::new();
        let mut fields = Vec::new();
        let mut variable = None;

        match &config.grant {
            Grant::ClientSecret {
                client_secret_file,
                client_secret_env,
                ..
            } => match (client_secret_file, client_secret_env) {
                (Some(file), None) => files.push(SecretFile::new(file)),
                (None, Some(given)) => variable = Some(given.clone()),
                _ => return Err("set either `clientSecretFile` or `clientSecretEnv`".to_owned()),
            },
            Grant::PrivateKey {
                key_file,
                certificate_file,
                ..
            } => {
                files.push(SecretFile::new(key_file));
                files.extend(certificate_file.as_ref().map(SecretFile::new));
            }
            Grant::GoogleServiceAccount { key_file, .. } => {
                files.push(SecretFile::new(key_file));
                if config.scopes.is_empty() {
                    return Err("a Google service account needs `scopes`".to_owned());
                }
            }
            Grant::Federated { assertion_file, .. } => files.push(SecretFile::new(assertion_file)),
            Grant::GoogleFederated {
                subject_token_file, ..
            } => {
                files.push(SecretFile::new(subject_token_file));
                if config.scopes.is_empty() {
                    return Err("Google's token exchange needs `scopes`".to_owned());
                }
            }
            Grant::GceMetadata { .. } | Grant::AzureMetadata { .. } => {}
            Grant::Form { fields: given, .. } => {
                for (name, text) in given {
                    // No escaping here: the complete form is encoded later.
                    let filled = Filled::parse(text, Escape::None)
                        .map_err(|error| format!("field `{name}`: {error}"))?;
                    files.extend(filled.files().cloned());
                    fields.push((name.clone(), filled));
                }
            }
        }

        Ok(Self {
            issuer,
            config: config.clone(),
            files,
            variable,
            fields,
        })
    }

    /// Reads the file with this index.
    async fn file(&self, number: usize) -> Result<Secret, Failure> {
        let file = self
            .files
            .get(number)
            .ok_or_else(|| Failure::malformed("it has no file"))?;
        Ok(self.issuer.read(file).await?)
    }

    async fn client_secret(
        &self,
        url: &str,
        client: &str,
        basic: bool,
    ) -> Result<Issued<Secret>, Failure> {
        let secret = match &self.variable {
            Some(variable) => self.issuer.keep(variable.text()?.expose()),
            None => self.file(0).await?,
        };
        let text = secret.expose_str().unwrap_or_default();
        let scope = self.scope();

        let mut pairs = vec![("grant_type", "client_credentials")];
        let authorization = if basic {
            // RFC 6749, section 2.3.1: both values are form-encoded first.
            let both = Zeroizing::new(format!("{}:{}", encode::form(client), encode::form(text)));
            let encoded = Zeroizing::new(base64::Engine::encode(
                &base64::engine::general_purpose::STANDARD,
                &*both,
            ));
            // An error may quote it without `Basic`.
            self.issuer.keep(encoded.as_bytes());
            Some(self.issuer.keep(format!("Basic {}", *encoded)))
        } else {
            pairs.extend([("client_id", client), ("client_secret", text)]);
            None
        };

        self.ask(url, pairs, &scope, authorization.as_ref()).await
    }

    async fn asserted(
        &self,
        url: &str,
        client: &str,
        assertion: &Secret,
    ) -> Result<Issued<Secret>, Failure> {
        let assertion = assertion.expose_str().unwrap_or_default();
        let pairs = vec![
            ("grant_type", "client_credentials"),
            ("client_id", client),
            ("client_assertion_type", JWT_BEARER),
            ("client_assertion", assertion),
        ];
        self.ask(url, pairs, &self.scope(), None).await
    }

    async fn private_key(&self, url: &str, client: &str) -> Result<Issued<Secret>, Failure> {
        let key = self.file(0).await?;
        let certificate = if self.files.len() > 1 {
            Some(self.file(1).await?)
        } else {
            None
        };

        let now = self.issuer.now().as_second();
        let claims = json!({
            "aud": url, "iss": client, "sub": client, "jti": jwt::id()?,
            "iat": now, "nbf": now, "exp": now.saturating_add(ASSERTION),
        });

        let header = jwt::header(certificate.as_ref(), None)?;
        let assertion = self.issuer.keep(jwt::sign(&header, &claims, key.expose())?);
        self.asserted(url, client, &assertion).await
    }

    async fn form(&self, url: &str) -> Result<Issued<Secret>, Failure> {
        let mut filled = Vec::new();
        for (name, text) in &self.fields {
            filled.push((name.as_str(), text.fill(&self.issuer).await?));
        }

        let pairs = filled
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        self.ask(url, pairs, &self.scope(), None).await
    }

    fn scope(&self) -> String {
        self.config.scopes.join(" ")
    }

    async fn ask<'a>(
        &self,
        url: &str,
        mut pairs: Vec<(&'a str, &'a str)>,
        scope: &'a str,
        authorization: Option<&Secret>,
    ) -> Result<Issued<Secret>, Failure> {
        if !scope.is_empty() {
            pairs.push(("scope", scope));
        }

        token(
            &self.issuer,
            &self.issuer.form(url, &pairs, authorization).await?,
        )
    }

    async fn get(&self) -> Result<Issued<Secret>, Failure> {
        let scopes = &self.config.scopes;
        match &self.config.grant {
            Grant::ClientSecret {
                token_url,
                client_id,
                basic,
                ..
            } => {
                let url = token_url.as_str();
                self.client_secret(url, client_id, *basic).await
            }
            Grant::PrivateKey {
                token_url,
                client_id,
                ..
            } => self.private_key(token_url.as_str(), client_id).await,
            Grant::Federated {
                token_url,
                client_id,
                ..
            } => {
                let assertion = self.file(0).await?;
                self.asserted(token_url.as_str(), client_id, &assertion)
                    .await
            }
            Grant::GoogleServiceAccount { token_url, .. } => {
                let key = self.file(0).await?;
                google::service_account(&self.issuer, &key, token_url.as_ref(), &self.scope()).await
            }
            Grant::GoogleFederated {
                audience,
                subject_token_type,
                service_account,
                sts_url,
                iam_url,
                ..
            } => {
                let exchange = google::Exchange {
                    audience,
                    subject: &self.file(0).await?,
                    kind: subject_token_type,
                    service_account: service_account.as_deref(),
                    sts: sts_url.as_ref(),
                    iam: iam_url.as_ref(),
                    scopes,
                };
                exchange.run(&self.issuer).await
            }
            Grant::GceMetadata { account, endpoint } => {
                metadata::gce(&self.issuer, endpoint.as_ref(), account, scopes).await
            }
            Grant::AzureMetadata {
                resource,
                client_id,
                endpoint,
            } => {
                let client = client_id.as_deref();
                metadata::azure(&self.issuer, endpoint.as_ref(), resource, client).await
            }
            Grant::Form { token_url, .. } => self.form(token_url.as_str()).await,
        }
    }
}

#[async_trait]
impl Source for OAuth2 {
    type Value = Token;

    fn name(&self) -> &str {
        self.issuer.name()
    }

    async fn renew(&self) -> Result<Issued<Token>, Failure> {
        let issued = self.get().await?;
        self.issuer.warn_of_short(&issued.value, false);
        Ok(Issued {
            value: Token {
                value: issued.value,
                answer: None,
            },
            lifetime: issued.lifetime,
        })
    }

    fn was_corrected(&self) -> bool {
        self.issuer.was_corrected()
    }

    async fn inputs(&self) -> u64 {
        file::inputs(&self.files).await
    }
}

impl TokenSource for OAuth2 {
    fn issuer(&self) -> &IssuerClient {
        &self.issuer
    }
}
