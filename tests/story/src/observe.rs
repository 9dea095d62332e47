//! Looks until something is so.

use std::{future::Future, time::Duration};

use anyhow::bail;
use tokio::time::Instant;

/// Between two looks: short against what is waited for, long against a request.
const BETWEEN: Duration = Duration::from_millis(25);

/// What a look found.
pub enum Seen<T> {
    /// It is so.
    Yes(T),
    /// Not yet; what there is instead.
    NotYet(String),
}

/// Looks again and again, at most this long.
///
/// # Errors
/// That of a look; or, when the time is over, what was seen last.
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
