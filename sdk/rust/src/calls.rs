//! The current call.
use std::time::Duration;

use crate::bindings::imports::skydock::provider::calls as host;
use crate::inside_a_plugin;

/// Returns the time until the host ends this call. A function that waits for the cloud returns `InProgress` before that.
#[must_use]
pub fn remaining() -> Duration {
    inside_a_plugin();
    Duration::from_millis(host::remaining_ms())
}

/// Makes the host drop this instance after the call, without counting it as a failure.
pub fn retire() {
    inside_a_plugin();
    host::retire();
}
