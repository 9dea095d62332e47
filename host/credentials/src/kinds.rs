//! The kinds of credentials, and where each puts its value into a request.

pub(crate) mod aws;
pub(crate) mod fixed;
pub(crate) mod jwt;
pub(crate) mod masked;
pub(crate) mod oauth2;
pub(crate) mod place;
pub(crate) mod renewed;
pub(crate) mod session;
pub(crate) mod template;
pub(crate) mod token;
