//! Events on objects. Controllers queue them without waiting. A task correlates them as client-go
//! does and writes them: warnings and events about this process at once. Other normal events are
//! written at a limited rate until no more are published, so that they do not take the API server's
//! time from the work that they report.
//! Those of a provider have a queue and a rate of their own, since it may publish without end.

mod correlate;
mod warnings;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
pub use kube::runtime::events::EventType;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub use self::warnings::LastWarning;
use self::{
    correlate::{Correlator, Verdict, Write},
    warnings::LastWarnings,
};
use crate::{
    api::{self, Action, ApiError, Patch, Target},
    informer::{Entry, Kind},
    queue::{Bucket, Rate},
};

/// Period after which an event about an unchanged condition is published again: an API server keeps
/// events for an hour.
pub const REMINDER_PERIOD: Duration = Duration::from_secs(30 * 60);
/// Maximum number of queued events of Skydock; more are dropped and counted. Every node of a large
/// cluster may have one.
const OWN: usize = 16_384;
/// Maximum number of queued events of a provider, twice as many as in client-go: the last of them
/// would be minutes old.
const OF_PROVIDER: usize = 2048;
/// Rate of normal events while more are published. An event costs the API server as much as one of
/// the two writes that initialize a node.
const PACE: Rate = Rate {
    per_second: 10.0,
    burst: 100.0,
};
/// Time without a new event after which the work that they report is done, so that the queued ones
/// are written without delay.
const QUIET: Duration = Duration::from_secs(1);
/// Number of attempts to write an event if the API server cannot be reached, and the delay between
/// them.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum time for writing queued events at shutdown.
const FLUSH: Duration = Duration::from_secs(5);

/// An event to be published.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// `source.component`.
    pub source: &'static str,
    /// Object of the event.
    pub object: ObjectReference,
    /// `type`.
    pub event_type: EventType,
    /// Reason in CamelCase.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
}

impl Notice {
    /// Returns true for warnings, and for events about this process, which are on its Lease: there
    /// are few, and what they report explains the others.
    fn is_urgent(&self) -> bool {
        self.event_type == EventType::Warning || self.object.kind.as_deref() == Some("Lease")
    }
}

/// An event and the time at which it was published.
type Published = (Timestamp, Notice);

/// Queues events. Clones share their queues.
#[derive(Clone)]
pub struct Recorder {
    urgent: mpsc::Sender<Published>,
    normal: mpsc::Sender<Published>,
    /// When the last normal event was published.
    last_normal: Arc<Mutex<Instant>>,
    of_provider: mpsc::Sender<Published>,
    warnings: Arc<LastWarnings>,
    sanitize: fn(&str) -> String,
    dropped: Counter,
}

impl Recorder {
    /// Creates a recorder, and the writer of its events. Messages may quote a plugin, a user or the
    /// API server, so each of them is passed through `sanitize`; `dropped` counts the events that
    /// are dropped because too many wait.
    #[must_use]
    pub fn new(sanitize: fn(&str) -> String, dropped: Counter) -> (Self, EventWriter) {
        let (urgent, urgent_events) = mpsc::channel(OWN);
        let (normal, normal_events) = mpsc::channel(OWN);
        let (of_provider, events_of_provider) = mpsc::channel(OF_PROVIDER);
        let last_normal = Arc::new(Mutex::new(Instant::now()));

        let writer = EventWriter {
            urgent: urgent_events,
            normal: Paced::new(normal_events, Some(Arc::clone(&last_normal))),
            // A provider could be quiet now and then, and publish without end nevertheless.
            of_provider: Paced::new(events_of_provider, None),
            correlator: Correlator::default(),
        };

        (
            Self {
                urgent,
                normal,
                last_normal,
                of_provider,
                warnings: Arc::default(),
                sanitize,
                dropped,
            },
            writer,
        )
    }

    /// Returns a recorder for the events of a provider, which do not displace others.
    #[must_use]
    pub fn of_provider(&self) -> Self {
        Self {
            urgent: self.of_provider.clone(),
            normal: self.of_provider.clone(),
            last_normal: Arc::new(Mutex::new(Instant::now())),
            ..self.clone()
        }
    }

    /// Publishes an event, or drops it if too many wait.
    pub fn publish(&self, mut notice: Notice) {
        notice.message = (self.sanitize)(&notice.message);
        tracing::debug!(
            object = notice.object.name,
            reason = notice.reason,
            "event: {}",
            notice.message
        );

        let now = Timestamp::now();
        if notice.event_type == EventType::Warning {
            self.warnings.keep(now, &notice);
        }

        let queue = if notice.is_urgent() {
            &self.urgent
        } else {
            *self.last_normal.lock() = Instant::now();
            &self.normal
        };
        if queue.try_send((now, notice)).is_err() {
            self.dropped.inc();
        }
    }

    /// Returns the last warning about an object, also if it was dropped. The namespace is empty for
    /// objects without one.
    #[must_use]
    pub fn last_warning(&self, kind: &str, namespace: &str, name: &str) -> Option<LastWarning> {
        self.warnings.about(kind, namespace, name)
    }

    /// Publishes an event on a cached object.
    pub fn on<K: Kind>(
        &self,
        source: &'static str,
        entry: &Entry<K>,
        event_type: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        let object = entry.reference();
        self.publish(Notice {
            source,
            object,
            event_type,
            reason: reason.to_owned(),
            message: message.into(),
        });
    }
}

