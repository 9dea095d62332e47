//! A plugin's only way out: which hosts it may ask for, and which addresses those may turn out to be.
//!
//! Everything is denied unless a [`Rule`] names it. A host that a rule names is resolved once, every address it has is
//! put to the [`AddressPolicy`], and the connection goes to an address that passed, so that a name cannot
//! turn into an address of the cluster between the check and the connection.
//!
//! This crate decides and does no I/O.

#![forbid(unsafe_code)]

mod address;
mod credential;
pub mod credentials;
mod rule;

pub use address::{AddressDenied, AddressPolicy, Reason};
pub use credential::{Credential, CredentialError, CredentialErrorKind, Issuer, IssuerError, Prepared, Secret};
pub use rule::{Denied, Host, Rule, RuleError, Rules, Scheme, Target};
