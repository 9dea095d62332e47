//! The event recorder, as controllers and process use it.

use kube::Client;
use skydock_cloud::text;
use skydock_kube::events::{EventWriter, Recorder};

use crate::Metrics;

/// Creates a recorder, and the task that writes its events. Messages may quote a plugin, a user or the API server: they are
/// shortened and escaped.
#[must_use]
pub fn recorder(client: Client, metrics: &Metrics) -> (Recorder, EventWriter) {
    let sanitize = |message: &str| text::shown(message, text::SENTENCE).into_owned();
    Recorder::new(client, sanitize, metrics.events_dropped.clone())
}
