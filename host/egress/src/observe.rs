//! What is recorded about requests: metrics, the last minutes, and the audit.

pub(crate) mod audit;
pub(crate) mod meter;
pub(crate) mod metrics;
pub(crate) mod minutes;
pub(crate) mod official;
pub(crate) mod outcome;
pub(crate) mod report_only_log;
