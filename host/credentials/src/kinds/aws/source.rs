//! Sources of AWS keys.

mod shared_file;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, header};
use serde_json::Value;

use super::{
    imds::Imds,
    sigv4::{Dated, Keys},
    sts::{self, Sts},
};
use crate::{
    config::{AwsConfig, AwsSource, IssuerUrl},
    kinds::renewed::{Issued, Source},
    sources::{
        failure::Failure,
        file::{self, SecretFile},
        issuer_client::{IssuerClient, finish, missing},
    },
};

/// The agent of EKS Pod Identity.
const POD_IDENTITY: &str = "http://169.254.170.23/v1/credentials";

/// A source of AWS keys.
pub(crate) struct Aws {
    issuer: IssuerClient,
    config: AwsConfig,
    sts: Sts,
    /// Files of the source, in the order of its fields.
    files: Vec<SecretFile>,
    /// Files with the external IDs, one for each role in `assume`.
    external_ids: Vec<Option<SecretFile>>,
    all: Vec<SecretFile>,
}

impl Aws {
    pub(crate) fn new(config: &AwsConfig, issuer: IssuerClient) -> Result<Self, String> {
        let region = config
            .sts
            .region
            .as_ref()
            .or(config.regions.first())
            .ok_or("`regions` is empty")?;

        let files: Vec<SecretFile> = match &config.source {
            AwsSource::Files {
                access_key_id_file,
                secret_access_key_file,
                session_token_file,
            } => [
                Some(access_key_id_file),
                Some(secret_access_key_file),
                session_token_file.as_ref(),
            ]
            .into_iter()
            .flatten()
            .map(SecretFile::new)
            .collect(),
            AwsSource::SharedFile { file, .. } => vec![SecretFile::new(file)],
            AwsSource::Imds { .. } => Vec::new(),
            AwsSource::WebIdentity { token_file, .. }
            | AwsSource::PodIdentity { token_file, .. } => {
                vec![SecretFile::new(token_file)]
            }
            AwsSource::Ecs { token_file, .. } => token_file.iter().map(SecretFile::new).collect(),
        };

        for role in &config.assume {
            // The limits of STS: 15 minutes to 12 hours.
            let seconds = role.duration.map_or(3600, |it| it.as_secs());
            if !(900..=43_200).contains(&seconds) {
                return Err("`duration` of a role must be from 15m to 12h".to_owned());
            }
        }

        let external_ids: Vec<_> = config
            .assume
            .iter()
            .map(|role| role.external_id_file.as_ref().map(SecretFile::new))
            .collect();
        // `inputs` watches these: a change of any of them causes a renewal.
        let all = files
            .iter()
            .chain(external_ids.iter().flatten())
            .cloned()
            .collect();

        let sts = Sts::new(region, config.sts.endpoint.as_ref())?;
        Ok(Self {
            issuer,
            config: config.clone(),
            sts,
            files,
            external_ids,
            all,
        })
    }

    pub(crate) fn issuer(&self) -> &IssuerClient {
        &self.issuer
    }

    async fn text(&self, number: usize) -> Result<String, Failure> {
        let file = self
            .files
            .get(number)
            .ok_or_else(|| Failure::malformed("it has no file"))?;

        // `read` accepts only text.
        Ok(self
            .issuer
            .read(file)
            .await?
            .expose_str()
            .unwrap_or_default()
            .to_owned())
    }

    async fn source(&self) -> Result<Dated, Failure> {
        match &self.config.source {
            AwsSource::Files { .. } => self.of_files().await,
            AwsSource::SharedFile { profile, .. } => {
                let keys = shared_file::read(&self.issuer, &self.text(0).await?, profile)?;
                Ok(Dated { keys, end: None })
            }
            AwsSource::Imds { endpoint } => self.imds(endpoint.as_ref()).await,
            AwsSource::WebIdentity {
                role_arn,
                session_name,
                ..
            } => {
                let token = self.issuer.keep(self.text(0).await?);
                self.sts
                    .assume_with_web_identity(&self.issuer, role_arn, session_name, &token)
                    .await
            }
            AwsSource::PodIdentity { url, .. } => {
                self.container(url.as_ref().map_or(POD_IDENTITY, IssuerUrl::as_str))
                    .await
            }
            AwsSource::Ecs { url, .. } => self.container(url.as_str()).await,
        }
    }

