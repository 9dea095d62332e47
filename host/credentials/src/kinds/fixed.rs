//! Credentials that are sent as they are in files, or in an environment variable: a header, or user
//! name and password.

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose};
use bytes::Bytes;
use http::{HeaderMap, request, response};
use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::{
    config::{BasicConfig, HeaderConfig},
    credential::{Credential, CredentialError, Prepared, RequestKind},
    masking::{answer_mask::AnswerMask, quotes::SHORTEST, secret::Secret},
    place::{self, Place},
    secret_requests,
    sources::{
        absolute_path::AbsolutePath,
        failure::{Failure, RecentSecrets},
        file::SecretFile,
        variable::Variable,
    },
};

/// Where a part of the value is.
#[derive(Debug)]
enum Part {
    File(SecretFile),
    Variable(Variable),
}

impl Part {
    /// Returns the place of a secret, if it is in exactly one of these.
    fn of(file: Option<&AbsolutePath>, variable: Option<&Variable>) -> Option<Self> {
        match (file, variable) {
            (Some(file), None) => Some(Self::File(SecretFile::new(file))),
            (None, Some(variable)) => Some(Self::Variable(variable.clone())),
            _ => None,
        }
    }

    async fn text(&self) -> Result<Secret, Failure> {
        match self {
            Self::File(file) => Ok(file.text().await?),
            Self::Variable(variable) => variable.text(),
        }
    }
}

/// A credential with a fixed value.
#[derive(Debug)]
pub(crate) struct Fixed {
    name: String,
    place: Place,
    /// Where the value is, or the user name and the password.
    parts: Vec<Part>,
    basic: bool,
    secrets_seen: RecentSecrets,
    /// The value that was sent last, and its number.
    last: Mutex<(u64, Option<Secret>)>,
}

impl Fixed {
    pub(crate) fn header(config: &HeaderConfig) -> Result<Self, String> {
        let place = Place::header(&config.header, &config.prefix)?;
        let part = Part::of(config.value_file.as_ref(), config.value_env.as_ref());
        let part = part.ok_or("set either `valueFile` or `valueEnv`")?;
        Ok(Self::new(&config.name, place, vec![part], false))
    }

    pub(crate) fn basic(config: &BasicConfig) -> Result<Self, String> {
        let place = Place::header("authorization", "Basic ")?;
        let user = Part::File(SecretFile::new(&config.user_file));
        let password = Part::of(config.password_file.as_ref(), config.password_env.as_ref());
        let password = password.ok_or("set either `passwordFile` or `passwordEnv`")?;
        Ok(Self::new(&config.name, place, vec![user, password], true))
    }

    fn new(name: &str, place: Place, parts: Vec<Part>, basic: bool) -> Self {
        Self {
            name: name.to_owned(),
            place,
            parts,
            basic,
            secrets_seen: RecentSecrets::default(),
            last: Mutex::default(),
        }
    }

    /// Returns the version of the current value, and the value.
    async fn current(&self) -> Result<(u64, Secret), Failure> {
        let mut parts = Vec::new();
        for part in &self.parts {
            parts.push(part.text().await?);
        }

        // A user name is not a secret, and may occur in many texts.
        if let Some(secret) = parts.last() {
            self.secrets_seen.add(secret);
        }

        let value = match parts.as_slice() {
            [user, password] if self.basic => {
                if user.expose().contains(&b':') {
                    return Err(Failure::malformed(
                        "the user name contains a colon, which basic authentication does not support",
                    ));
                }
                let both = Zeroizing::new([user.expose(), b":", password.expose()].concat());
                Secret::new(general_purpose::STANDARD.encode(&*both))
            }
            [value, ..] => value.clone(),
            [] => return Err(Failure::malformed("it has no file")),
        };

        // A server can quote what was sent, which for basic authentication is the encoded pair.
        self.secrets_seen.add(&value);

        // By the version, `changed` knows that a file has changed.
        let mut last = self.last.lock();
        if last.1.as_ref() != Some(&value) {
            *last = (last.0.saturating_add(1), Some(value.clone()));
            if !self.is_masked(&value) {
                tracing::warn!(
                    credential = self.name,
                    "its secret has fewer than {SHORTEST} bytes: it is not masked in answers that quote it, because a plugin \
                     could guess it; use a longer one"
                );
            }
        }

        Ok((last.0, value))
    }

    /// Returns true if an answer that quotes this value is masked.
    fn is_masked(&self, value: &Secret) -> bool {
        let none = HeaderMap::new();
        let mut sent = HeaderMap::new();
        let mut mask = AnswerMask::default();

        let inserted = self.place.insert(&mut sent, value);
        mask.add(&self.secrets_seen.all(), &none, &sent);
        inserted.is_err() || mask.hides()
    }
}

#[async_trait]
impl Credential for Fixed {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs_body(&self, head: &request::Parts) -> bool {
        secret_requests::needs_body(head, Some(&self.place))
    }

    async fn prepare(
        &self,
        head: &mut request::Parts,
        body: Option<&Bytes>,
    ) -> Result<Prepared, CredentialError> {
        let prepared = async {
            secret_requests::check(head, body.map(AsRef::as_ref), Some(&self.place))?;
            self.place.strip(&mut head.headers);
            let (version, value) = self.current().await?;
            self.place.insert(&mut head.headers, &value)?;
            Ok(Prepared::Send { version })
        };
        prepared
            .await
            .map_err(|failure: Failure| failure.named(&self.name))
    }

    fn accepted(&self, _version: u64, _kind: RequestKind) {}

    async fn rejected(&self, version: u64, _kind: RequestKind) -> bool {
        // Nobody issues another value: only a changed file has one.
        self.changed(version).await
    }

    async fn changed(&self, version: u64) -> bool {
        self.current().await.is_ok_and(|(now, _)| now > version)
    }

    fn mask(&self, head: &mut response::Parts) {
        place::remove_session_headers(&mut head.headers);
    }

    fn secrets(&self) -> Vec<Secret> {
        self.secrets_seen.all()
    }
}
