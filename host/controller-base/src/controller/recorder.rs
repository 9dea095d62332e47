//! The event recorder of a process.

use skydock_cloud::text;
use skydock_kube::events::{EventWriter, Recorder};

use crate::controller::context::metrics::SharedMetrics;

/// Creates the recorder of a process, and the writer of its events. Messages may quote a plugin, a user or the API server: they are shortened and escaped.
#[must_use]
pub fn recorder(metrics: &SharedMetrics) -> (Recorder, EventWriter) {
    let sanitize = |message: &str| text::shown(message, text::SENTENCE).into_owned();
    Recorder::new(sanitize, metrics.events_dropped.clone())
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use skydock_kube::{
        events::EventType,
        informer::Entry,
        testing::{FakeApi, service},
    };
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::objects::kinds::ServiceKind;

    // Holds: SEC-15
    #[tokio::test(start_paused = true)]
    async fn an_event_is_cut_and_escaped() {
        let api = FakeApi::default();
        let (recorder, writer) = recorder(&SharedMetrics::register(&mut Registry::default()));
        let message = format!("\u{1b}[2J{}", "x".repeat(5_000));
        recorder.on(
            "service-controller",
            &Entry::<ServiceKind>::new(service("web")),
            EventType::Warning,
            "Reason",
            message,
        );
        drop(recorder);
        writer.run(api.client(), CancellationToken::new()).await;
        let reported = api.requests()[0].body["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            reported.starts_with("\\u{1b}[2Jxxx") && reported.len() <= 1024,
            "{} bytes: {reported}",
            reported.len()
        );
    }
}