    async fn of_files(&self) -> Result<Dated, Failure> {
        let [id, secret, rest @ ..] = self.files.as_slice() else {
            return Err(Failure::malformed("it has no files"));
        };
        // The access key ID is not a secret: every signature contains it.
        let id = id.text().await?.expose_str().unwrap_or_default().to_owned();
        let secret = self.issuer.read(secret).await?;

        let session = match rest.first() {
            Some(file) => Some(self.issuer.read(file).await?),
            None => None,
        };
        Ok(Dated {
            keys: Keys {
                id,
                secret,
                session,
            },
            end: None,
        })
    }

    /// Obtains keys with IMDSv2: first a token, then the name of the role, then its keys.
    async fn imds(&self, endpoint: Option<&IssuerUrl>) -> Result<Dated, Failure> {
        const ROLES: &str = "iam/security-credentials/";
        let service = Imds::open(&self.issuer, endpoint).await?;

        // An instance has one role at most.
        let role = service.line(ROLES).await?;
        let role = role.ok_or_else(|| Failure::denied("this instance has no role"))?;
        // The name comes from a server: encoded, it stays one segment of the path.
        let role = crate::request::encode::percent(role.as_bytes(), b"");

        let keys = service.get(&format!("{ROLES}{role}"))?;
        let answer = self.issuer.json(keys).await?;
        if answer
            .get("Code")
            .and_then(Value::as_str)
            .is_some_and(|code| code != "Success")
        {
            return Err(Failure::unavailable(
                "the metadata service has no keys for the role of this instance at the moment",
            ));
        }

        self.keys(&answer)
    }

    /// Obtains keys from ECS or the EKS agent, authenticated by a token if there is one.
    async fn container(&self, url: &str) -> Result<Dated, Failure> {
        let mut request = Request::get(url);
        if !self.files.is_empty() {
            let token = self.issuer.keep(self.text(0).await?);
            request = request.header(header::AUTHORIZATION, self.issuer.header_value(&token, "")?);
        }

        let answer = self.issuer.json(finish(request, Bytes::new())?).await?;
        self.keys(&answer)
    }

    /// Parses keys in the format of the metadata services.
    fn keys(&self, answer: &Value) -> Result<Dated, Failure> {
        let text = |name: &str| {
            answer
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let id = text("AccessKeyId")
            .ok_or_else(|| missing("AccessKeyId"))?
            .to_owned();
        let secret = self.issuer.secret_at(answer, "/SecretAccessKey")?;
        let session = text("Token").map(|token| self.issuer.keep(token));
        let end = text("Expiration").and_then(|text| text.parse().ok());

        Ok(Dated {
            keys: Keys {
                id,
                secret,
                session,
            },
            end,
        })
    }
}

#[async_trait]
impl Source for Aws {
    type Value = Keys;

    fn name(&self) -> &str {
        self.issuer.name()
    }

    async fn renew(&self) -> Result<Issued<Keys>, Failure> {
        let mut dated = self.source().await?;

        // Each role is assumed with the keys of the one before it.
        for (role, external_id) in self.config.assume.iter().zip(&self.external_ids) {
            let external_id = match external_id {
                Some(file) => Some(self.issuer.read(file).await?),
                None => None,
            };
            let wanted = sts::Wanted {
                role,
                external_id: external_id.as_ref(),
            };
            dated = self.sts.assume(&self.issuer, &dated.keys, &wanted).await?;
        }

        // The ID becomes part of `Authorization`, where other characters have a meaning.
        if dated.keys.id.is_empty()
            || !dated
                .keys
                .id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            return Err(Failure::malformed(
                "its access key ID contains characters other than letters and digits",
            ));
        }

        let lifetime: Option<Duration> = dated.end.map(|end| self.issuer.until(end));
        if lifetime.is_some_and(|left| left.is_zero()) {
            return Err(Failure::unavailable(
                "its issuer returned expired keys: check the clock of this machine",
            ));
        }

        Ok(Issued {
            value: dated.keys,
            lifetime,
        })
    }

    fn was_corrected(&self) -> bool {
        self.issuer.was_corrected()
    }

    async fn inputs(&self) -> u64 {
        file::inputs(&self.all).await
    }
}
