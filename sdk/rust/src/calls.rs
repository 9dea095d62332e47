//! The call that is running.
use std::time::Duration;

use crate::bindings::imports::skydock::provider::calls as host;
use crate::inside_a_plugin;

/// Time until the host gives up on this call. Whoever waits for the cloud answers `InProgress` before.
#[must_use]
pub fn remaining() -> Duration {
    inside_a_plugin();
    Duration::from_millis(host::remaining_ms())
}

/// Has the host drop this instance after the call, without taking it for a failure.
pub fn retire() {
    inside_a_plugin();
    host::retire();
}
