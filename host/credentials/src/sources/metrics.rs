//! Metrics of credentials.

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

/// Counters for all credentials.
#[derive(Clone, Debug, Default)]
pub struct CredentialMetrics {
    renewals: Family<Renewal, Counter>,
}

impl CredentialMetrics {
    /// Registers the metrics with the prefix `skydock_credential`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("skydock_credential");
        registry.register(
            "renewals",
            "Attempts to renew a token, session or keys of a credential: renewed, unavailable, denied or malformed",
            self.renewals.clone(),
        );
    }

    pub(crate) fn renewed(&self, credential: &str, outcome: &'static str) {
        self.renewals
            .get_or_create(&Renewal {
                credential: credential.to_owned(),
                outcome,
            })
            .inc();
    }
}
