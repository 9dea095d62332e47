//! Repeats a check until a condition is met.

use std::time::Duration;

use anyhow::bail;
use tokio::time::Instant;

/// The interval between two checks: short compared to the waiting time, and long compared to a
/// request.
const BETWEEN: Duration = Duration::from_millis(25);

/// The result of a check.
pub enum Seen<T> {
    /// The condition is met.
    Yes(T),
    /// The condition is not met yet, with the current state.
    NotYet(String),
}

impl Seen<()> {
    /// Returns whether a condition is met; if not, with the current state.
    pub fn when(holds: bool, instead: impl Into<String>) -> Self {
        if holds {
            Self::Yes(())
        } else {
            Self::NotYet(instead.into())
        }
    }
}

/// Repeats a check for at most this time.
///
/// # Errors
/// Returns the error of a check, or the last state after the time limit.
pub async fn eventually<T>(
    limit: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<Seen<T>>,
) -> anyhow::Result<T> {
    let give_up = Instant::now() + limit;
    loop {
        match look().await? {
            Seen::Yes(value) => return Ok(value),
            Seen::NotYet(instead) if Instant::now() >= give_up => {
                bail!("not within {limit:?}; last seen: {instead}")
            }
            Seen::NotYet(_) => tokio::time::sleep(BETWEEN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_is_repeated_until_it_succeeds() {
        let mut left = 3;
        let look = || {
            left -= 1;
            let now = left;
            async move {
                Ok(if now == 0 {
                    Seen::Yes("done")
                } else {
                    Seen::NotYet(format!("{now} left"))
                })
            }
        };
        assert_eq!(
            eventually(Duration::from_secs(60), look).await.unwrap(),
            "done"
        );
    }

    #[tokio::test]
    async fn the_last_state_is_the_error_after_the_limit() {
        let look = || async { Ok(Seen::when(false, "nothing")) };
        let error = eventually(Duration::ZERO, look).await.unwrap_err();
        assert_eq!(error.to_string(), "not within 0ns; last seen: nothing");
    }
}
