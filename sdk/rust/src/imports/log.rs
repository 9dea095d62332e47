//! Writes lines to the host's log.
//!
//! `context` is a short name of the component that logs. The host adds the plugin's name, cuts
//! lines off at 4 KiB, and drops lines above its rate limit. In a native build, for example in a
//! unit test, lines are written to standard error. Do not log secrets.
use std::fmt::Display;

use crate::bindings::imports::wasi::logging::logging::Level;

/// Logs a single step.
pub fn trace(context: &str, message: impl Display) {
    line(Level::Trace, context, &message);
}

/// Logs details for debugging.
pub fn debug(context: &str, message: impl Display) {
    line(Level::Debug, context, &message);
}

/// Logs normal operation.
pub fn info(context: &str, message: impl Display) {
    line(Level::Info, context, &message);
}

/// Logs something unusual.
pub fn warn(context: &str, message: impl Display) {
    line(Level::Warn, context, &message);
}

/// Logs a failure.
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
