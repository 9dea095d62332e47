//! Writes annotations that a provider wants on nodes and Services, after its calls.

mod pending;

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use skydock_cloud::{CloudProvider, ObjectAnnotations, ObjectKind, ObjectName, Pairs, has_room};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::{Change, Informer},
    queue::{Bucket, Limiter, Priority, Queue, Rate},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::pending::{Annotations, MOST, PendingAnnotations};
use crate::{
    calls::retry::RetryWhen,
    controller::context::metrics::SharedMetrics,
    objects::kinds::{NodeKind, ServiceKind},
};

/// Annotations that were set or removed, the last ones last.
type Last = Vec<(String, Option<String>)>;

/// Time between two writes to the same object. In the meantime, further annotations are gathered.
const APART: Duration = Duration::from_secs(10);

/// Rate of writes. Every write is kept for minutes by etcd, and sent to all that watch the object,
/// such as kube-proxy on each node.
const PACE: Rate = Rate {
    per_second: 10.0,
    burst: 100.0,
};

/// Maximum time to write the remaining annotations at shutdown.
const LAST: Duration = Duration::from_secs(2);

/// Annotations to be written, and those that were written.
pub struct AnnotationWriter {
    nodes: Client,
    services: Client,
    node_cache: Arc<Informer<NodeKind>>,
    service_cache: Arc<Informer<ServiceKind>>,
    provider: Arc<dyn CloudProvider>,
    queue: Queue<String>,
    /// When objects were written last, unless that was long ago.
    last: Mutex<HashMap<String, Instant>>,
    pace: Mutex<Bucket>,
    pending: Arc<Mutex<PendingAnnotations>>,
    written: Arc<WrittenAnnotations>,
}

/// Annotations written on each Service, by UID. They come back with the next version of the
/// Service, where they must not be taken for a user's change.
#[derive(Default)]
pub struct WrittenAnnotations {
    last: Mutex<HashMap<String, Last>>,
    /// Those that are yet to be written, also on nodes.
    pending: Arc<Mutex<PendingAnnotations>>,
}

impl WrittenAnnotations {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Last>> {
        self.last.lock()
    }

    /// Returns true if this annotation of the Service, or its removal, was written here.
    pub fn contains(&self, uid: &str, key: &str, value: Option<&str>) -> bool {
        self.all()
            .get(uid)
            .and_then(|written| written.iter().find(|(written, _)| written == key))
            .is_some_and(|(_, written)| written.as_deref() == value)
    }

    /// Returns true if an annotation of the Service waits to be written.
    pub fn is_waiting(&self, uid: &str) -> bool {
        let pending = self.pending.lock();
        pending.has(&key(ObjectKind::Service, uid))
    }

    /// Makes an annotation wait.
    #[cfg(any(test, feature = "testing"))]
    pub fn waits(&self, wanted: ObjectAnnotations) {
        let key = key_of(&wanted.object);
        self.pending.lock().add(&key, wanted);
    }

    fn remember(&self, uid: &str, annotations: &Annotations) {
        let mut all = self.all();
        let written = all.entry(uid.to_owned()).or_default();
        written.retain(|(key, _)| !annotations.contains_key(key));
        written.extend(annotations.clone());
        written.drain(..written.len().saturating_sub(MOST));
    }

    /// Forgets what someone else has changed: the same value, when it comes again, is another
    /// change of theirs.
    fn compare(&self, uid: &str, old: &Pairs, new: &Pairs) {
        let mut all = self.all();
        if let Some(written) = all.get_mut(uid) {
            written.retain(|(key, written)| {
                let value = new.get(key);
                value == old.get(key) || value == written.as_ref()
            });
        }
    }
}

