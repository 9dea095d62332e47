//! What the process is to its system: signals, exit, logs, and blocking work.

pub mod blocking;
pub(crate) mod program;
pub mod report;
pub mod signals;
pub mod telemetry;
