//! Rules of the operator: what a file says ([`config`]), what is checked and compiled
//! ([`compiled`]), and what a request and its addresses must be to match.

pub(crate) mod address;
pub(crate) mod compiled;
pub(crate) mod config;
pub(crate) mod headers;
pub(crate) mod overrides;
pub(crate) mod path;
pub(crate) mod settings;
pub(crate) mod suffix;
pub(crate) mod uri;
