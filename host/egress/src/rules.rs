//! Rules of the operator: what a file says, and what a request must be to match.

pub(crate) mod config;
pub(crate) mod grant;
pub(crate) mod headers;
pub(crate) mod overrides;
pub(crate) mod path;
pub(crate) mod rule;
pub(crate) mod suffix;
pub(crate) mod uri;
