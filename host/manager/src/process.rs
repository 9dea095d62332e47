//! What the process is to its system: signals, exit, logs, metrics, and blocking work.

pub mod blocking;
pub(crate) mod metrics;
pub mod report;
pub mod signals;
pub mod telemetry;