impl AnnotationWriter {
    /// Creates it with clients for nodes and Services, and their caches. Nothing is written before
    /// [`AnnotationWriter::run`].
    pub fn new(
        (nodes, services): (Client, Client),
        (node_cache, service_cache): (Arc<Informer<NodeKind>>, Arc<Informer<ServiceKind>>),
        provider: Arc<dyn CloudProvider>,
        metrics: &SharedMetrics,
    ) -> Self {
        let written = Arc::<WrittenAnnotations>::default();
        let known = Arc::clone(&written);

        service_cache.subscribe(move |change| match change {
            Change::Added(_) => {}
            Change::Updated(old, new) => {
                let none = Pairs::new();
                let [old, now] =
                    [old, new].map(|it| it.object.metadata.annotations.as_ref().unwrap_or(&none));
                known.compare(new.uid(), old, now);
            }
            Change::Deleted(gone) => drop(known.all().remove(gone.uid())),
        });

        let queue = Queue::new(Limiter::SERVICES, metrics.queue("annotation"));
        Self {
            nodes,
            services,
            node_cache,
            service_cache,
            provider,
            queue,
            last: Mutex::default(),
            pace: Mutex::new(Bucket::full(PACE, Instant::now())),
            pending: Arc::clone(&written.pending),
            written,
        }
    }

    /// Returns what was written.
    pub fn written(&self) -> Arc<WrittenAnnotations> {
        Arc::clone(&self.written)
    }

    fn pending(&self) -> MutexGuard<'_, PendingAnnotations> {
        self.pending.lock()
    }

    /// Queues annotations. Values of the same object and key that still wait are overwritten.
    pub fn add(&self, wanted: ObjectAnnotations) {
        let key = key_of(&wanted.object);
        let object = wanted.object.clone();
        let omitted = self.pending().add(&key, wanted);

        if let Some(omitted) = omitted {
            tracing::warn!(%object, "annotation {omitted} is not written, and perhaps others: too many of the provider's annotations are waiting");
        }

        let wait = self
            .last()
            .get(&key)
            .map(|last| APART.saturating_sub(last.elapsed()));
        self.queue
            .add_after(key, wait.unwrap_or_default(), Priority::Change);
    }

    /// Returns how long to wait before the next write.
    fn pause(&self) -> Duration {
        let mut pace = self.pace.lock();
        pace.reserve(Instant::now())
    }

    fn last(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.last.lock()
    }

    fn remember_write(&self, object: &ObjectName) {
        let mut last = self.last();
        let now = Instant::now();
        last.retain(|_, last| now.duration_since(*last) < APART);
        last.insert(key_of(object), now);
    }

    /// Returns the annotations of an object in the cache.
    fn present(&self, object: &ObjectName) -> Option<Pairs> {
        match object.kind {
            ObjectKind::Node => {
                let entry = self.node_cache.get(&object.name)?;
                (entry.uid() == object.uid).then(|| entry.view.annotations.clone())
            }
            ObjectKind::Service => {
                let entry = self.service_cache.get(&object.to_string())?;
                let annotations = entry.object.metadata.annotations.clone();
                (entry.uid() == object.uid).then(|| annotations.unwrap_or_default())
            }
        }
    }

    /// Writes annotations until the future is dropped.
    pub async fn run(&self) {
        let write = |key: String, _| async move {
            self.write(&key).await;
            sleep(self.pause()).await;
        };
        self.queue
            .run_workers(1, &CancellationToken::new(), write)
            .await;
    }

    /// Writes all annotations that wait once. Called when no call to the provider is running.
    pub async fn finish(&self) {
        let keys = self.pending().keys();
        let write = async {
            for key in &keys {
                self.write(key).await;
            }
        };

        if timeout(LAST, write).await.is_err() {
            tracing::warn!(
                "some of the provider's annotations could not be written before shutdown"
            );
        }
    }

    /// Writes the annotations that wait for an object. They wait until they are written, because the
    /// future may be dropped in between.
    async fn write(&self, key: &str) {
        let Some((object, annotations)) = self.pending().of(key) else {
            return self.queue.forget(&key.to_owned());
        };

        if let Err(error) = self.send(&object, &annotations).await
            && let again @ RetryWhen::BackOff = RetryWhen::after_write(&error)
        {
            tracing::warn!(object = %object, "cannot write the provider's annotations: {error}");
            return again.schedule(&self.queue, &key.to_owned());
        }

        // It was written, or its object no longer exists.
        self.queue.forget(&key.to_owned());
        self.pending().remove(key, &annotations);
    }

    /// Returns the annotations for which the object has room beside those that are present.
    fn fitting(
        &self,
        object: &ObjectName,
        present: Pairs,
        annotations: &Annotations,
    ) -> Annotations {
        let info = self.provider.info();
        let mut after = present;
        let mut fitting = annotations.clone();
        let mut omitted = None;

        // What has no room is omitted, so that the API server accepts the rest.
        fitting.retain(|key, value| {
            let Some(value) = value else {
                after.remove(key);
                return true;
            };
            let fits = has_room(&after, |key| info.may_annotate(key), (key, value));
            if fits {
                after.insert(key.clone(), value.clone());
            } else {
                omitted = Some(key.clone());
            }
            fits
        });

        if let Some(omitted) = omitted {
            tracing::warn!(%object, "annotation {omitted} is not written, and perhaps others: the provider has too many or too large annotations on the object");
        }

        fitting
    }

    async fn send(&self, object: &ObjectName, annotations: &Annotations) -> Result<(), ApiError> {
        // The cache has what was written before, because that was a while ago.
        let present = self.present(object);
        if present.as_ref().is_some_and(|it| has(it, annotations)) {
            return Ok(());
        }

        // The API server decides whether an object exists that the cache does not have.
        let annotations = &self.fitting(object, present.unwrap_or_default(), annotations);
        self.remember_write(object);
        let body =
            Patch::Merge(json!({ "metadata": { "uid": object.uid, "annotations": annotations } }));

        match object.kind {
            ObjectKind::Node => {
                let target = Target {
                    namespace: None,
                    name: &object.name,
                    subresource: None,
                };
                patch::<Node>(&self.nodes, &target, &body).await.map(drop)
            }
            ObjectKind::Service => {
                // Before the request: the watch event may arrive before the answer.
                self.written.remember(&object.uid, annotations);
                let target = Target {
                    namespace: Some(&object.namespace),
                    name: &object.name,
                    subresource: Some("status"),
                };
                patch::<Service>(&self.services, &target, &body)
                    .await
                    .map(drop)
            }
        }
    }
}

