//! stub
mod clock;
mod encode;
mod failure;
mod file;
mod metrics;
mod renewed;
pub(crate) mod secret;
pub use clock::{Clock, SystemClock};
pub use metrics::CredentialMetrics;
