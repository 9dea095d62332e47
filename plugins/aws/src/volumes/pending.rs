//! What may have been created although nothing shows it yet: EC2 finds new tags after seconds, and
//! answers can be lost.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skydock_sdk::{storage::StorageError, types::CloudError};

use crate::{cloud::Cloud, store};

/// How long something may have been created that nothing shows. EC2 finds tags within seconds.
const UNCERTAIN: Duration = Duration::from_secs(SHOWN);

/// How long the reason of a failure is kept while what failed is deleted.
const REASON: Duration = Duration::from_secs(3600);

/// How long EC2 remembers client tokens.
const TOKENS: Duration = Duration::from_secs(12 * 3600);

/// Seconds after which what was created is certainly found by its name.
const SHOWN: u64 = 120;

/// Returns true if a creation of a `kind` with this name was sent, and AWS has not rejected it.
pub(super) fn is_uncertain(cloud: &Cloud<'_>, kind: &str, name: &str) -> bool {
    cloud.store.get(&key(cloud, kind, name)).is_some()
}

/// Notes that a creation is sent.
pub(super) fn begin(cloud: &Cloud<'_>, kind: &str, name: &str) {
    cloud.store.set(&key(cloud, kind, name), "sent", UNCERTAIN);
}

/// Forgets a creation that was rejected.
pub(super) fn forget(cloud: &Cloud<'_>, kind: &str, name: &str) {
    cloud.store.remove(&key(cloud, kind, name));
}

/// Notes why something is deleted before it was complete, and that nothing else of it is left.
pub(super) fn fail(cloud: &Cloud<'_>, kind: &str, name: &str, reason: &str) {
    forget(cloud, kind, name);
    cloud.store.set(&failed(cloud, kind, name), reason, REASON);
}

/// Reports once what has failed and is gone. Kubernetes then chooses another zone, or retries with
/// back-off.
///
/// # Errors
/// Exhausted.
pub(super) fn check(cloud: &Cloud<'_>, kind: &str, name: &str) -> Result<(), StorageError> {
    let key = failed(cloud, kind, name);
    let Some(reason) = cloud.store.get(&key) else {
        return Ok(());
    };
    cloud.store.remove(&key);
    Err(StorageError::exhausted(reason))
}

fn key(cloud: &Cloud<'_>, kind: &str, name: &str) -> String {
    cloud.key(&format!("created/{kind}/{name}"))
}

fn failed(cloud: &Cloud<'_>, kind: &str, name: &str) -> String {
    cloud.key(&format!("failed/{kind}/{name}"))
}

/// Turns an error after which Kubernetes forgets what it asked for into one that it retries.
pub(super) fn not_final(error: StorageError) -> StorageError {
    let text = match error {
        StorageError::Cloud(CloudError::NotFound(text) | CloudError::Invalid(text))
        | StorageError::Exists(text)
        | StorageError::Exhausted(text)
        | StorageError::OutOfRange(text)
        | StorageError::InUse(text) => text,
        error @ StorageError::Cloud(_) => return error,
    };
    CloudError::unavailable(text).into()
}

/// The client token of a volume. The token of a volume whose creation failed later, or that was
/// deleted, cannot be used again for hours; then a number is added to the name, as the official driver
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attempt {
    number: u32,
    /// When it may be sent, in seconds since 1970.
    from: u64,
}

impl Attempt {
    /// Returns the current attempt for a name.
    pub(super) fn of(cloud: &Cloud<'_>, name: &str) -> Self {
        let first = Self { number: 1, from: 0 };
        store::load(cloud.store, &Self::key(cloud, name)).unwrap_or(first)
    }

    /// Returns the text that the token is made of, or `None` before its time.
    pub(super) fn base(self, name: &str, now: u64) -> Option<String> {
        if now < self.from {
            return None;
        }
        Some(match self.number {
            1 => name.to_owned(),
            number => format!("{name}-{number}"),
        })
    }

    /// Uses another token after EC2 knew this one for something else: for the same volume, if it is not
    /// shown yet.
    pub(super) fn next(self, cloud: &Cloud<'_>, name: &str) {
        self.then(cloud, name, cloud.now.saturating_add(SHOWN));
    }

    /// Uses another token after the volume is known to be broken.
    pub(super) fn next_now(self, cloud: &Cloud<'_>, name: &str) {
        self.then(cloud, name, cloud.now);
    }

    fn then(self, cloud: &Cloud<'_>, name: &str, from: u64) {
        let number = self.number.saturating_add(1);
        let key = Self::key(cloud, name);
        store::save(cloud.store, &key, &Self { number, from }, TOKENS);
    }

    fn key(cloud: &Cloud<'_>, name: &str) -> String {
        cloud.key(&format!("token/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_token_is_used_in_time() {
        let attempt = |number, from| Attempt { number, from };
        for (attempt, now, expected) in [
            (attempt(1, 0), 0, Some("pv")),
            (attempt(2, 60), 59, None),
            (attempt(2, 60), 60, Some("pv-2")),
            (attempt(3, 0), 60, Some("pv-3")),
        ] {
            assert_eq!(attempt.base("pv", now).as_deref(), expected, "{attempt:?}");
        }
    }

    #[test]
    fn final_errors_are_retried_while_something_may_be_left() {
        let later = || CloudError::in_progress(Duration::from_secs(1), "a");
        let retried = StorageError::from(CloudError::unavailable("a"));
        for (error, expected) in [
            (StorageError::exists("a"), retried.clone()),
            (StorageError::exhausted("a"), retried.clone()),
            (StorageError::out_of_range("a"), retried.clone()),
            (StorageError::in_use("a"), retried.clone()),
            (CloudError::not_found("a").into(), retried.clone()),
            (CloudError::invalid("a").into(), retried),
            (later().into(), later().into()),
        ] {
            assert_eq!(not_final(error), expected);
        }
    }
}
