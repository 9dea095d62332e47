//! The placeholder of a credential that is bound to another component: requests of its rules are
//! denied.

use async_trait::async_trait;
use bytes::Bytes;
use http::{request, response};

use crate::{
    credential::{Credential, CredentialError, CredentialErrorKind, Prepared, RequestKind},
    masking::secret::Secret,
};

/// A placeholder for a credential that belongs to another plugin, or to another file of this
/// plugin.
#[derive(Debug)]
pub struct Withheld(String);

impl Withheld {
    /// Creates a credential with this name that denies all requests.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }
}

#[async_trait]
impl Credential for Withheld {
    fn name(&self) -> &str {
        &self.0
    }

    /// Nothing is sent with it.
    fn signs(&self) -> bool {
        true
    }

    fn needs_body(&self, _: &request::Parts) -> bool {
        false
    }

    async fn prepare(
        &self,
        _: &mut request::Parts,
        _: Option<&Bytes>,
    ) -> Result<Prepared, CredentialError> {
        let sentence =
            "it is for another plugin or another build of it: see `for` of the credential";
        Err(CredentialError::new(
            &self.0,
            CredentialErrorKind::Denied,
            sentence,
        ))
    }

    fn accepted(&self, _: u64, _: RequestKind) {}

    async fn rejected(&self, _: u64, _: RequestKind) -> bool {
        false
    }

    async fn changed(&self, _: u64) -> bool {
        false
    }

    fn mask(&self, _: &mut response::Parts) {}

    fn secrets(&self) -> Vec<Secret> {
        Vec::new()
    }
}
