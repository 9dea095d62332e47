//! The interface `cache`: values that all instances of a plugin share.

use std::time::Duration;

use skydock_recording::{Payload, functions, observed};
use wasmtime::Result;

use crate::{contract::v0_1::bindings::skydock::provider::cache::Host, imports::State};

impl Host for State {
    fn get(&mut self, key: String) -> Result<Option<Vec<u8>>> {
        let answer = observed(self.tape(), functions::CACHE_GET, (key,), |(key,)| {
            self.cached(&key).map(Payload)
        })?;
        Ok(answer.map(|value| value.0))
    }

    fn set(&mut self, key: String, value: Vec<u8>, ttl_ms: u64) -> Result<bool> {
        let arguments = (key, Payload(value), ttl_ms);
        Ok(observed(
            self.tape(),
            functions::CACHE_SET,
            arguments,
            |(key, value, ttl)| self.cache(key, value.0, Duration::from_millis(ttl)),
        )?)
    }

    fn reserve(&mut self, key: String, value: Vec<u8>, ttl_ms: u64) -> Result<Option<Vec<u8>>> {
        let arguments = (key, Payload(value), ttl_ms);
        let answer = observed(
            self.tape(),
            functions::CACHE_RESERVE,
            arguments,
            |(key, value, ttl)| {
                self.reserve_in_cache(key, value.0, Duration::from_millis(ttl))
                    .map(Payload)
            },
        )?;
        Ok(answer.map(|value| value.0))
    }

    fn remove(&mut self, key: String) -> Result<()> {
        Ok(observed(self.tape(), "cache.remove", (key,), |(key,)| {
            self.remove_from_cache(&key);
        })?)
    }
}
