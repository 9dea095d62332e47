//! Text values of the configuration that are validated when they are parsed.

use http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which file of a plugin may use a credential.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum DigestPin {
    /// Any file at the path of the plugin. Whoever can replace this file can use the credential.
    Any,
    /// The file with this SHA-256: 64 hexadecimal digits in lower case.
    Sha256(String),
}

impl DigestPin {
    /// Returns true for a file with this digest, with or without the prefix `sha256:`.
    #[must_use]
    pub fn admits(&self, digest: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Sha256(pin) => digest
                .strip_prefix("sha256:")
                .unwrap_or(digest)
                .eq_ignore_ascii_case(pin),
        }
    }
}

impl TryFrom<String> for DigestPin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self::Any);
        }
        let hex = text
            .strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let hex = hex.map(|hex| Self::Sha256(hex.to_ascii_lowercase()));
        hex.ok_or_else(|| {
            format!("`{text}` is neither `any` nor `sha256:` with 64 hexadecimal digits")
        })
    }
}

/// URL of an issuer: `http` or `https`, with a host, and without user, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct IssuerUrl(String);

impl IssuerUrl {
    /// Returns the URL as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Appends a path, whether or not the URL ends in a slash.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.0.trim_end_matches('/'))
    }

    pub(crate) fn uri(&self) -> Uri {
        // The text was validated as a URI on creation.
        self.0.parse().unwrap_or_default()
    }
}

impl TryFrom<String> for IssuerUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let uri = text.parse::<Uri>().ok();
        let good = uri.is_some_and(|uri| {
            let authority = uri
                .authority()
                .map(http::uri::Authority::as_str)
                .unwrap_or_default();
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && !authority.contains('@')
                && uri.query().is_none()
                && !text.contains('#')
        });
        // The text may contain a password by mistake, so it is not quoted.
        good.then_some(Self(text)).ok_or_else(|| {
            "a URL must begin with http:// or https://, name a host, and have no user, query or fragment".to_owned()
        })
    }
}
