//! A plugin's only way out: which hosts it may ask for, which addresses those may turn out to be, and the client that asks.
//!
//! Everything is denied unless an [`EgressRule`] permits it. A [`Gateway`] decides on the head of a request without waiting
//! ([`Gateway::admit`]), and then sends it ([`Admitted::send`]). A host that a rule names is resolved once for each connection,
//! every address it has is put to the [`AddressPolicy`], and the connection goes to an address that passed, so that a name cannot
//! turn into an address of the cluster between the check and the connection. Redirects are answers like any other, and the
//! environment names no proxy. Size, time, number and rate are bounded in both directions, and what authenticates a request is a
//! [`Credential`]'s to add, bound to the rule and not to what the plugin says.

#![forbid(unsafe_code)]

mod actions;
mod address;
mod breaker;
mod config;
mod credential;
pub mod credentials;
mod dial;
mod download;
mod gateway;
mod glob;
mod grant;
mod headers;
mod held;
mod hosts;
mod instance;
mod issuer;
mod meter;
mod metrics;
mod own;
mod pace;
mod path;
mod refusal;
mod rule;
mod upload;
mod uri;

pub use address::{AddressDenied, AddressPolicy, Closed, Reason};
pub use config::{ConfigError, ConfigErrors, EgressRule, GuestAuth, RuleLimits, TlsConfig};
pub use credential::{Credential, CredentialError, CredentialErrorKind, Issuer, IssuerError, Prepared, Secret};
pub use dial::{ClosedSource, Resolver, SystemResolver};
pub use download::ResponseBody;
pub use gateway::{Admitted, Call, Gateway, Options, Phase, Settings, Surroundings};
pub use instance::Instance;
pub use issuer::HostIssuer;
pub use metrics::EgressMetrics;
pub use own::own_addresses;
pub use refusal::{Cause, Code, Refusal};
pub use rule::{Host, Rule, RuleError, Scheme, Target};
