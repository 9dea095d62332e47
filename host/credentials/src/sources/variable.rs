//! Environment variables with secrets. They are those of the process: another value needs a restart.

use std::{fmt, os::unix::ffi::OsStringExt as _};

use schemars::JsonSchema;
use serde::Deserialize;

use super::failure::Failure;
use crate::masking::secret::Secret;

/// The name of an environment variable with a secret: upper-case letters, digits and underscores,
/// so that it is hardly the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("pattern" = "^[A-Z_][A-Z0-9_]*$"))]
pub struct Variable(String);

/// A text is not the name of an environment variable. It is not shown, because it may be the secret
/// in place of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be the name of an environment variable, of upper-case letters, digits and underscores, for example API_TOKEN"
)]
pub struct NotAVariable;

impl TryFrom<String> for Variable {
    type Error = NotAVariable;

    fn try_from(text: String) -> Result<Self, NotAVariable> {
        let is_first = |b: u8| b.is_ascii_uppercase() || b == b'_';
        let is_name = text.bytes().next().is_some_and(is_first)
            && text.bytes().all(|b| is_first(b) || b.is_ascii_digit());
        if is_name {
            Ok(Self(text))
        } else {
            Err(NotAVariable)
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Variable {
    /// Returns the length of its value in bytes, as far as that is a secret; 0 if it is not set.
    #[must_use]
    pub fn length(&self) -> usize {
        self.value().len()
    }

    /// Returns true if its value can be in a header: it has no line break and no other control
    /// character.
    #[must_use]
    pub fn fits_header(&self) -> bool {
        fits_header(&self.value())
    }

    /// Returns the value without trailing line breaks, as of a file.
    fn value(&self) -> Vec<u8> {
        let mut value = std::env::var_os(&self.0).unwrap_or_default().into_vec();
        while value.last().is_some_and(|byte| b"\r\n".contains(byte)) {
            value.pop();
        }
        value
    }

    /// Returns the secret, which is text.
    pub(crate) fn text(&self) -> Result<Secret, Failure> {
        let secret = Secret::new(self.value());
        if secret.expose().is_empty() {
            return Err(Failure::unavailable(format!(
                "the environment variable {self} is not set"
            )));
        }
        if secret.expose_str().is_none() {
            return Err(Failure::malformed(format!(
                "the environment variable {self} is not UTF-8"
            )));
        }
        Ok(secret)
    }
}

fn fits_header(value: &[u8]) -> bool {
    !value
        .iter()
        .any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_a_control_character_fits_no_header() {
        for (value, fits) in [
            (&b"s3cret"[..], true),
            ("geheim\u{fc}".as_bytes(), true),
            (&b"a\tb"[..], true),
            (&b"a\nb"[..], false),
            (&b"a\x00"[..], false),
            (&b"\x7fa"[..], false),
        ] {
            assert_eq!(fits_header(value), fits, "{value:?}");
        }
    }

    #[test]
    fn a_variable_has_a_name_that_is_hardly_a_secret() {
        for name in ["API_TOKEN", "_A", "T2"] {
            assert_eq!(
                Variable::try_from(name.to_owned()).unwrap().to_string(),
                name
            );
        }
        for wrong in ["", "2T", "token", "A-B", "Sup3rSecret", "A=B", "$TOKEN"] {
            assert_eq!(
                Variable::try_from(wrong.to_owned()),
                Err(NotAVariable),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_variable_that_is_not_set_is_an_error_with_its_name() {
        let set = Variable("PATH".to_owned());
        let value = std::env::var("PATH").unwrap();
        assert_eq!(set.text().unwrap().expose_str(), Some(&*value));
        assert_eq!(set.length(), value.len());

        let unset = Variable("SKYDOCK_NOWHERE".to_owned());
        let said = unset.text().unwrap_err().to_string();
        assert_eq!(said, "the environment variable SKYDOCK_NOWHERE is not set");
        assert_eq!(unset.length(), 0);
    }
}
