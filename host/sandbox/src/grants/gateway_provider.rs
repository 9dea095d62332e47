//! The gateways for the requests of plugins.

use std::{fmt, net::IpAddr, sync::Arc};

use skydock_egress::Gateway;

use crate::words::text::Names;

/// Provides the gateway of each component. What the operator has bound to one component is not
/// available to another, even of the same plugin.
pub trait GatewayProvider: fmt::Debug + Send + Sync {
    /// Returns the gateway for the component with this SHA-256, in hexadecimal.
    fn gateway(&self, digest: &str) -> Arc<Gateway>;

    /// Returns the rules that deny all requests of the component with this SHA-256, because their
    /// credential is for another one.
    fn withheld(&self, digest: &str) -> Vec<WithheldRule>;

    /// Returns true if this process reaches the API server at this address, as far as it is known.
    fn is_api_server(&self, address: IpAddr) -> bool;

    /// Returns the IPv4 address to which a NAT64 translator of the network connects for this
    /// address, or else the address itself.
    fn translated(&self, address: IpAddr) -> IpAddr;
}

/// A rule whose credential is not for a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithheldRule {
    /// Name of the rule.
    pub rule: String,
    /// Name of the credential.
    pub credential: String,
}

/// The rules that would deny the requests of a replacement, although they allow those of the plugin
/// in service. Displays what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOff {
    digest: String,
    rules: Vec<WithheldRule>,
}

impl CutOff {
    /// Compares what is withheld from a replacement with what is withheld from the component in
    /// service.
    pub(crate) fn find(
        gateways: &dyn GatewayProvider,
        before: &str,
        digest: &str,
    ) -> Result<(), Self> {
        let known = gateways.withheld(before);
        let mut rules = gateways.withheld(digest);
        rules.retain(|rule| !known.contains(rule));
        if rules.is_empty() {
            return Ok(());
        }

        Err(Self {
            digest: digest.to_owned(),
            rules,
        })
    }
}

impl std::error::Error for CutOff {}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Names = self.rules.iter().map(|it| &it.rule).collect();

        let mut credentials: Vec<&str> =
            self.rules.iter().map(|it| it.credential.as_str()).collect();
        // Several rules may have the same credential.
        credentials.sort_unstable();
        credentials.dedup();
        let credentials: Names = credentials.into_iter().collect();

        write!(
            f,
            "it could not use the egress rules {rules}, which the plugin in service uses, because the credentials {credentials} are not for it: add sha256:{} to `for.digest` of these credentials",
            self.digest
        )
    }
}
