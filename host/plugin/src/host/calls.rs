//! `skydock:provider/calls`: the current call.

use tokio::time::Instant;

use super::State;
use crate::bindings::skydock::provider::calls;

impl calls::Host for State {
    fn remaining_ms(&mut self) -> u64 {
        let remaining = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        remaining.and_then(|remaining| u64::try_from(remaining.as_millis()).ok()).unwrap_or(0)
    }

    fn retire(&mut self) {
        self.retired = true;
    }
}
