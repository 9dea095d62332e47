//! The `credentials` list of the configuration file. The secrets themselves are in other files, or in
//! environment variables.

mod aws;
mod oauth2;
mod session;
mod text;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};

pub use self::{
    aws::{AssumeRole, AwsConfig, AwsSource, StsConfig},
    oauth2::{Grant, OAuth2Config},
    session::{
        Attach, Capture, Escape, KeystoneConfig, Login, SessionConfig, Template, VsphereSoapConfig,
    },
    text::{DigestPin, IssuerUrl},
};
use crate::{
    masking::quotes::{SHORTEST, SHORTEST_OWN},
    sources::{absolute_path::AbsolutePath, variable::Variable},
};

/// A credential.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum CredentialConfig {
    /// A fixed header.
    Header(HeaderConfig),
    /// HTTP basic authentication.
    Basic(BasicConfig),
    /// An access token that is renewed before it expires.
    #[serde(rename = "oauth2")]
    OAuth2(OAuth2Config),
    /// AWS Signature Version 4.
    AwsSigv4(AwsConfig),
    /// A login session. Its token is added to requests.
    Session(SessionConfig),
    /// A certificate that is presented to servers (mTLS). Rules name it in `tls`.
    ClientCertificate(ClientCertificateConfig),
}

/// The file of a secret that is masked in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedFile<'a> {
    /// The field with its path.
    pub field: &'static str,
    /// Its path.
    pub path: &'a Path,
    /// The minimum length in bytes of a secret that is masked.
    pub min_length: usize,
}

/// The environment variable of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretVariable<'a> {
    /// The field with its path.
    pub field: &'static str,
    /// The variable.
    pub variable: &'a Variable,
    /// The minimum length in bytes of a secret that is masked.
    pub min_length: usize,
    /// Whether it is sent in a header as it is.
    pub is_header: bool,
}

impl CredentialConfig {
    /// The values of `type`.
    pub const TYPES: &'static [&'static str] = &[
        "header",
        "basic",
        "oauth2",
        "aws-sigv4",
        "session",
        "client-certificate",
    ];

    /// Reads a credential of this type from the other fields. Unlike [`Deserialize`], which has to
    /// remember the fields until it has seen the type, this keeps the position of each mistake.
    ///
    /// # Errors
    /// If the type is unknown, or a field is not valid.
    pub fn of_type<'de, D: Deserializer<'de>>(kind: &str, fields: D) -> Result<Self, D::Error> {
        Ok(match kind {
            "header" => Self::Header(HeaderConfig::deserialize(fields)?),
            "basic" => Self::Basic(BasicConfig::deserialize(fields)?),
            "oauth2" => Self::OAuth2(OAuth2Config::deserialize(fields)?),
            "aws-sigv4" => Self::AwsSigv4(AwsConfig::deserialize(fields)?),
            "session" => Self::Session(SessionConfig::deserialize(fields)?),
            "client-certificate" => {
                Self::ClientCertificate(ClientCertificateConfig::deserialize(fields)?)
            }
            _ => return Err(D::Error::unknown_variant(kind, Self::TYPES)),
        })
    }

    /// Returns the name that egress rules refer to.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Header(it) => &it.name,
            Self::Basic(it) => &it.name,
            Self::OAuth2(it) => &it.name,
            Self::AwsSigv4(it) => &it.name,
            Self::Session(it) => &it.name,
            Self::ClientCertificate(it) => &it.name,
        }
    }

    /// Returns the client certificate, if it is one.
    #[must_use]
    pub fn client_certificate(&self) -> Option<&ClientCertificateConfig> {
        match self {
            Self::ClientCertificate(it) => Some(it),
            _ => None,
        }
    }

    /// Returns the OpenStack `cloud.conf` that contains the secrets, if there is one.
    #[must_use]
    pub fn cloud_conf(&self) -> Option<&Path> {
        match self {
            Self::Session(SessionConfig {
                login: Login::Keystone(keystone),
                ..
            }) => keystone.cloud_conf.as_deref(),
            _ => None,
        }
    }

    /// Returns the `clouds.yaml` that contains the login, if there is one, and the name of the cloud.
    #[must_use]
    pub fn clouds_file(&self) -> Option<(&Path, Option<&str>)> {
        match self {
            Self::Session(SessionConfig {
                login: Login::Keystone(keystone),
                ..
            }) => {
                let file = keystone.clouds_file.as_deref()?;
                Some((file, keystone.cloud.as_deref()))
            }
            _ => None,
        }
    }

    /// Returns the file of the secret that is masked in answers that a plugin receives, if it is a
    /// file of its own.
    #[must_use]
    pub fn masked_file(&self) -> Option<MaskedFile<'_>> {
        let of_login = |field, file| Some((field, file, SHORTEST_OWN));

        let (field, path, min_length) = match self {
            Self::Header(it) => Some(("valueFile", it.value_file.as_ref()?, SHORTEST)),
            Self::Basic(it) => Some(("passwordFile", it.password_file.as_ref()?, SHORTEST)),
            Self::Session(it) if it.masked => match &it.login {
                Login::Keystone(it) => {
                    let password = it.password_file.as_ref();
                    let secret = it.application_credential_secret_file.as_ref();
                    password
                        .and_then(|file| of_login("login.keystone.passwordFile", file))
                        .or_else(|| {
                            of_login("login.keystone.applicationCredentialSecretFile", secret?)
                        })
                }
                Login::VsphereSoap(it) => {
                    of_login("login.vsphereSoap.passwordFile", &it.password_file)
                }
                // Plugins do not receive the answer to such a login, only the handle.
                Login::Template(_) => None,
            },
            _ => None,
        }?;

        Some(MaskedFile {
            field,
            path,
            min_length,
        })
    }

    /// Returns the environment variable with its secret, if it has one.
    #[must_use]
    pub fn variable(&self) -> Option<SecretVariable<'_>> {
        let (field, variable, min_length) = match self {
            Self::Header(it) => ("valueEnv", it.value_env.as_ref()?, SHORTEST),
            Self::Basic(it) => ("passwordEnv", it.password_env.as_ref()?, SHORTEST),
            Self::OAuth2(OAuth2Config {
                grant:
                    Grant::ClientSecret {
                        client_secret_env, ..
                    },
                ..
            }) => (
                "grant.clientSecret.clientSecretEnv",
                client_secret_env.as_ref()?,
                // No answer that a plugin receives has it.
                0,
            ),
            _ => return None,
        };

        Some(SecretVariable {
            field,
            variable,
            min_length,
            is_header: matches!(self, Self::Header(_)),
        })
    }

    /// Returns which plugin may use the credential.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        match self {
            Self::Header(it) => &it.binding,
            Self::Basic(it) => &it.binding,
            Self::OAuth2(it) => &it.binding,
            Self::AwsSigv4(it) => &it.binding,
            Self::Session(it) => &it.binding,
            Self::ClientCertificate(it) => &it.binding,
        }
    }

    /// Returns true if both are the same credential of the same plugin, whichever builds of it may
    /// use them.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        // The digests change with each step of a rollover, during which credentials are kept.
        let mut bound = other.clone();
        bound.binding_mut().digest = self.binding().digest.clone();
        *self == bound
    }

    fn binding_mut(&mut self) -> &mut Binding {
        match self {
            Self::Header(it) => &mut it.binding,
            Self::Basic(it) => &mut it.binding,
            Self::OAuth2(it) => &mut it.binding,
            Self::AwsSigv4(it) => &mut it.binding,
            Self::Session(it) => &mut it.binding,
            Self::ClientCertificate(it) => &mut it.binding,
        }
    }
}

