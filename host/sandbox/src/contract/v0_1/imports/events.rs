//! The interface `events`: events on the objects of the current call.

use skydock_cloud as cloud;
use skydock_recording::observed;
use wasmtime::Result;

use crate::{
    contract::v0_1::bindings::skydock::provider::events::{Host, Severity},
    imports::State,
};

impl Host for State {
    fn publish(
        &mut self,
        name: String,
        severity: Severity,
        reason: String,
        message: String,
    ) -> Result<bool> {
        // Publishing counts the events of a call.
        let tape = self.tape().cloned();
        let arguments = (name, severity, reason, message);

        Ok(observed(
            tape.as_ref(),
            "events.publish",
            arguments,
            |(name, severity, reason, message)| {
                let severity = match severity {
                    Severity::Normal => cloud::Severity::Normal,
                    Severity::Warning => cloud::Severity::Warning,
                };
                self.publish_event(&name, severity, reason, &message)
            },
        )?)
    }
}
