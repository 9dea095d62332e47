//! The interface `events`.

use skydock_cloud as cloud;

use crate::{
    contract::v0_1::bindings::skydock::provider::events::{Host, Severity},
    host::State,
};

impl Host for State {
    fn publish(&mut self, name: String, severity: Severity, reason: String, message: String) -> bool {
        let severity = match severity {
            Severity::Normal => cloud::Severity::Normal,
            Severity::Warning => cloud::Severity::Warning,
        };
        self.publish_event(&name, severity, reason, &message)
    }
}
