//! Network access of plugins: the hosts they may request, the addresses these may resolve to, and
//! the HTTP client that sends the requests.
//!
//! Everything is denied unless an [`EgressRule`] allows it. A [`Gateway`] decides on the head of a
//! request without waiting ([`Gateway::admit`]), and then sends it ([`Admitted::send`]). The host
//! of a request is resolved once for each connection, every address found is checked by the
//! [`AddressPolicy`], and the connection goes to an address that passed. So a name cannot resolve
//! to an address of the cluster between the check and the connection. Redirects are not followed,
//! and proxy settings in the environment are ignored. Size, time, number and rate of requests are
//! limited in both directions. Requests are authenticated by a [`Credential`], which is bound to
//! the rule and does not depend on what the plugin sends.

#![forbid(unsafe_code)]

mod absolute_path;
mod actions;
mod address;
mod audit;
mod breaker;
mod config;
mod content_type;
mod credential;
pub mod credentials;
mod dial;
mod download;
mod encode;
mod gateway;
mod glob;
mod grant;
mod headers;
mod held;
mod hosts;
mod instance;
mod issuer;
mod json;
mod legible;
mod meter;
mod metrics;
mod overrides;
mod own;
mod pace;
mod path;
mod quotes;
mod refusal;
mod rule;
mod secret;
mod shares;
mod suffix;
mod upload;
mod uri;
mod veil;

pub use absolute_path::{AbsolutePath, RelativePath};
pub use address::{AddressDenied, AddressPolicy, Closed, Reason, is_metadata_address, translated};
pub use audit::{Audit, AuditConfig, AuditSlot};
pub use config::{
    ConfigError, ConfigErrors, ConfigWarning, EgressRule, GuestAuth, Mode, RuleLimits, TlsConfig,
    WildcardCredential,
};
pub use credential::{
    Credential, CredentialError, CredentialErrorKind, Issuer, IssuerError, Prepared, Secret,
};
pub use dial::{ClosedSource, Resolver, SystemResolver};
pub use download::ResponseBody;
pub use gateway::{Admitted, Call, Gateway, Options, Phase, Settings, Surroundings};
pub use held::MOST as MAX_HELD_BODIES;
pub use instance::Instance;
pub use issuer::HostIssuer;
pub use metrics::EgressMetrics;
pub use own::own_addresses;
pub use refusal::{About, Cause, Code, Refusal};
pub use rule::{Host, Rule, RuleError, Scheme, Target};
pub use uri::is_metadata_name;
