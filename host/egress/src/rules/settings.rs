//! What the rules of a plugin are compiled from.

use std::{collections::BTreeMap, sync::Arc};

use ipnet::Ipv6Net;
use skydock_credentials::{Credential, config::ClientCertificate};

use super::config::EgressRule;

/// Rules and credentials of a plugin. They are always replaced together.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The plugin's `egress` list.
    pub rules: Vec<EgressRule>,
    /// The credentials that its rules may use: those for this plugin with this digest.
    pub credentials: BTreeMap<String, Arc<dyn Credential>>,
    /// The client certificates that its rules may use, in the same way.
    pub certificates: BTreeMap<String, ClientCertificate>,
    /// Prefixes of NAT64 translators in this network, in addition to 64:ff9b::/96.
    pub nat64: Vec<Ipv6Net>,
    /// SHA-256 of the component as `sha256:…`, for the audit; empty if it is not known.
    pub digest: String,
}
