//! The kinds of credentials (`type`), and what each does to a request: `aws`, `fixed`, `oauth2` and
//! `session`. The other modules are what they share.
//!
//! A kind is a case of `CredentialConfig`, an implementation of [`Credential`](crate::Credential)
//! here, and a line of `build` in `credentials.rs`. If requests can obtain further secrets with it,
//! `secret_requests` has to deny them. Add its secrets to the test
//! `host/egress/tests/credentials/leaks.rs`.

pub(crate) mod aws;
pub(crate) mod fixed;
pub(crate) mod jwt;
pub(crate) mod masked;
pub(crate) mod oauth2;
pub(crate) mod renewed;
pub(crate) mod session;
pub(crate) mod template;
pub(crate) mod token;
