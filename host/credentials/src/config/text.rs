//! Text values of the configuration that are validated when they are parsed.

use std::{borrow::Cow, fmt};

use http::Uri;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

/// Which files of a plugin are meant: `any`, or `sha256:` and 64 hexadecimal digits, or a list of
/// these digests, so that one file can replace another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DigestPin {
    /// Any file at the path of the plugin.
    #[default]
    Any,
    /// The files with these SHA-256: 64 hexadecimal digits in lower case.
    Sha256(Vec<String>),
}

impl DigestPin {
    /// Returns true for a file with this digest, with or without the prefix `sha256:`.
    #[must_use]
    pub fn admits(&self, digest: &str) -> bool {
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        match self {
            Self::Any => true,
            Self::Sha256(pins) => pins.iter().any(|pin| digest.eq_ignore_ascii_case(pin)),
        }
    }
}

/// Formats the pin as it is written in the configuration.
impl fmt::Display for DigestPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Sha256(pins) = self else {
            return f.write_str("any");
        };

        let pins: Vec<String> = pins.iter().map(|pin| format!("sha256:{pin}")).collect();
        match pins.as_slice() {
            [pin] => f.write_str(pin),
            pins => write!(f, "[{}]", pins.join(", ")),
        }
    }
}

/// Returns the hexadecimal digits of `sha256:…`.
fn sha256<E: de::Error>(text: &str) -> Result<String, E> {
    let hex = text
        .strip_prefix("sha256:")
        .filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));

    hex.map(str::to_ascii_lowercase).ok_or_else(|| {
        E::custom(format!(
            "`{text}` is not valid; expected `any`, `sha256:` with 64 hexadecimal digits, or a list of such digests"
        ))
    })
}

impl<'de> Deserialize<'de> for DigestPin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pin;

        impl<'de> Visitor<'de> for Pin {
            type Value = DigestPin;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`any`, or `sha256:` with 64 hexadecimal digits, or a list of these")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<DigestPin, E> {
                if text == "any" {
                    return Ok(DigestPin::Any);
                }
                Ok(DigestPin::Sha256(vec![sha256(text)?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<DigestPin, A::Error> {
                let mut pins = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    pins.push(sha256(&text)?);
                }

                if pins.is_empty() {
                    return Err(de::Error::custom(
                        "the list of digests is empty, so that no file would be allowed; write `any` to allow all",
                    ));
                }

                Ok(DigestPin::Sha256(pins))
            }
        }

        deserializer.deserialize_any(Pin)
    }
}

impl JsonSchema for DigestPin {
    fn schema_name() -> Cow<'static, str> {
        "DigestPin".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        const DIGEST: &str = "^sha256:[0-9a-fA-F]{64}$";
        json_schema!({
            "description": "`any`, or `sha256:` and 64 hexadecimal digits, or a list of these digests.",
            "anyOf": [
                {"const": "any"},
                {"type": "string", "pattern": DIGEST},
                {"type": "array", "items": {"type": "string", "pattern": DIGEST}, "minItems": 1},
            ],
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
