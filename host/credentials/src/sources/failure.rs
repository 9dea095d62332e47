//! Failures of credentials, and the secrets that must be redacted in them.

use std::fmt;

use parking_lot::Mutex;

use crate::{
    credential::{CredentialError, CredentialErrorKind, IssuerError},
    masking::secret::{Secret, redact},
    sources::file::FileError,
};

/// Why a credential could not be renewed or used. The caller adds the name of the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: CredentialErrorKind,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn unavailable(sentence: impl Into<String>) -> Self {
        Self {
            kind: CredentialErrorKind::Unavailable,
            sentence: sentence.into(),
        }
    }

    pub(crate) fn denied(sentence: impl Into<String>) -> Self {
        Self {
            kind: CredentialErrorKind::Denied,
            sentence: sentence.into(),
        }
    }

    pub(crate) fn secret_request(sentence: impl Into<String>) -> Self {
        Self {
            kind: CredentialErrorKind::SecretRequest,
            sentence: sentence.into(),
        }
    }

    pub(crate) fn malformed(sentence: impl Into<String>) -> Self {
        Self {
            kind: CredentialErrorKind::Malformed,
            sentence: sentence.into(),
        }
    }

    pub(crate) fn named(self, name: &str) -> CredentialError {
        CredentialError::new(name, self.kind, self.sentence)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error {
            // The volume may not be mounted yet, or may be in the middle of an update.
            FileError::Read { .. } | FileError::Empty { .. } => {
                Self::unavailable(error.to_string())
            }
            FileError::Kind { .. } | FileError::Large { .. } | FileError::Text { .. } => {
                Self::malformed(error.to_string())
            }
        }
    }
}

impl From<IssuerError> for Failure {
    fn from(error: IssuerError) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// Number of secrets that are remembered: several generations of any credential, which has only a
/// few at a time.
const REMEMBERED: usize = 32;

/// The secrets seen most recently, which are redacted in messages.
#[derive(Default)]
pub(crate) struct RecentSecrets(Mutex<Vec<Secret>>);

impl RecentSecrets {
    /// Adds a secret, and forgets the oldest one if there are too many.
    pub(crate) fn add(&self, secret: &Secret) {
        let mut all = self.0.lock();

        // A secret that is used again is the most recent one, so that it is forgotten last.
        all.retain(|known| known != secret);
        if all.len() >= REMEMBERED {
            all.remove(0);
        }
        all.push(secret.clone());
    }

    /// Returns all remembered secrets.
    pub(crate) fn all(&self) -> Vec<Secret> {
        self.0.lock().clone()
    }

    /// Returns text of an issuer for use in an error: secrets redacted, unprintable characters
    /// replaced, at most 64 characters.
    pub(crate) fn quote(&self, text: &str) -> String {
        let text = redact(text, &self.all());

        let plain = text.chars().map(|letter| {
            if letter.is_ascii_graphic() || letter == ' ' {
                letter
            } else {
                '?'
            }
        });
        plain.take(64).collect()
    }
}

impl fmt::Debug for RecentSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecentSecrets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_secret_is_forgotten_first() {
        let secrets_seen = RecentSecrets::default();
        for number in 0..40 {
            secrets_seen.add(&Secret::new(format!("secret-{number}")));
            secrets_seen.add(&Secret::from("always-new"));
        }
        let all = secrets_seen.all();
        assert_eq!(all.len(), REMEMBERED);
        assert!(all.contains(&Secret::from("always-new")));
        assert!(
            !all.contains(&Secret::from("secret-1")) && all.contains(&Secret::from("secret-39"))
        );
    }

    #[test]
    fn quotes_from_issuers_are_short_and_redacted() {
        let secrets_seen = RecentSecrets::default();
        secrets_seen.add(&Secret::from("hunter22"));
        assert_eq!(
            secrets_seen.quote("bad hunter22\r\n\u{1b}[31m"),
            "bad [redacted]???[31m"
        );
        assert_eq!(secrets_seen.quote(&"a".repeat(100)).len(), 64);
    }
}
