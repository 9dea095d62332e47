//! Lines for the host's log.
//!
//! `context` is a short name of the part that speaks. The host adds the plugin's name, cuts lines at 4 KiB and drops what
//! comes too fast. Natively, as in a unit test, lines go to standard error. Log no secrets.
use std::fmt::Display;

use crate::bindings::imports::wasi::logging::logging::Level;

/// Logs every step.
pub fn trace(context: &str, message: impl Display) {
    line(Level::Trace, context, &message);
}

/// Logs for whoever looks for a fault.
pub fn debug(context: &str, message: impl Display) {
    line(Level::Debug, context, &message);
}

/// Logs for the record.
pub fn info(context: &str, message: impl Display) {
    line(Level::Info, context, &message);
}

/// Logs that something is odd.
pub fn warn(context: &str, message: impl Display) {
    line(Level::Warn, context, &message);
}

/// Logs that something failed.
pub fn error(context: &str, message: impl Display) {
    line(Level::Error, context, &message);
}

#[cfg(target_arch = "wasm32")]
fn line(level: Level, context: &str, message: &dyn Display) {
    crate::bindings::imports::wasi::logging::logging::log(level, context, &message.to_string());
}

#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::print_stderr, reason = "where a test looks for it")]
fn line(level: Level, context: &str, message: &dyn Display) {
    eprintln!("{level:?} {context}: {message}");
}
