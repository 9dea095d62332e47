//! Events on the objects of the current call.

use skydock_cloud::{
    ObjectEvent, Severity,
    reason::is_reserved,
    text::{SENTENCE, cut, shown},
};
use tracing::Level;

use crate::imports::State;

/// Maximum number of events of one call. Kubernetes' own limiter allows 25 for each object; a batch
/// has up to 1000 objects.
const MAX_PER_CALL: u32 = 1000;

/// Maximum bytes of a reason: Kubernetes' own limit.
const MAX_REASON: usize = 128;

impl State {
    /// Publishes an event on the object that the plugin calls by this name. Returns false if it is
    /// rejected.
    pub(crate) fn publish_event(
        &mut self,
        name: &str,
        severity: Severity,
        reason: String,
        message: &str,
    ) -> bool {
        let Some(object) = self.named(name) else {
            return false;
        };
        let Some(cluster) = self.cluster() else {
            return false;
        };
        if !is_reason(&reason) || self.events >= MAX_PER_CALL {
            return false;
        }

        let problem = if is_reserved(&reason) {
            Some("is reserved for Skydock and Kubernetes; use another one")
        } else if self.settings.redact_secrets(&reason) != reason {
            Some("shows a secret")
        } else {
            None
        };

        if let Some(problem) = problem {
            let message = format!("event rejected: reason {reason} {problem}");
            let settings = &self.settings;
            let generation = self.generation;
            self.shared
                .log(settings, generation, Level::WARN, "events", &message);
            return false;
        }

        self.events += 1;
        let message = self.settings.redact_secrets(cut(message, SENTENCE));

        cluster.publish(ObjectEvent {
            object,
            severity,
            reason,
            message: shown(&message, SENTENCE).into_owned(),
        });

        true
    }
}

/// Returns true for a CamelCase text that does not exceed the limit.
fn is_reason(text: &str) -> bool {
    text.len() <= MAX_REASON
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_camel_case() {
        let long = "A".repeat(129);
        let table = [
            ("AddressTaken", true),
            ("A", true),
            ("", false),
            ("taken", false),
            ("Address taken", false),
            (&long, false),
        ];
        for (text, expected) in table {
            assert_eq!(is_reason(text), expected, "{text}");
        }
    }
}