/// Which plugin may use a credential. The operator decides this; names that a plugin gives itself
/// are not considered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binding {
    /// Name of the plugin in `plugins`.
    pub plugin: String,
    /// SHA-256 of the plugin's file as `sha256:…`, a list of these, or `any`. With `any`, whoever can
    /// replace the file can use the credential.
    pub digest: DigestPin,
}

impl Binding {
    /// Returns true if the plugin with this name and this digest of its file (`sha256:` and
    /// hexadecimal digits) may use the credential.
    #[must_use]
    pub fn admits(&self, plugin: &str, digest: &str) -> bool {
        self.plugin == plugin && self.digest.admits(digest)
    }
}

/// `type: header`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderConfig {
    /// The name that egress rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// Name of the header.
    #[serde(default = "authorization")]
    pub header: String,
    /// Text before the value, including a trailing space if one is needed, for example `Bearer `.
    #[serde(default)]
    pub prefix: String,
    /// File with the value. Either this or `valueEnv` is set.
    pub value_file: Option<AbsolutePath>,
    /// Environment variable of Skydock with the value, instead of a file: its name has upper-case
    /// letters, digits and underscores. Another value needs a restart.
    pub value_env: Option<Variable>,
}

/// `type: basic`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BasicConfig {
    /// The name that egress rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// File with the user name.
    pub user_file: AbsolutePath,
    /// File with the password. Either this or `passwordEnv` is set.
    pub password_file: Option<AbsolutePath>,
    /// Environment variable of Skydock with the password, as `valueEnv` of a `header`.
    pub password_env: Option<Variable>,
}

/// `type: client-certificate`. The files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientCertificateConfig {
    /// The name that `tls.clientCertificate` of egress rules refers to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// PEM file with the certificate chain.
    pub cert_file: AbsolutePath,
    /// PEM file with the private key.
    pub key_file: AbsolutePath,
}

impl ClientCertificateConfig {
    /// Returns what a plugin that may use it presents.
    #[must_use]
    pub fn certificate(&self) -> ClientCertificate {
        ClientCertificate {
            name: self.name.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
        }
    }
}

/// A client certificate, whoever may use it. Two that are equal are presented in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The credential's name.
    pub name: String,
    /// PEM file with the certificate chain.
    pub cert_file: AbsolutePath,
    /// PEM file with the private key.
    pub key_file: AbsolutePath,
}

pub(crate) fn authorization() -> String {
    "Authorization".to_owned()
}

#[cfg(test)]
mod tests;
