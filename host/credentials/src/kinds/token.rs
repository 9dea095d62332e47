//! Credentials with a token from an issuer: OAuth2 and sessions.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use http::{request, response};

use crate::{
    credential::{Credential, CredentialError, Prepared, RequestKind},
    kinds::{
        masked::{Mask, Purpose},
        renewed::{Renewed, Source},
    },
    masking::secret::Secret,
    place::{self, Place},
    secret_requests,
    sources::{failure::Failure, issuer_client::IssuerClient},
};

/// A token, and the answer that contained it if plugins receive it (masked login).
pub(crate) struct Token {
    pub(crate) value: Secret,
    pub(crate) answer: Option<http::Response<Bytes>>,
}

pub(crate) trait TokenSource: Source<Value = Token> {
    fn issuer(&self) -> &IssuerClient;
}

pub(crate) struct TokenCredential<S: TokenSource> {
    renewed: Renewed<S>,
    place: Place,
    mask: Option<Mask>,
}

impl<S: TokenSource> TokenCredential<S> {
    pub(crate) fn new(renewed: Renewed<S>, place: Place, mask: Option<Mask>) -> Self {
        Self {
            renewed,
            place,
            mask,
        }
    }

    async fn try_prepare(
        &self,
        head: &mut request::Parts,
        body: Option<&Bytes>,
    ) -> Result<Prepared, Failure> {
        let purpose = self
            .mask
            .as_ref()
            .map_or(Purpose::Other, |mask| mask.recognize(head, body));

        match (purpose, &self.mask) {
            (Purpose::Login, Some(mask)) => {
                mask.check()?;
                let (_, token) = self.renewed.get().await?;
                let answer = token.answer.as_ref();
                let answer = answer
                    .ok_or_else(|| Failure::unavailable("Skydock's own login is not available"))?;
                return Ok(Prepared::Answer(mask.login(answer, &token.value)?));
            }
            (Purpose::Logout, Some(mask)) => return Ok(Prepared::Answer(mask.logout())),
            _ => {}
        }

        secret_requests::check(head, body.map(AsRef::as_ref), Some(&self.place))?;

        // Looked up before the headers of the plugin are removed: this is one of them.
        let subject = self
            .mask
            .as_ref()
            .is_some_and(|mask| mask.is_subject(&head.headers));

        self.place.strip(&mut head.headers);
        let (version, token) = self.renewed.get().await?;
        self.place.insert(&mut head.headers, &token.value)?;

        // The plugin has sent the handle, which Keystone does not know.
        if subject {
            Place::header("x-subject-token", "")
                .map_err(Failure::malformed)?
                .insert(&mut head.headers, &token.value)?;
        }

        Ok(Prepared::Send { version })
    }
}

impl<S: TokenSource> fmt::Debug for TokenCredential<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.renewed.source().name();
        f.debug_struct("TokenCredential")
            .field("name", &name)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: TokenSource> Credential for TokenCredential<S> {
    fn name(&self) -> &str {
        self.renewed.source().name()
    }

    fn needs_body(&self, head: &request::Parts) -> bool {
        // The body of a login is read and discarded.
        secret_requests::needs_body(head, Some(&self.place))
            || self
                .mask
                .as_ref()
                .is_some_and(|mask| mask.is_at_login(head))
    }

    async fn prepare(
        &self,
        head: &mut request::Parts,
        body: Option<&Bytes>,
    ) -> Result<Prepared, CredentialError> {
        self.try_prepare(head, body)
            .await
            .map_err(|failure| failure.named(self.name()))
    }

    fn accepted(&self, version: u64, kind: RequestKind) {
        self.renewed.accepted(version, kind);
    }

    async fn rejected(&self, version: u64, kind: RequestKind) -> bool {
        self.renewed.rejected(version, kind).await
    }

    async fn changed(&self, version: u64) -> bool {
        self.renewed.changed(version).await
    }

    fn mask(&self, head: &mut response::Parts) {
        // An answer may contain the next token in the header in which the current one was sent.
        self.place.remove(&mut head.headers);
        place::remove_session_headers(&mut head.headers);
    }

    fn secrets(&self) -> Vec<Secret> {
        self.renewed.source().issuer().secrets_seen().all()
    }
}
