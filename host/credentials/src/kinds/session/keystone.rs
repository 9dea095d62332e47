//! Logins to Keystone (OpenStack Identity v3).

mod body;

use bytes::Bytes;
use http::Uri;
use jiff::Timestamp;
use serde_json::Value;

use super::{LoggedIn, captured, post};
use crate::masking::secret::Secret;
use crate::{
    cloud_config::{
        cloud_conf::split_cloud_conf,
        clouds_file,
        keystone_login::{self, KeystoneLogin},
    },
    config::{Capture, IssuerUrl, KeystoneConfig},
    sources::{
        failure::Failure,
        file::SecretFile,
        issuer_client::{IssuerClient, missing},
    },
};

/// The source of the login.
enum From {
    CloudConf,
    /// A cloud in a `clouds.yaml`, by name.
    CloudsFile(Option<String>),
    /// The configuration, with the file that contains the secret.
    Config(Box<KeystoneConfig>),
}

/// A login to Keystone.
pub(crate) struct Keystone {
    from: From,
    files: [SecretFile; 1],
    masked: bool,
}

impl Keystone {
    pub(crate) fn new(config: &KeystoneConfig, masked: bool) -> Result<Self, String> {
        if let Some(path) = &config.cloud_conf {
            let alone = KeystoneConfig {
                cloud_conf: Some(path.clone()),
                ..KeystoneConfig::default()
            };
            if *config != alone {
                return Err(
                    "`cloudConf` and other fields of `keystone` are mutually exclusive".to_owned(),
                );
            }
            return Ok(Self {
                from: From::CloudConf,
                files: [SecretFile::new(path)],
                masked,
            });
        }

        if let Some(path) = &config.clouds_file {
            let alone = KeystoneConfig {
                clouds_file: Some(path.clone()),
                cloud: config.cloud.clone(),
                ..KeystoneConfig::default()
            };
            if *config != alone {
                return Err("beside `cloudsFile`, `keystone` can only have `cloud`".to_owned());
            }
            return Ok(Self {
                from: From::CloudsFile(config.cloud.clone()),
                files: [SecretFile::new(path)],
                masked,
            });
        }

        if config.cloud.is_some() {
            return Err("`cloud` needs `cloudsFile`".to_owned());
        }

        let files = [
            &config.password_file,
            &config.application_credential_secret_file,
            &config.token_file,
        ];
        let mut files = files.into_iter().flatten();
        let (Some(file), None) = (files.next(), files.next()) else {
            return Err(
                "exactly one of `cloudConf`, `cloudsFile`, `passwordFile`, `applicationCredentialSecretFile` and \
                        `tokenFile` must be given"
                    .to_owned(),
            );
        };

        let keystone = Self {
            from: From::Config(Box::new(config.clone())),
            files: [SecretFile::new(file)],
            masked,
        };
        // Validates the other fields, which do not depend on the secret.
        keystone_login::from_config(config, &Secret::from("x"))?;
        Ok(keystone)
    }

    pub(crate) fn files(&self) -> &[SecretFile] {
        &self.files
    }

    /// Returns the URL of logins.
    pub(crate) fn login_uri(&self) -> Result<Uri, String> {
        let url = match &self.from {
            From::Config(config) => config.auth_url.clone().ok_or("`authUrl` is missing")?,
            From::CloudConf | From::CloudsFile(_) => {
                let [file] = &self.files;
                let text = std::fs::read_to_string(file.path()).map_err(|error| {
                    format!(
                        "file {} cannot be read: {}",
                        file.path().display(),
                        error.kind()
                    )
                })?;
                self.in_file(&text)?.auth_url
            }
        };

        Ok(tokens_url(&url).parse().unwrap_or_default())
    }

    /// Returns the login in this text of a file that has a complete one.
    fn in_file(&self, text: &str) -> Result<KeystoneLogin, String> {
        match &self.from {
            From::CloudsFile(cloud) => clouds_file::login(text, cloud.as_deref()),
            _ => split_cloud_conf(text)
                .map(|(login, _)| login)
                .map_err(|error| error.to_string()),
        }
    }

    async fn login(&self, issuer: &IssuerClient) -> Result<KeystoneLogin, Failure> {
        let [file] = &self.files;
        // Such a file as a whole is no secret: answers to logins quote the URL in it, for example.
        let secret = file.text().await?;

        let login = match &self.from {
            From::Config(config) => keystone_login::from_config(config, &secret),
            From::CloudConf | From::CloudsFile(_) => {
                self.in_file(secret.expose_str().unwrap_or_default())
            }
        };

        let login = login.map_err(Failure::malformed)?;
        issuer.secrets_seen().add(login.secret());
        Ok(login)
    }

    pub(super) async fn log_in(&self, issuer: &IssuerClient) -> Result<LoggedIn, Failure> {
        let login = self.login(issuer).await?;
        let mut url = tokens_url(&login.auth_url);
        if !self.masked {
            // The catalog is not used here.
            url.push_str("?nocatalog");
        }

        let body = body::of(&login).map_err(Failure::malformed)?;
        let request = post(
            &url,
            "application/json",
            Bytes::copy_from_slice(body.as_bytes()),
        )?;

        let answer = issuer.send(request).await?;
        let token = captured(
            issuer,
            &answer,
            &Capture::Header("X-Subject-Token".to_owned()),
        )?;
        let lifetime = lifetime(issuer, answer.body())?;

        Ok(LoggedIn {
            token,
            lifetime: Some(lifetime),
            answer,
        })
    }
}

/// Returns the lifetime, computed with Keystone's clock if the answer has the issue time: the local
/// clock may differ.
fn lifetime(issuer: &IssuerClient, body: &[u8]) -> Result<std::time::Duration, Failure> {
    let answer: Value = serde_json::from_slice(body)
        .map_err(|_| Failure::unavailable("its issuer did not return JSON"))?;
    let time = |pointer| {
        answer
            .pointer(pointer)
            .and_then(Value::as_str)?
            .parse::<Timestamp>()
            .ok()
    };

    let end = time("/token/expires_at").ok_or_else(|| missing("/token/expires_at"))?;
    let start = time("/token/issued_at").unwrap_or_else(|| issuer.now());
    Ok(end.duration_since(start).try_into().unwrap_or_default())
}

/// Returns the URL of tokens for a URL with or without the version.
fn tokens_url(auth_url: &IssuerUrl) -> String {
    let base = auth_url.as_str().trim_end_matches('/');
    let base = base
        .strip_suffix("/v3")
        .or_else(|| base.strip_suffix("/v2.0"))
        .unwrap_or(base);
    format!("{base}/v3/auth/tokens")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_version_in_the_url_is_optional() {
        for (url, tokens) in [
            ("https://a:5000", "https://a:5000/v3/auth/tokens"),
            ("https://a:5000/", "https://a:5000/v3/auth/tokens"),
            ("https://a:5000/v3", "https://a:5000/v3/auth/tokens"),
            (
                "https://a/identity/v3/",
                "https://a/identity/v3/auth/tokens",
            ),
            (
                "https://a/identity/v2.0",
                "https://a/identity/v3/auth/tokens",
            ),
        ] {
            assert_eq!(
                tokens_url(&IssuerUrl::try_from(url.to_owned()).unwrap()),
                tokens
            );
        }
    }
}
