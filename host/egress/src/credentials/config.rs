//! The entries of `credentials:` in the manager's configuration. Secrets themselves stand in files.

mod aws;
mod oauth2;
mod session;
mod text;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::{
    aws::{AssumeRole, AwsConfig, AwsSource, StsConfig},
    oauth2::{Grant, OAuth2Config},
    session::{Attach, Capture, Escape, KeystoneConfig, Login, SessionConfig, Template, VsphereSoapConfig},
    text::{DigestPin, IssuerUrl},
};

/// One entry of `credentials:`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum CredentialConfig {
    /// A fixed header.
    Header(HeaderConfig),
    /// HTTP basic authentication.
    Basic(BasicConfig),
    /// An access token, got anew before it expires.
    #[serde(rename = "oauth2")]
    OAuth2(OAuth2Config),
    /// AWS Signature Version 4.
    AwsSigv4(AwsConfig),
    /// A login whose session is kept and attached.
    Session(SessionConfig),
}

impl CredentialConfig {
    /// The name that rules refer to.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Header(it) => &it.name,
            Self::Basic(it) => &it.name,
            Self::OAuth2(it) => &it.name,
            Self::AwsSigv4(it) => &it.name,
            Self::Session(it) => &it.name,
        }
    }

    /// Which plugin may use it.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        match self {
            Self::Header(it) => &it.binding,
            Self::Basic(it) => &it.binding,
            Self::OAuth2(it) => &it.binding,
            Self::AwsSigv4(it) => &it.binding,
            Self::Session(it) => &it.binding,
        }
    }
}

/// Which plugin may use a credential: the operator says so, and nothing the plugin calls itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binding {
    /// Name of the plugin in `plugins:`.
    pub plugin: String,
    /// SHA-256 of the plugin's file, `sha256:…`, or `any`.
    pub digest: DigestPin,
}

impl Binding {
    /// True for the plugin of this name whose file has this digest (`sha256:` and hexadecimal digits).
    #[must_use]
    pub fn admits(&self, plugin: &str, digest: &str) -> bool {
        self.plugin == plugin && self.digest.admits(digest)
    }
}

/// `type: header`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderConfig {
    /// The name that rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// Name of the header.
    #[serde(default = "authorization")]
    pub header: String,
    /// What stands before the value, with a blank if there is to be one, such as `Bearer `.
    #[serde(default)]
    pub prefix: String,
    /// File with the value.
    pub value_file: PathBuf,
}

/// `type: basic`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BasicConfig {
    /// The name that rules refer to.
    pub name: String,
    /// Which plugin may use it.
    #[serde(rename = "for")]
    pub binding: Binding,
    /// File with the user's name.
    pub user_file: PathBuf,
    /// File with the password.
    pub password_file: PathBuf,
}

pub(crate) fn authorization() -> String {
    "Authorization".to_owned()
}

#[cfg(test)]
mod tests;
