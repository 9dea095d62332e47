//! The interface `cache`.

use std::time::Duration;

use crate::{contract::v0_1::bindings::skydock::provider::cache::Host, host::State};

impl Host for State {
    fn get(&mut self, key: String) -> Option<Vec<u8>> {
        self.cached(&key)
    }

    fn set(&mut self, key: String, value: Vec<u8>, ttl_ms: u64) -> bool {
        self.cache(key, value, Duration::from_millis(ttl_ms))
    }

    fn reserve(&mut self, key: String, value: Vec<u8>, ttl_ms: u64) -> Option<Vec<u8>> {
        self.reserve_in_cache(key, value, Duration::from_millis(ttl_ms))
    }

    fn remove(&mut self, key: String) {
        self.remove_from_cache(&key);
    }
}