/// Writes the events of recorders to the API server.
pub struct EventWriter {
    urgent: mpsc::Receiver<Published>,
    normal: Paced,
    of_provider: Paced,
    correlator: Correlator,
}

/// Events that are written at a limited rate.
struct Paced {
    events: mpsc::Receiver<Published>,
    pace: Bucket,
    /// When the last one was published, if the rest is written at once when no more are.
    last: Option<Arc<Mutex<Instant>>>,
}

impl Paced {
    fn new(events: mpsc::Receiver<Published>, last: Option<Arc<Mutex<Instant>>>) -> Self {
        Self {
            events,
            pace: Bucket::full(PACE, Instant::now()),
            last,
        }
    }

    /// Returns the next event when it may be written. Nothing is lost if the future is dropped.
    async fn recv(&mut self) -> Option<Published> {
        loop {
            let quiet_at = self.last.as_ref().map(|last| *last.lock() + QUIET);
            let refilled_at = self.pace.refilled_at();
            let at = quiet_at.map_or(refilled_at, |quiet_at| refilled_at.min(quiet_at));
            if at <= Instant::now() {
                break;
            }
            sleep_until(at).await;
        }

        let event = self.events.recv().await?;
        self.pace.reserve(Instant::now());
        Some(event)
    }
}

impl EventWriter {
    /// Writes events until the token is cancelled or all recorders are dropped. After the token is
    /// cancelled, queued events are written for at most 5 s.
    pub async fn run(self, client: Client, shutdown: CancellationToken) {
        // The limit also applies to an event that is being written at that time.
        let too_long = async {
            shutdown.cancelled().await;
            sleep(FLUSH).await;
        };
        tokio::select! {
            () = self.write_all(&client, &shutdown) => {}
            () = too_long => tracing::warn!("some events could not be written before shutdown"),
        }
    }

    async fn write_all(mut self, client: &Client, shutdown: &CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                next = self.next() => next,
            };
            let Some((at, notice)) = next else { return };
            handle(&mut self.correlator, client, at, notice).await;
        }

        let Self {
            urgent,
            normal,
            of_provider,
            correlator,
        } = &mut self;
        for events in [urgent, &mut normal.events, &mut of_provider.events] {
            // Closed, so that `recv` ends when the queue is empty.
            events.close();
            while let Some((at, notice)) = events.recv().await {
                handle(correlator, client, at, notice).await;
            }
        }
    }

    /// Returns the next event to write; `None` if all recorders are dropped.
    async fn next(&mut self) -> Option<Published> {
        tokio::select! {
            // Warnings go first, and the events of a provider last.
            biased;
            Some(urgent) = self.urgent.recv() => Some(urgent),
            Some(normal) = self.normal.recv() => Some(normal),
            Some(event) = self.of_provider.recv() => Some(event),
            else => None,
        }
    }
}

/// Writes an event, unless there were too many like it.
async fn handle(correlator: &mut Correlator, client: &Client, at: Timestamp, notice: Notice) {
    let Verdict::Publish(write) = correlator.observe(&notice, Instant::now(), at) else {
        return;
    };

    for attempt in 1..=TRIES {
        match write_event(client, &notice, &write).await {
            Ok(()) => return,
            // Only failures may pass: what is rejected once is rejected again.
            Err(error) if attempt == TRIES || !matches!(error, ApiError::Failed(..)) => {
                let ObjectReference {
                    kind,
                    namespace,
                    name,
                    ..
                } = &notice.object;
                tracing::warn!(
                    kind,
                    namespace,
                    name,
                    reason = notice.reason,
                    "cannot write event: {error}"
                );
            }
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        }
        return;
    }
}

async fn write_event(client: &Client, notice: &Notice, write: &Write) -> Result<(), ApiError> {
    // Events on objects without a namespace go to `default`, as in client-go.
    let namespace = notice.object.namespace.as_deref().unwrap_or("default");

    if write.count > 1 {
        let target = Target {
            namespace: Some(namespace),
            name: &write.name,
            subresource: None,
        };
        let body = json!({ "count": write.count, "message": write.message, "lastTimestamp": time(write.last) });
        match api::patch::<Event>(client, &target, &Patch::Merge(body)).await {
            // The event has expired: create it again.
            Err(ApiError::Gone(_)) => {}
            other => return other.map(drop),
        }
    }

    let event = event(notice, write, namespace);
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let created = api.create(&PostParams::default(), &event).await;

    let action = Action {
        verb: "create",
        resource: "events".to_owned(),
    };

    match created.map_err(|error| ApiError::new(action, error)) {
        // An earlier attempt whose answer was lost has created it.
        Ok(_) | Err(ApiError::Changed(_)) => Ok(()),
        Err(error) => Err(error),
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
        type_: Some(
            if notice.event_type == EventType::Normal {
                "Normal"
            } else {
                "Warning"
            }
            .to_owned(),
        ),
        reason: Some(notice.reason.clone()),
        message: Some(write.message.clone()),
        count: Some(write.count),
        first_timestamp: Some(time(write.first)),
        last_timestamp: Some(time(write.last)),
        source: Some(k8s_openapi::api::core::v1::EventSource {
            component: Some(notice.source.to_owned()),
            host: None,
        }),
        reporting_component: Some(notice.source.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
