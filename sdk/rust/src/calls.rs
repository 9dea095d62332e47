//! The current call (time that remains), and its instance (memory limit, `retire`).
use std::time::Duration;

use crate::bindings::imports::skydock::provider::calls as host;
use crate::inside_a_plugin;

/// Returns the time until the host ends this call, also in `configure` and `info`. A function that
/// waits for the cloud returns `InProgress` before that.
#[must_use]
pub fn remaining() -> Duration {
    inside_a_plugin();
    Duration::from_millis(host::remaining_ms())
}

/// Returns the bytes of memory that this instance may have.
#[must_use]
pub fn memory_limit() -> u64 {
    inside_a_plugin();
    host::memory_limit()
}

/// Makes the host drop this instance after the call, without counting it as a failure.
pub fn retire() {
    inside_a_plugin();
    host::retire();
}
