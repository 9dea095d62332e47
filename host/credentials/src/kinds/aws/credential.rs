//! The credential of type `aws-sigv4`.

use async_trait::async_trait;
use bytes::Bytes;
use http::{request, response};

use super::{
    request::{Allowed, scope, sign},
    source::Aws,
};
use crate::masking::secret::Secret;
use crate::{
    config::AwsConfig,
    credential::{Credential, CredentialError, Prepared, RequestKind},
    kinds::renewed::{Renewed, Source as _},
    place,
    request::aws_endpoint::is_region,
    secret_requests,
    sources::failure::Failure,
};

/// Services that use a different canonical form for signatures.
const UNLIKE: [&str; 4] = ["s3", "s3express", "s3-outposts", "s3-object-lambda"];

/// A credential that signs requests.
#[derive(Debug)]
pub(crate) struct AwsCredential {
    keys: Renewed<Aws>,
    allowed: Allowed,
}

impl AwsCredential {
    pub(crate) fn new(config: &AwsConfig, keys: Renewed<Aws>) -> Result<Self, String> {
        let services = config.services.clone();
        let regions = config.regions.clone();

        if services.is_empty() || regions.is_empty() {
            return Err("`services` and `regions` must not be empty".to_owned());
        }

        if let Some(service) = services.iter().find(|it| UNLIKE.contains(&it.as_str())) {
            return Err(format!(
                "service `{service}` is not supported: its requests are signed in another way"
            ));
        }

        if let Some(service) = services
            .iter()
            .find(|it| secret_requests::aws::is_secret_service(it))
        {
            return Err(format!(
                "service `{service}` returns credentials and cannot be allowed"
            ));
        }

        if let Some(region) = regions.iter().find(|it| !is_region(it)) {
            return Err(format!(
                "`{region}` is not a valid region; expected for example eu-west-1"
            ));
        }

        Ok(Self {
            keys,
            allowed: Allowed { services, regions },
        })
    }

    async fn try_prepare(
        &self,
        head: &mut request::Parts,
        body: Option<&Bytes>,
    ) -> Result<Prepared, Failure> {
        let body = body
            .ok_or_else(|| Failure::malformed("the complete body is needed for the signature"))?;

        // The request is checked first: one that is denied causes no request to an issuer.
        let scope = scope(head, body, &self.allowed)?;
        let (version, keys) = self.keys.get().await?;

        sign(head, body, &keys, &scope, self.keys.source().issuer().now())?;
        Ok(Prepared::Send { version })
    }
}

#[async_trait]
impl Credential for AwsCredential {
    fn name(&self) -> &str {
        self.keys.source().name()
    }

    fn signs(&self) -> bool {
        true
    }

    fn needs_body(&self, _head: &request::Parts) -> bool {
        true
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
        self.keys.accepted(version, kind);
    }

    async fn rejected(&self, version: u64, kind: RequestKind) -> bool {
        self.keys.rejected(version, kind).await
    }

    async fn changed(&self, version: u64) -> bool {
        self.keys.changed(version).await
    }

    fn follow_clock(&self, server: jiff::Timestamp) -> bool {
        self.keys.source().issuer().follow(server)
    }

    fn mask(&self, head: &mut response::Parts) {
        place::remove_session_headers(&mut head.headers);
    }

    fn secrets(&self) -> Vec<Secret> {
        self.keys.source().issuer().secrets_seen().all()
    }
}
