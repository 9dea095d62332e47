//! The interface `calls`.

use crate::{contract::v0_1::bindings::skydock::provider::calls::Host, host::State};

impl Host for State {
    fn remaining_ms(&mut self) -> u64 {
        u64::try_from(self.remaining().as_millis()).unwrap_or(0)
    }

    fn memory_limit(&mut self) -> u64 {
        self.shared.limits.memory as u64
    }

    fn retire(&mut self) {
        self.retired = true;
    }
}
