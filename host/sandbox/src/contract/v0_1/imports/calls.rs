//! The interface `calls`: the time that remains, the memory limit, and the end of an instance.

use skydock_recording::observed;
use wasmtime::Result;

use crate::{contract::v0_1::bindings::skydock::provider::calls::Host, imports::State};

impl Host for State {
    fn remaining_ms(&mut self) -> Result<u64> {
        let remaining = |()| u64::try_from(self.remaining().as_millis()).unwrap_or(0);
        Ok(observed(self.tape(), "calls.remaining-ms", (), remaining)?)
    }

    fn memory_limit(&mut self) -> Result<u64> {
        Ok(observed(self.tape(), "calls.memory-limit", (), |()| {
            self.shared.limits.memory as u64
        })?)
    }

    fn retire(&mut self) -> Result<()> {
        self.retired = true;
        Ok(observed(self.tape(), "calls.retire", (), |()| ())?)
    }
}
