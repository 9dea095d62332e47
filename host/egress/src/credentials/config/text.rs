//! Texts of the configuration that are checked as they are read.

use http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which file of a plugin may use a credential.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum DigestPin {
    /// Whatever is at the plugin's path: whoever may replace that file has the credential.
    Any,
    /// The file of this SHA-256: 64 hexadecimal digits in lower case.
    Sha256(String),
}

impl DigestPin {
    /// True for a file of this digest, with or without `sha256:` before it.
    #[must_use]
    pub fn admits(&self, digest: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Sha256(pin) => digest.strip_prefix("sha256:").unwrap_or(digest).eq_ignore_ascii_case(pin),
        }
    }
}

impl TryFrom<String> for DigestPin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self::Any);
        }
        let hex =
            text.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let hex = hex.map(|hex| Self::Sha256(hex.to_ascii_lowercase()));
        hex.ok_or_else(|| format!("`{text}` is neither `any` nor `sha256:` with 64 hexadecimal digits"))
    }
}

/// Where an issuer is: `http` or `https`, with host, without user, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct IssuerUrl(String);

impl IssuerUrl {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// With a path after it, whether or not it ends in a slash.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.0.trim_end_matches('/'))
    }

    pub(crate) fn uri(&self) -> Uri {
        // It was one when this was made.
        self.0.parse().unwrap_or_default()
    }
}

impl TryFrom<String> for IssuerUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let uri = text.parse::<Uri>().ok();
        let good = uri.is_some_and(|uri| {
            let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && !authority.contains('@')
                && uri.query().is_none()
                && !text.contains('#')
        });
        // The text is not quoted: who writes a password into it meant a secret.
        good.then_some(Self(text)).ok_or_else(|| {
            "a URL must begin with http:// or https://, name a host, and have no user, query or fragment".to_owned()
        })
    }
}