/// Returns what identifies an object here.
fn key_of(object: &ObjectName) -> String {
    key(object.kind, &object.uid)
}

fn key(kind: ObjectKind, uid: &str) -> String {
    format!("{kind:?} {uid}")
}

/// Returns true if the object already has the wanted annotations.
fn has(present: &Pairs, wanted: &Annotations) -> bool {
    wanted
        .iter()
        .all(|(key, value)| present.get(key) == value.as_ref())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::testing::{FakeApi, FakeCloud, service, with};

    #[test]
    fn own_writes_are_distinguished_from_those_of_others() {
        let written = WrittenAnnotations::default();
        written.remember(
            "u",
            &[
                ("a".to_owned(), Some("1".to_owned())),
                ("b".to_owned(), None),
            ]
            .into(),
        );
        for (uid, key, value, is_own) in [
            ("u", "a", Some("1"), true),
            ("u", "b", None, true),
            ("u", "a", Some("2"), false),
            ("u", "a", None, false),
            ("u", "b", Some("1"), false),
            ("u", "c", None, false),
            ("other", "a", Some("1"), false),
        ] {
            assert_eq!(
                written.contains(uid, key, value),
                is_own,
                "{uid} {key} {value:?}"
            );
        }
    }

    // Holds: SEC-62
    #[test]
    fn only_the_last_annotations_of_a_service_are_remembered() {
        let written = WrittenAnnotations::default();
        let remember = |number: usize| {
            let key = format!("k{number}");
            written.remember("u", &[(key, Some("1".to_owned()))].into());
        };
        let is = |number: usize| written.contains("u", &format!("k{number}"), Some("1"));
        (0..MOST).for_each(remember);
        remember(0);
        assert!(is(0) && is(1));
        remember(MOST);
        assert!(is(0) && !is(1) && is(2) && is(MOST));
        (0..10 * MOST).for_each(remember);
        assert_eq!(written.all()["u"].len(), MOST);
    }

    // Holds: SEC-62
    #[tokio::test(start_paused = true)]
    async fn writes_to_an_object_are_apart_and_leave_room() {
        let (api, services) = (FakeApi::default(), Arc::<Informer<ServiceKind>>::default());
        let metrics = SharedMetrics::register(&mut Registry::default());
        let writer = AnnotationWriter::new(
            (api.client(), api.client()),
            (Arc::default(), Arc::clone(&services)),
            Arc::new(FakeCloud::default()),
            &metrics,
        );
        let present = json!({"fake.example/same": "1"});
        services.apply(with(
            &service("web"),
            &json!({"metadata": {"annotations": present}}),
        ));
        let take = |key: &str, value: &str| {
            writer.add(ObjectAnnotations {
                object: ObjectName::service(&services.get("ns/web").unwrap().view.service),
                annotations: [(format!("fake.example/{key}"), Some(value.to_owned()))].into(),
            });
        };
        let changes = async {
            take("same", "1");
            sleep(Duration::from_secs(1)).await;
            assert!(api.requests().is_empty(), "it is there already");
            for number in 0..50 {
                take("a", &number.to_string());
                sleep(Duration::from_millis(500)).await;
            }
            sleep(APART).await;
            let written = api.requests().len();
            assert!((2..=5).contains(&written), "{written} writes in 35 seconds");
            (0..20).for_each(|number| take(&format!("big{number:02}"), &"v".repeat(4096)));
            sleep(2 * APART).await;
        };
        tokio::select! {
            () = writer.run() => unreachable!(),
            () = changes => {}
        }

        let last = api.requests().pop().unwrap().body;
        let written = last["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(written.len(), 15, "64 KiB are not exceeded");
    }

    #[tokio::test]
    async fn an_annotation_waits_until_it_is_written() {
        let (api, services) = (FakeApi::default(), Arc::<Informer<ServiceKind>>::default());
        let metrics = SharedMetrics::register(&mut Registry::default());
        let writer = AnnotationWriter::new(
            (api.client(), api.client()),
            (Arc::default(), Arc::clone(&services)),
            Arc::new(FakeCloud::default()),
            &metrics,
        );
        services.apply(service("web"));
        let written = writer.written();
        assert!(!written.is_waiting("uid-web"));

        writer.add(ObjectAnnotations {
            object: ObjectName::service(&services.get("ns/web").unwrap().view.service),
            annotations: [("a".to_owned(), Some("1".to_owned()))].into(),
        });
        assert!(written.is_waiting("uid-web") && !written.is_waiting("uid-other"));

        let path = "/api/v1/namespaces/ns/services/web/status";
        api.fail("PATCH", path, 500, "InternalError");
        writer.finish().await;
        assert!(written.is_waiting("uid-web"), "it is tried again");
        writer.finish().await;
        assert!(!written.is_waiting("uid-web"));
    }

    #[tokio::test]
    async fn a_value_that_others_change_back_is_their_change() {
        let (api, services) = (FakeApi::default(), Arc::<Informer<ServiceKind>>::default());
        let metrics = SharedMetrics::register(&mut Registry::default());
        let writer = AnnotationWriter::new(
            (api.client(), api.client()),
            (Arc::default(), Arc::clone(&services)),
            Arc::new(FakeCloud::default()),
            &metrics,
        );
        let (version, written) = (AtomicU32::new(0), writer.written());
        // Applies the next version of the Service with this value of an annotation. Returns whether
        // it was written here.
        let is_own = |value: Option<&str>| {
            let version = version.fetch_add(1, Ordering::Relaxed).to_string();
            let metadata = json!({"resourceVersion": version, "annotations": {"a": value}});
            services.apply(with(&service("web"), &json!({"metadata": metadata})));
            written.contains("uid-web", "a", value)
        };

        let write = async |value: Option<&str>| {
            let name = |text: &str| text.to_owned();
            let (kind, uid) = (ObjectKind::Service, name("uid-web"));
            let object = ObjectName {
                kind,
                namespace: name("ns"),
                name: name("web"),
                uid,
            };
            writer.add(ObjectAnnotations {
                object,
                annotations: [(name("a"), value.map(name))].into(),
            });
            writer.finish().await;
        };
        assert!(!is_own(None) && !is_own(Some("0")));

        write(Some("1")).await;
        assert!(!is_own(Some("0")), "the version before");
        assert!(is_own(Some("1")) && is_own(Some("1")));
        assert!(
            !is_own(Some("2")) && !is_own(Some("1")),
            "a user changes it, and changes it back"
        );

        write(None).await;
        assert!(is_own(None));
        assert!(!is_own(Some("1")) && !is_own(None));
    }
}
