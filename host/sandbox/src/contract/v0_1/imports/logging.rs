//! The interface `wasi:logging/logging`: a plugin's log.

use skydock_recording::observed;
use tracing::Level;
use wasmtime::Result;

use crate::{
    contract::v0_1::bindings::wasi::logging::logging::{Host, Level as Severity},
    imports::State,
};

impl Host for State {
    fn log(&mut self, level: Severity, context: String, message: String) -> Result<()> {
        Ok(observed(
            self.tape(),
            "logging.log",
            (level, context, message),
            |(level, context, message)| {
                let level = match level {
                    Severity::Trace => Level::TRACE,
                    Severity::Debug => Level::DEBUG,
                    Severity::Info => Level::INFO,
                    Severity::Warn => Level::WARN,
                    Severity::Error | Severity::Critical => Level::ERROR,
                };

                self.shared
                    .log(&self.settings, self.generation, level, &context, &message);
            },
        )?)
    }
}
