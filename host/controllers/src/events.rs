//! Events on objects. Controllers hand them over and never wait; a task correlates them as client-go does and writes them:
//! warnings at once, the others not so fast that they take the API server's time from the work they tell of.

mod correlate;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use serde_json::json;
use skydock_cloud::{Severity, text};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::correlate::{Correlator, Verdict, Write};
use crate::{
    api::{self, Action, ApiError, Patch, Target},
    informer::{Entry, Kind},
    metrics::Metrics,
    queue::Bucket,
};

/// How often an event is told again of what stays as it is: an API server keeps events for an hour.
pub(crate) const TELL_AGAIN: Duration = Duration::from_secs(30 * 60);
/// Warnings that wait to be written; more are dropped and counted. Every node of a large cluster may have one.
const WARNINGS: usize = 16_384;
/// The same of normal events, twice as many as client-go has waiting: the last of them would be minutes old.
const NORMAL: usize = 2048;
/// Normal events that are written in one second when many wait, and how many without delay. An event costs the API server as
/// much as one of the two writes that initialise a node.
const PACE: (f64, f64) = (10.0, 100.0);
/// How often an event is tried if the API server cannot be reached, and the pause between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// How long events are still written after the end.
const FLUSH: Duration = Duration::from_secs(5);

/// An event to be published.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// `source.component`.
    pub source: &'static str,
    /// On what.
    pub object: ObjectReference,
    /// How loud.
    pub severity: Severity,
    /// CamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

/// An event and when it was published.
type Published = (Timestamp, Notice);

/// Takes events. Clones share their queues.
#[derive(Clone)]
pub struct Recorder {
    warnings: mpsc::Sender<Published>,
    normal: mpsc::Sender<Published>,
    metrics: Metrics,
}

impl Recorder {
    /// A recorder, and the task that writes what it takes.
    #[must_use]
    pub fn new(client: Client, metrics: Metrics) -> (Self, EventWriter) {
        let (warnings, warned) = mpsc::channel(WARNINGS);
        let (normal, told) = mpsc::channel(NORMAL);
        let now = Instant::now();
        let writer = EventWriter {
            client,
            warnings: warned,
            normal: told,
            pace: Bucket::full(PACE, now),
            next_normal: now,
            correlator: Correlator::default(),
        };
        (Self { warnings, normal, metrics }, writer)
    }

    /// Publishes an event; drops it if too many wait. Its message may quote a plugin, a user or the API server: it is cut and
    /// escaped here.
    pub fn publish(&self, mut notice: Notice) {
        notice.message = text::shown(&notice.message, text::SENTENCE).into_owned();
        tracing::debug!(object = ?notice.object.name, reason = notice.reason, "event: {}", notice.message);
        let queue = if notice.severity == Severity::Normal { &self.normal } else { &self.warnings };
        if queue.try_send((Timestamp::now(), notice)).is_err() {
            self.metrics.events_dropped.inc();
        }
    }

    /// Publishes an event on an object of the cache.
    pub(crate) fn on<K: Kind>(
        &self,
        source: &'static str,
        entry: &Entry<K>,
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) {
        let object = entry.reference();
        self.publish(Notice { source, object, severity, reason: reason.to_owned(), message: message.into() });
    }
}

/// Writes events.
pub struct EventWriter {
    client: Client,
    warnings: mpsc::Receiver<Published>,
    normal: mpsc::Receiver<Published>,
    pace: Bucket,
    next_normal: Instant,
    correlator: Correlator,
}

impl EventWriter {
    /// Writes events until the token is cancelled or all recorders are gone; then what waits, for at most 5 s.
    pub async fn run(self, shutdown: CancellationToken) {
        // Also an event that is being written when the end comes gets no more time than that.
        let too_long = async {
            shutdown.cancelled().await;
            sleep(FLUSH).await;
        };
        tokio::select! {
            () = self.write_all(&shutdown) => {}
            () = too_long => tracing::warn!("some events were not written: the API server took too long"),
        }
    }

    async fn write_all(mut self, shutdown: &CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                next = self.next() => next,
            };
            let Some((at, notice)) = next else { return };
            self.handle(at, notice).await;
        }
        self.warnings.close();
        self.normal.close();
        while let Some((at, notice)) = self.warnings.recv().await {
            self.handle(at, notice).await;
        }
        while let Some((at, notice)) = self.normal.recv().await {
            self.handle(at, notice).await;
        }
    }

    /// The next event to write; `None` when all recorders are gone.
    async fn next(&mut self) -> Option<Published> {
        let paced = async {
            sleep_until(self.next_normal).await;
            self.normal.recv().await
        };
        tokio::select! {
            biased;
            Some(warning) = self.warnings.recv() => Some(warning),
            Some(normal) = paced => {
                let now = Instant::now();
                self.next_normal = now + self.pace.reserve(now);
                Some(normal)
            }
            else => None,
        }
    }

    async fn handle(&mut self, at: Timestamp, notice: Notice) {
        let Verdict::Publish(write) = self.correlator.observe(&notice, Instant::now(), at) else {
            return;
        };
        for attempt in 1..=TRIES {
            match self.write(&notice, &write).await {
                Ok(()) => return,
                Err(error) if attempt == TRIES || !matches!(error, ApiError::Failed(..)) => {
                    tracing::warn!(reason = notice.reason, "event is lost: {error}");
                }
                Err(_) => {
                    sleep(PAUSE).await;
                    continue;
                }
            }
            return;
        }
    }

    async fn write(&self, notice: &Notice, write: &Write) -> Result<(), ApiError> {
        // Events on objects without a namespace go to `default`, as client-go does it.
        let namespace = notice.object.namespace.as_deref().unwrap_or("default");
        if write.count > 1 {
            let target = Target { namespace: Some(namespace), name: &write.name, subresource: None };
            let body = json!({ "count": write.count, "message": write.message, "lastTimestamp": time(write.last) });
            match api::patch::<Event>(&self.client, &target, &Patch::Merge(body)).await {
                // It has expired: write it anew.
                Err(ApiError::Gone(_)) => {}
                other => return other.map(drop),
            }
        }
        let event = event(notice, write, namespace);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let created = api.create(&PostParams::default(), &event).await;
        let action = Action { verb: "create", resource: "events".to_owned() };
        match created.map_err(|error| ApiError::new(action, error)) {
            // A try whose answer was lost has written it.
            Ok(_) | Err(ApiError::Changed(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn time(at: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at)
}

fn event(notice: &Notice, write: &Write, namespace: &str) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(write.name.clone()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: notice.object.clone(),
        type_: Some(if notice.severity == Severity::Normal { "Normal" } else { "Warning" }.to_owned()),
        reason: Some(notice.reason.clone()),
        message: Some(write.message.clone()),
        count: Some(write.count),
        first_timestamp: Some(time(write.first)),
        last_timestamp: Some(time(write.last)),
        source: Some(k8s_openapi::api::core::v1::EventSource { component: Some(notice.source.to_owned()), host: None }),
        reporting_component: Some(notice.source.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
