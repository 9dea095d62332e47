//! Network access of plugins: the hosts they may request, the addresses these may resolve to, and
//! the HTTP client that sends the requests.
//!
//! Everything is denied unless an [`EgressRule`] allows it. A [`Gateway`] decides on the head of a
//! request without waiting ([`Gateway::admit`]), and then sends it ([`Admitted::send`]). The host
//! of a request is resolved once for each connection, every address found is checked by the
//! [`AddressPolicy`], and the connection goes to an address that passed. So a name cannot resolve
//! to an address of the cluster between the check and the connection. Redirects are not followed,
//! and proxy settings in the environment are ignored. Size, time, number and rate of requests are
//! limited in both directions. Requests are authenticated by a `Credential`, which is bound to
//! the rule and does not depend on what the plugin sends.

#![forbid(unsafe_code)]

mod body;
mod gateway;
mod limits;
mod network;
mod observe;
mod request_error;
mod rules;
mod target;

pub use body::download::ResponseBody;
pub use gateway::{Admitted, Call, Gateway, GatewayDependencies, Options, PluginPhase};
pub use limits::body_memory::MOST as MAX_BODY_MEMORY;
pub use limits::instance::InstanceRequests;
pub use network::dial::{ClusterAddressesSource, Resolver, SystemResolver};
pub use network::issuer::HostIssuer;
pub use network::own::own_addresses;
pub use observe::audit::{Audit, AuditConfig, AuditSlot};
pub use observe::metrics::EgressMetrics;
pub use observe::minutes::Minute;
pub use observe::official::Official;
pub use request_error::{About, Cause, Code, RequestError};
pub use rules::address::{
    AddressDenied, AddressPolicy, ClusterAddresses, Reason, is_metadata_address, translated,
};
pub use rules::config::{
    ConfigError, ConfigErrors, ConfigWarning, EgressRule, GuestAuth, Mode, RuleLimits, TlsConfig,
    WildcardCredential,
};
pub use rules::settings::Settings;
pub use rules::uri::is_metadata_name;
pub use target::{Host, Scheme, Target, TargetPattern, TargetPatternError};
