//! Repeats a check until a condition is met.

use std::{future::Future, time::Duration};

use anyhow::bail;
use tokio::time::Instant;

/// The interval between two checks: short compared to the waiting time, and long compared to a request.
const BETWEEN: Duration = Duration::from_millis(25);

/// How long it may take until a plugin file is accepted or rejected. The compiler has low priority, so it takes minutes on a
/// machine whose processors are all busy.
pub const TAKEN: Duration = Duration::from_secs(240);

/// The result of a check.
pub enum Seen<T> {
    /// The condition is met.
    Yes(T),
    /// The condition is not met yet, with the current state.
    NotYet(String),
}

/// Repeats a check for at most this time.
///
/// # Errors
/// Returns the error of a check, or the last state after the time limit.
pub async fn until<T, F>(limit: Duration, mut look: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Seen<T>>>,
{
    let give_up = Instant::now() + limit;
    loop {
        match look().await? {
            Seen::Yes(value) => return Ok(value),
            Seen::NotYet(instead) if Instant::now() >= give_up => bail!("not within {limit:?}; last seen: {instead}"),
            Seen::NotYet(_) => tokio::time::sleep(BETWEEN).await,
        }
    }
}
