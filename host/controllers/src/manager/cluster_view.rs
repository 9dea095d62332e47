//! The view of the cluster that a provider gets, from the caches.

use std::{
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use skydock_cloud::{
    Cluster, ForeignObject, Holder, NamedBy, ObjectAnnotations, ObjectEvent, ObjectKind,
    ObjectName, ReadError, Severity,
};
use skydock_controller_base::{
    controller::annotations::AnnotationWriter,
    objects::{
        address_holders::AddressHolders,
        kinds::{NodeKind, ServiceKind},
        read_objects::ReadObjects,
    },
};
use skydock_kube::{
    events::{EventType, Notice, Recorder},
    informer::{Change, Entry, Informer, Kind},
};
use skydock_service_controller::{Classes, plan};

/// `source.component` of a provider's events. Controllers use names of their own, so that their
/// events are not confused with the provider's, and so that a provider that exceeds its event rate
/// does not silence them.
const PROVIDER: &str = "cloud-provider";

/// The cluster, from the caches.
pub(crate) struct ClusterView {
    pub(crate) nodes: Arc<Informer<NodeKind>>,
    pub(crate) services: Arc<Informer<ServiceKind>>,
    pub(crate) recorder: Recorder,
    pub(crate) classes: Classes,
    /// Whether Services are watched.
    pub(crate) with_services: bool,
    pub(crate) uid: Arc<OnceLock<String>>,
    pub(crate) revision: Arc<AtomicU64>,
    pub(crate) annotation_writer: Arc<AnnotationWriter>,
    pub(crate) read_objects: Arc<ReadObjects>,
    pub(crate) address_holders: Arc<AddressHolders>,
}

/// Counts the changes of nodes and Services that are visible to a provider.
pub(crate) fn count_changes(
    nodes: &Informer<NodeKind>,
    services: &Informer<ServiceKind>,
) -> Arc<AtomicU64> {
    fn matters<K: Kind>(change: &Change<'_, K>, same: impl Fn(&K::View, &K::View) -> bool) -> bool {
        if let Change::Updated(old, new) = change {
            !same(&old.view, &new.view)
        } else {
            true
        }
    }

    let revision = Arc::<AtomicU64>::default();
    let of_nodes = Arc::clone(&revision);
    let of_services = Arc::clone(&revision);

    nodes.subscribe(move |change| {
        if matters(&change, |old, new| old == new) {
            of_nodes.fetch_add(1, Ordering::Relaxed);
        }
    });
    services.subscribe(move |change| {
        // A provider does not see the rest of the view.
        if matters(&change, |old, new| old.service == new.service) {
            of_services.fetch_add(1, Ordering::Relaxed);
        }
    });

    revision
}

impl ClusterView {
    /// Returns true for Services that want a load balancer of this provider, and those whose load
    /// balancer it still has to delete. The finalizer alone proves nothing: implementations of
    /// other classes use the same one.
    fn serves(&self, entry: &Entry<ServiceKind>) -> bool {
        plan::wants_load_balancer(&entry.object, &self.classes)
            || plan::needs_cleanup(&entry.object, &self.classes)
    }

    /// Returns true for Services whose load balancer is this provider's. It has none without the
    /// finalizer, so that a status without it is another implementation's.
    fn serves_key(&self, key: &str) -> bool {
        let entry = self.services.get(key);
        entry.is_some_and(|entry| self.serves(&entry) && plan::has_finalizer(&entry.object))
    }
}

#[async_trait]
impl Cluster for ClusterView {
    fn uid(&self) -> Option<String> {
        self.uid.get().cloned()
    }

    fn revision(&self) -> Option<u64> {
        let known = self.nodes.is_synced() && (!self.with_services || self.services.is_synced());
        known.then(|| self.revision.load(Ordering::Relaxed))
    }

    fn annotate(&self, annotations: ObjectAnnotations) {
        self.annotation_writer.add(annotations);
    }

    async fn read(
        &self,
        object: &ForeignObject,
        named_by: Option<&NamedBy>,
        reader: Option<&ObjectName>,
    ) -> Result<String, ReadError> {
        if let Some(named_by) = named_by {
            self.read_objects.must_be_granted(object, named_by).await?;
        }
        self.read_objects.read(object, reader).await
    }

    fn nodes(&self) -> Vec<Arc<skydock_cloud::Node>> {
        self.nodes
            .list()
            .iter()
            .map(|entry| Arc::clone(&entry.view))
            .collect()
    }

    fn node(&self, name: &str) -> Option<Arc<skydock_cloud::Node>> {
        self.nodes.get(name).map(|entry| Arc::clone(&entry.view))
    }

    /// Returns no Services until the cache is complete, because a part of them could be taken for
    /// all.
    fn services(&self) -> Vec<Arc<skydock_cloud::Service>> {
        if !self.services.is_synced() {
            return Vec::new();
        }
        let services = self.services.list();
        services
            .iter()
            .filter(|entry| self.serves(entry))
            .map(|entry| Arc::clone(&entry.view.service))
            .collect()
    }

    fn service(&self, namespace: &str, name: &str) -> Option<Arc<skydock_cloud::Service>> {
        let entry = self
            .services
            .get(&format!("{namespace}/{name}"))
            .filter(|entry| self.serves(entry))?;
        Some(Arc::clone(&entry.view.service))
    }

    fn has_service(&self, namespace: &str, name: &str) -> bool {
        self.services.get(&format!("{namespace}/{name}")).is_some()
    }

    fn object_json(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<String> {
        match kind {
            ObjectKind::Node => {
                serde_json::to_string(&NodeKind::whole(&*self.nodes.get(name)?)).ok()
            }
            ObjectKind::Service => {
                serde_json::to_string(&self.services.get(&format!("{namespace}/{name}"))?.object)
                    .ok()
            }
        }
    }

    fn holders(&self, address: IpAddr) -> Vec<Holder> {
        self.address_holders
            .find(address, |key| self.serves_key(key))
    }

    fn named(&self, name: &str) -> Vec<Holder> {
        self.address_holders.named(name, |key| self.serves_key(key))
    }

    fn publish(&self, event: ObjectEvent) {
        let kind = match event.object.kind {
            ObjectKind::Node => "Node",
            ObjectKind::Service => "Service",
        };
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());

        self.recorder.publish(Notice {
            source: PROVIDER,
            object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some(kind.to_owned()),
                namespace: filled(event.object.namespace),
                name: filled(event.object.name),
                uid: filled(event.object.uid),
                ..ObjectReference::default()
            },
            event_type: match event.severity {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: event.reason,
            message: event.message,
        });
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};
    use skydock_controller_base::{
        controller::recorder::recorder,
        objects::constants::FINALIZER,
        testing::{FakeApi, FakeCloud, node, service, with},
    };
    use skydock_kube::events::EventWriter;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Metrics;

    /// Returns the view of a cluster whose caches are not complete, and the writer of its events.
    fn view(api: &FakeApi) -> (ClusterView, EventWriter) {
        let metrics = Metrics::register(&mut Registry::default());
        let (recorder, writer) = recorder(&metrics.shared);
        let (nodes, services): (Arc<Informer<NodeKind>>, Arc<Informer<ServiceKind>>) =
            Default::default();
        let clients = (api.client(), api.client());
        let view = ClusterView {
            recorder,
            classes: Classes::default(),
            with_services: true,
            uid: Arc::default(),
            revision: count_changes(&nodes, &services),
            annotation_writer: Arc::new(AnnotationWriter::new(
                clients,
                (Arc::clone(&nodes), Arc::clone(&services)),
                Arc::new(FakeCloud::default()),
                &metrics.shared,
            )),
            read_objects: Arc::new(ReadObjects::new(api.client())),
            address_holders: AddressHolders::follow(&nodes, &services),
            nodes,
            services,
        };
        (view, writer)
    }

    #[tokio::test]
    async fn the_revision_changes_with_what_a_provider_sees() {
        let (view, _writer) = view(&FakeApi::default());
        view.nodes.apply(node("n1"));
        assert_eq!(view.revision(), None);
        view.services.complete();
        view.nodes.complete();
        let revision = view.revision();
        assert!(revision.is_some());

        let heartbeat = json!({"metadata": {"resourceVersion": "2"}});
        view.nodes.apply(with(&node("n1"), &heartbeat));
        assert_eq!(view.revision(), revision, "nothing of it has changed");

        let labeled = json!({"metadata": {"resourceVersion": "3", "labels": {"a": "b"}}});
        view.nodes.apply(with(&node("n1"), &labeled));
        assert!(view.revision() > revision);
    }

    #[tokio::test]
    async fn a_provider_sees_nodes_and_its_services() {
        let (view, _writer) = view(&FakeApi::default());
        let finalizers = json!([FINALIZER]);
        view.nodes.apply(node("n1"));
        for (name, change) in [
            ("wanting", json!({})),
            (
                "leaving",
                json!({"metadata": {"finalizers": finalizers}, "spec": {"type": "ClusterIP"}}),
            ),
            ("plain", json!({"spec": {"type": "ClusterIP"}})),
            ("classy", json!({"spec": {"loadBalancerClass": "x"}})),
            (
                "foreign",
                json!({"metadata": {"finalizers": finalizers}, "spec": {"loadBalancerClass": "x"}}),
            ),
        ] {
            view.services.apply(with(&service(name), &change));
        }
        assert!(view.services().is_empty(), "some would look like all");
        view.services.complete();
        view.nodes.complete();

        assert_eq!(view.nodes().len(), 1);
        let names: Vec<_> = view
            .services()
            .iter()
            .map(|service| service.name.clone())
            .collect();
        assert_eq!(names, ["leaving", "wanting"]);
        let one = |name: &str| view.service("ns", name).is_some();
        let hidden = ["plain", "classy", "foreign", "none"];
        assert_eq!(
            (["leaving", "wanting"].map(one), hidden.map(one)),
            ([true; 2], [false; 4])
        );
        assert_eq!(
            ["plain", "classy", "none"].map(|name| view.has_service("ns", name)),
            [true, true, false]
        );
        assert_eq!(
            (view.node("n1").is_some(), view.node("n2").is_some()),
            (true, false)
        );

        let whole = view.object_json(ObjectKind::Service, "ns", "wanting");
        let whole: Value = serde_json::from_str(&whole.unwrap()).unwrap();
        assert_eq!(
            (&whole["kind"], &whole["metadata"]["uid"]),
            (&"Service".into(), &"uid-wanting".into())
        );
        assert_eq!(view.object_json(ObjectKind::Node, "", "n2"), None);
        let whole = view.object_json(ObjectKind::Node, "", "n1").unwrap();
        assert!(whole.contains("kubernetes.io/hostname"));
    }

    #[tokio::test]
    async fn events_of_a_provider_have_a_source_of_their_own() {
        let api = FakeApi::default();
        let (view, writer) = view(&api);
        view.services.apply(service("wanting"));
        view.services.complete();
        view.publish(ObjectEvent {
            object: ObjectName::service(&view.services()[0]),
            severity: Severity::Warning,
            reason: "QuotaReached".into(),
            message: "no more addresses".into(),
        });
        drop(view);
        writer.run(api.client(), CancellationToken::new()).await;
        let event = api.requests().remove(0).body;
        assert_eq!(event["involvedObject"]["name"], "wanting");
        assert_eq!(
            (&event["source"]["component"], &event["reason"]),
            (&"cloud-provider".into(), &"QuotaReached".into()),
            "told apart from what the controllers say"
        );
    }
}
