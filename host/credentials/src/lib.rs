//! Credentials: Skydock authenticates requests of plugins, and plugins never receive the
//! secrets.
//!
//! The operator's configuration says which plugin, identified by its digest, may use which
//! credential. Secrets are read from files, and read again when a file changes; some may
//! also be in an environment variable. What issuers return (tokens, sessions, temporary
//! keys) is renewed before it expires, by one task for all requests. Authentication by the plugin
//! is removed before the real one is added, and requests whose answer would be a secret are denied.

#![forbid(unsafe_code)]

mod cloud_config;
pub mod config;
mod credential;
mod credentials;
mod kinds;
mod masking;
mod place;
pub mod request;
mod secret_requests;
mod sources;

pub use cloud_config::cloud_conf::{CloudConfError, split_cloud_conf};
pub use cloud_config::clouds_file;
pub use cloud_config::has_global;
pub use cloud_config::keystone_login::{KeystoneLogin, KeystoneMethod, KeystoneScope, Named};
pub use cloud_config::withheld::Withheld;
pub use credential::{
    Credential, CredentialError, CredentialErrorKind, Issuer, IssuerError, Prepared, RequestKind,
};
pub use credentials::{
    BindError, Credentials, CredentialsError, CredentialsErrors, Dependencies, Issuers,
};
pub use kinds::aws::imds::instance_region;
pub use masking::answer_mask::AnswerMask;
pub use masking::maskable::Unmaskable;
pub use masking::secret::{Secret, redact};
pub use place::remove_session_headers;
pub use secret_requests::{certificate_needs_body, check_certificate};
pub use sources::absolute_path::{AbsolutePath, RelativePath};
pub use sources::clock::{Clock, SystemClock};
pub use sources::metrics::CredentialMetrics;
pub use sources::skew::server_time;
pub use sources::variable::{NotAVariable, Variable};
