//! What is recorded about requests: metrics, and the audit.

pub(crate) mod audit;
pub(crate) mod end;
pub(crate) mod meter;
pub(crate) mod metrics;
pub(crate) mod official;
