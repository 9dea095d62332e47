//! What may have been created although Cinder does not show it yet, and why what failed did.

use std::time::Duration;

use skydock_sdk::{storage::StorageError, types::CloudError};

use super::in_progress;
use crate::cloud::{Answered, Cloud};

/// How long a request without an answer may still take effect.
const UNCERTAIN: Duration = Duration::from_secs(120);

/// How long the reason of a failure is kept while what failed is deleted.
const REASON: Duration = Duration::from_secs(3600);

/// Returns true if the request for a `kind` with this name may still take effect.
pub(super) fn is_uncertain(cloud: &Cloud<'_>, kind: &str, name: &str) -> bool {
    cloud.host.cached(&key(cloud, "sent", kind, name)).is_some()
}

/// Notes that a request is sent.
pub(super) fn begin(cloud: &Cloud<'_>, kind: &str, name: &str) {
    let key = key(cloud, "sent", kind, name);
    cloud.host.cache(&key, &[1], UNCERTAIN);
}

/// Forgets a request whose effect is known.
pub(super) fn forget(cloud: &Cloud<'_>, kind: &str, name: &str) {
    cloud.host.uncache(&key(cloud, "sent", kind, name));
}

/// Forgets a request if it has an answer. What a proxy or a failing server says is none.
pub(super) fn end(cloud: &Cloud<'_>, kind: &str, name: &str, answer: &Answered) {
    let answer = answer.result.as_ref();
    if answer.is_ok_and(|it| it.status < 500) {
        forget(cloud, kind, name);
    }
}

/// Notes why something is deleted before it was complete.
pub(super) fn fail(cloud: &Cloud<'_>, kind: &str, name: &str, reason: &str) {
    let key = key(cloud, "failed", kind, name);
    cloud.host.cache(&key, reason.as_bytes(), REASON);
}

/// Returns why something was deleted, once.
pub(super) fn failure(cloud: &Cloud<'_>, kind: &str, name: &str) -> Option<StorageError> {
    let key = key(cloud, "failed", kind, name);
    let reason = cloud.host.cached(&key)?;
    cloud.host.uncache(&key);
    Some(StorageError::exhausted(String::from_utf8_lossy(&reason)))
}

/// Rejects the creation of what may exist, and reports what has failed and is gone.
///
/// # Errors
/// In progress, or exhausted.
pub(super) fn check(cloud: &Cloud<'_>, kind: &str, name: &str) -> Result<(), StorageError> {
    if is_uncertain(cloud, kind, name) {
        let what = format!("whether the {kind} {name} exists is not certain");
        return Err(in_progress(&what));
    }
    failure(cloud, kind, name).map_or(Ok(()), Err)
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

fn key(cloud: &Cloud<'_>, what: &str, kind: &str, name: &str) -> String {
    format!("{what} {kind} {} {name}", cloud.cluster)
}
