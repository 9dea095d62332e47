//! A cloud that loses answers about volumes, throttles and fails at random, for the hooks of simcloud.

use anyhow::{Context as _, Result};
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

const OPERATIONS: [&str; 4] = [
    "volumes.create",
    "volumes.delete",
    "volumes.get",
    "volumes.list",
];

/// Returns the seed in `SKYDOCK_SEED`, or a random one.
///
/// # Errors
/// Fails if it is not a number.
pub fn seed() -> Result<u64> {
    match std::env::var("SKYDOCK_SEED") {
        Ok(text) => text.parse::<u64>().context("SKYDOCK_SEED is not a number"),
        Err(_) => Ok(u64::from(rand::random::<u32>())),
    }
}

/// Returns a failure among the next calls, for so many volumes.
pub fn failure(chance: &mut StdRng, volumes: usize) -> Value {
    let operation = OPERATIONS.choose(chance).copied().unwrap_or("volumes.*");
    let status = match chance.random_range(0..3) {
        0 => Value::Null,
        1 => json!(429),
        _ => json!(chance.random_range(500..=504)),
    };
    // What is throttled has no effect.
    let after = status != 429 && chance.random_bool(0.5);
    json!({
        "operation": operation,
        "status": status,
        "retry_after": (status == 429).then(|| chance.random_range(1..=3)),
        "after": after,
        "skip": chance.random_range(0..volumes.max(1)),
        "count": chance.random_range(1..=2),
    })
}
