//! Authentication of a request by a credential.

use bytes::Bytes;
use http::{HeaderValue, Response, Uri, header::HOST, request::Parts};
use skydock_credentials::{CredentialError, CredentialErrorKind, Prepared, check_certificate};

use crate::{
    gateway::denial::query_authenticates,
    request_error::{Cause, Code, RequestError},
    rules::{
        compiled::CompiledRule,
        config::GuestAuth,
        headers::{Authentication, authority},
    },
    target::Target,
};

/// Returns the error for a request that a credential does not authenticate. A retry may succeed if
/// the credential is temporarily unavailable; otherwise the operator must fix it, or the author of
/// the plugin if it asks for a secret.
fn without_credential(error: &CredentialError) -> RequestError {
    let (code, cause) = match error.kind() {
        CredentialErrorKind::Unavailable => (Code::DestinationUnavailable, Cause::Credential),
        CredentialErrorKind::Denied | CredentialErrorKind::Malformed => {
            (Code::HttpRequestDenied, Cause::Credential)
        }
        // The credential is fine, and the plugin asks for too much.
        CredentialErrorKind::SecretRequest => (Code::HttpRequestDenied, Cause::SecretRequest),
    };
    RequestError::new(code, cause, error.to_string())
}

/// The rule, authentication and target of a request.
pub(super) struct Sign<'a> {
    pub(super) rule: &'a CompiledRule,
    pub(super) authentication: &'a Authentication,
    pub(super) target: &'a Target,
}

/// What becomes of a request.
pub(super) enum Signed {
    /// It is sent.
    Send {
        /// With the target and authentication of the rule.
        head: Parts,
        /// Version of the credential's authentication, if the rule has a credential.
        version: Option<u64>,
    },
    /// The credential answers it.
    Answer(Response<Bytes>),
}

impl Sign<'_> {
    /// Adds the secret of the rule's credential to a request, for the target that was allowed. All
    /// authentication by the plugin is removed, unless the rule allows it.
    ///
    /// # Errors
    /// If the credential is not available, or does not authenticate this request.
    pub(super) async fn prepare(
        &self,
        mut head: Parts,
        body: Option<&Bytes>,
    ) -> Result<Signed, RequestError> {
        // Before the credential, which may sign host and path.
        self.set_target(&mut head)?;

        let Some(credential) = &self.rule.credential else {
            if let Some(certificate) = &self.rule.certificate {
                check_certificate(&certificate.name, &head, body)
                    .map_err(|error| without_credential(&error))?;
            }
            return Ok(Signed::Send {
                head,
                version: None,
            });
        };

        let prepared = credential.prepare(&mut head, body).await;
        let version = match prepared.map_err(|error| without_credential(&error))? {
            Prepared::Answer(answer) => return Ok(Signed::Answer(answer)),
            Prepared::Send { version } => Some(version),
        };

        // Only authentication that the credential has not replaced still has the value of the
        // plugin.
        if self.rule.guest_auth == GuestAuth::Denied {
            let listed = &self.rule.listed;
            self.authentication.strip(&mut head.headers, listed);
            // A credential never uses the query.
            if let Some(what) = self.authentication.unlisted_parameter(listed) {
                return Err(query_authenticates(&self.rule.name, &what));
            }
        }

        // A credential must not change the target of a request.
        self.set_target(&mut head)?;
        Ok(Signed::Send { head, version })
    }

    fn set_target(&self, head: &mut Parts) -> Result<(), RequestError> {
        let internal = |_| {
            RequestError::new(
                Code::InternalError,
                Cause::Internal,
                "the request's target has no URI",
            )
        };

        let authority = authority(self.target);
        head.headers.insert(
            HOST,
            HeaderValue::from_str(&authority).map_err(|error| internal(error.into()))?,
        );

        // Most URIs are right, and building one for each request takes time.
        let path = head.uri.path_and_query().map_or("", |it| it.as_str());
        let is_set = head
            .uri
            .authority()
            .is_some_and(|it| it.as_str() == authority)
            && head.uri.scheme_str() == Some(self.target.scheme.as_str());
        if is_set && path.starts_with('/') {
            return Ok(());
        }

        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let uri = Uri::builder()
            .scheme(self.target.scheme.as_str())
            .authority(authority)
            .path_and_query(path)
            .build();

        head.uri = uri.map_err(internal)?;
        Ok(())
    }
}
