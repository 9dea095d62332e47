//! What the process is to its system: signals, exit, logs, and blocking work.

pub mod blocking;
pub mod report;
pub mod signals;
pub mod telemetry;
