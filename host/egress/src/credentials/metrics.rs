//! What there is to count.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Renewal {
    credential: String,
    outcome: &'static str,
}

/// Counters of all credentials.
#[derive(Clone, Debug, Default)]
pub struct CredentialMetrics {
    renewals: Family<Renewal, Counter>,
}

impl CredentialMetrics {
    /// Registers them as `skydock_credential_…`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("skydock_credential");
        registry.register(
            "renewals",
            "Attempts to get a token, a session or keys from a credential's issuer: renewed, unavailable, denied or malformed",
            self.renewals.clone(),
        );
    }

    pub(crate) fn renewed(&self, credential: &str, outcome: &'static str) {
        self.renewals.get_or_create(&Renewal { credential: credential.to_owned(), outcome }).inc();
    }
}
