//! What the operator permits a plugin to claim and to write.

use std::sync::Arc;

use skydock_cloud::{CloudProvider, ForeignKind, NodeSet};
use skydock_sandbox::{LoadProblem, ObjectGrant, Permissions, Stage};

use crate::support::{Bench, FakeCluster, limits, node, service_that};

/// Tries to load the plugin that writes annotations of `probe.example`, under this name.
async fn probe(name: &str, permissions: Option<Permissions>) -> Result<Bench, String> {
    let loaded = Bench::try_probe(limits(), |source| {
        source.name = name.into();
        source.permissions = permissions.unwrap_or_else(|| Permissions::by_name(name));
    });
    loaded.await.map_err(|error| {
        assert_eq!(error.stage, Stage::Permissions);
        assert!(matches!(error.source, LoadProblem::NotPermitted(_)));
        error.to_string()
    })
}

// Holds: SEC-06
#[tokio::test]
async fn a_plugin_owns_only_what_the_operator_permits() {
    assert!(probe("probe", None).await.is_ok(), "its name permits it");
    let rejected = probe("other", None).await.err().unwrap();
    assert_eq!(
        rejected,
        "it wants annotations `probe.example/`, which it is not permitted; to permit it, add to the plugin in the configuration \
         file (--config): permissions: {domains: [service.beta.kubernetes.io/other-, probe.example]}"
    );
    let permitted = Permissions {
        keys: vec!["probe.example".parse().unwrap()],
        ..Permissions::by_name("other")
    };
    assert!(probe("other", Some(permitted)).await.is_ok());
}

// Holds: SEC-27
#[tokio::test]
async fn a_plugin_cannot_write_the_annotation_that_grants() {
    for (annotation, written) in [("probe.example/id", 0), ("probe.example/other", 1)] {
        let grant = ObjectGrant::NamedBy {
            kind: ForeignKind::Secret,
            annotation: annotation.into(),
        };
        let permissions = Permissions {
            objects: vec![grant],
            ..Permissions::by_name("probe")
        };
        let bench = probe("probe", Some(permissions)).await.unwrap();
        let cluster = Arc::new(FakeCluster {
            nodes: vec![node("n1")],
            services: vec![Arc::new(service_that("good", "web"))],
            ..FakeCluster::default()
        });
        bench.cluster.set(cluster.clone());
        bench
            .plugin
            .ensure_load_balancer(&service_that("good", "web"), &NodeSet::default())
            .await
            .unwrap();
        let annotations = cluster.annotations.lock().unwrap();
        let keys = annotations.iter().flat_map(|it| it.annotations.keys());
        let found = keys.filter(|key| *key == "probe.example/id").count();
        assert_eq!(found, written, "{annotation}: {annotations:?}");
    }
}
