//! Tests of what a provider requests in addition to its answers.

use skydock_cloud::{
    CloudError, ForeignKind, ForeignObject, NamedBy, ObjectAnnotations, ObjectKind, ObjectName,
    ReadError, Retry,
};

use super::*;

const STATUS: &str = "/api/v1/namespaces/ns/services/web/status";
const SECRET: &str = "/api/v1/namespaces/ops/secrets/tls";
const NAMESPACE: &str = "/api/v1/namespaces/kube-system";

fn annotation(cluster: &dyn Cluster, key: &str, value: Option<&str>) -> ObjectAnnotations {
    let object = ObjectName::service(&cluster.services()[0]);
    ObjectAnnotations {
        object,
        annotations: [(key.to_owned(), value.map(Into::into))].into(),
    }
}

/// Returns the annotations that were written on the Service, in order.
fn written(api: &FakeApi) -> Vec<Value> {
    let patches = api
        .requests()
        .into_iter()
        .filter(|request| request.method == "PATCH" && request.path == STATUS);
    let annotated = |metadata: &Value| !metadata["annotations"].is_null();
    patches
        .map(|request| request.body["metadata"].clone())
        .filter(annotated)
        .collect()
}

fn ensures(cloud: &FakeCloud) -> usize {
    cloud
        .calls()
        .iter()
        .filter(|call| call.starts_with("ensure"))
        .count()
}

/// Returns running controllers, and the provider's view of the cluster.
async fn working() -> (Bench, Arc<dyn Cluster>) {
    let mut bench = start(&[Capability::LoadBalancers]);
    sleep(Duration::from_secs(1)).await;
    let cluster = bench.cluster.try_recv().unwrap();
    (bench, cluster)
}

#[tokio::test(start_paused = true)]
async fn maintenance_runs_as_requested_and_after_a_plugin_swap() {
    let bench = start(&[Capability::Maintenance]);
    let retry = Retry {
        after: Duration::from_secs(7),
        message: "slow".into(),
    };
    bench.cloud.maintain.lock().unwrap().extend([
        Ok(Duration::from_secs(100)),
        Err(CloudError::Throttled(retry)),
        Err(CloudError::Unavailable("down".into())),
    ]);
    sleep(Duration::from_secs(200)).await;

    let times = bench.cloud.times.lock().unwrap().clone();
    let after: Vec<_> = times.iter().map(|at| (*at - times[0]).as_secs()).collect();
    assert_eq!(
        after,
        [0, 100, 107, 167],
        "as it asks, and a minute after a failure"
    );
    assert!(bench.runs("maintenance"));

    bench.generations.send(2).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        bench.cloud.calls().len(),
        5,
        "the new plugin may have other work"
    );

    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn maintenance_slows_down_while_conflicts_last() {
    let bench = start(&[Capability::Maintenance]);
    let conflict = || Err(CloudError::Conflict("someone else was faster".into()));
    bench
        .cloud
        .maintain
        .lock()
        .unwrap()
        .extend(std::iter::repeat_with(conflict).take(12));
    bench
        .cloud
        .maintain
        .lock()
        .unwrap()
        .push_back(Ok(Duration::from_secs(5)));
    bench
        .cloud
        .maintain
        .lock()
        .unwrap()
        .extend([conflict(), conflict()]);
    sleep(Duration::from_secs(300)).await;
    let times = bench.cloud.times.lock().unwrap().clone();
    let pauses: Vec<_> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_millis() / 10 * 10)
        .collect();
    let growing = [
        100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000,
    ];
    assert_eq!(
        pauses,
        [&growing[..], &[5000, 100, 200]].concat(),
        "and again from the beginning after a success"
    );
    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn notes_are_written_in_one_patch_and_retried() {
    let (bench, cluster) = working().await;
    bench.api.fail("PATCH", STATUS, 500, "InternalError");
    cluster.annotate(annotation(&*cluster, "fake.example/id", Some("lb-1")));
    cluster.annotate(annotation(&*cluster, "fake.example/old", None));
    sleep(Duration::from_secs(60)).await;
    let expected = json!({"uid": "uid-web", "annotations": {"fake.example/id": "lb-1", "fake.example/old": null}});
    assert_eq!(
        written(&bench.api),
        [expected.clone(), expected],
        "rejected once, then written"
    );
    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn pending_notes_are_written_at_shutdown() {
    let (bench, cluster) = working().await;
    bench.api.fail("PATCH", STATUS, 500, "InternalError");
    cluster.annotate(annotation(&*cluster, "fake.example/id", Some("1")));
    sleep(Duration::from_millis(100)).await;
    cluster.annotate(annotation(&*cluster, "fake.example/id", Some("2")));
    bench.shutdown.cancel();
    bench.running.await.unwrap().unwrap();
    assert_eq!(
        written(&bench.api).pop().unwrap()["annotations"],
        json!({"fake.example/id": "2"}),
        "the last word"
    );
}

#[tokio::test(start_paused = true)]
async fn a_note_on_a_deleted_object_is_dropped() {
    let (bench, cluster) = working().await;
    for (code, reason) in [(409, "Conflict"), (404, "NotFound")] {
        bench.api.fail("PATCH", STATUS, code, reason);
        cluster.annotate(annotation(&*cluster, "fake.example/id", Some("1")));
        sleep(Duration::from_secs(600)).await;
    }
    assert_eq!(written(&bench.api).len(), 2, "once each");
}

#[tokio::test(start_paused = true)]
async fn objects_read_for_a_load_balancer_are_watched() {
    let (bench, cluster) = working().await;
    let object = ForeignObject {
        kind: ForeignKind::Secret,
        namespace: "ops".into(),
        name: "tls".into(),
    };
    let reader = ObjectName::service(&cluster.services()[0]);
    let secret = |version: &str| json!({"metadata": {"resourceVersion": version, "managedFields": [{}]}, "data": {}});

    bench.api.fail("GET", SECRET, 404, "NotFound");
    assert_eq!(
        cluster.read(&object, None, Some(&reader)).await,
        Err(ReadError::NotThere)
    );

    for (version, changed) in [("1", true), ("1", false), ("2", true)] {
        let before = ensures(&bench.cloud);
        bench.api.answer("GET", SECRET, 200, secret(version));
        sleep(Duration::from_secs(181)).await;
        assert_eq!(
            ensures(&bench.cloud) - before,
            usize::from(changed),
            "version {version}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_without_its_managed_fields() {
    let (bench, cluster) = working().await;
    let object = ForeignObject {
        kind: ForeignKind::Secret,
        namespace: "ops".into(),
        name: "tls".into(),
    };
    let secret = json!({"metadata": {"resourceVersion": "3", "managedFields": [{}]}});
    bench.api.answer("GET", SECRET, 200, secret);
    assert_eq!(
        cluster.read(&object, None, None).await.unwrap(),
        r#"{"metadata":{"resourceVersion":"3"}}"#
    );
    bench.api.fail("GET", SECRET, 403, "Forbidden");
    let Err(ReadError::Unavailable(why)) = cluster.read(&object, None, None).await else {
        panic!("it was rejected")
    };
    assert!(why.contains("\"get\" on resource \"secrets\""), "{why}");
    for name in ["../x", "a/b", ".", "", "a?b", "a%2fb"] {
        let odd = ForeignObject {
            name: name.into(),
            ..object.clone()
        };
        assert_eq!(
            cluster.read(&odd, None, None).await,
            Err(ReadError::NotThere),
            "{name}"
        );
    }
}

// Holds: SEC-27
#[tokio::test(start_paused = true)]
async fn an_own_annotation_grants_no_object() {
    let (bench, cluster) = working().await;
    let object = ForeignObject {
        kind: ForeignKind::Secret,
        namespace: "ops".into(),
        name: "tls".into(),
    };
    let service = ObjectName {
        kind: ObjectKind::Service,
        namespace: "ops".into(),
        name: "web".into(),
        uid: "u".into(),
    };
    let named_by = NamedBy {
        service,
        annotation: "a.example/tls".into(),
    };
    let secret = json!({"metadata": {"resourceVersion": "1"}});
    bench.api.answer("GET", SECRET, 200, secret);
    let listed = |uid: &str, name: &str, manager: &str| {
        let fields = json!({"f:metadata": {"f:annotations": {"f:a.example/tls": {}}}});
        json!({"items": [{"metadata": {
            "uid": uid, "annotations": {"a.example/tls": name}, "managedFields": [{"manager": manager, "fieldsV1": fields}],
        }}]})
    };
    let path = "/api/v1/namespaces/ops/services";
    for (list, expected) in [
        (listed("u", "tls", "kubectl-annotate"), None),
        (listed("u", "tls", "skydock"), Some(ReadError::NotGranted)),
        (
            listed("u", "other", "kubectl-annotate"),
            Some(ReadError::NotGranted),
        ),
        (
            listed("recreated", "tls", "kubectl-annotate"),
            Some(ReadError::NotThere),
        ),
    ] {
        bench.api.answer("GET", path, 200, list.clone());
        let read = cluster.read(&object, Some(&named_by), None).await;
        assert_eq!(read.err(), expected, "{list}");
    }
    bench.api.fail("GET", path, 403, "Forbidden");
    let read = cluster.read(&object, Some(&named_by), None).await;
    assert!(
        matches!(read, Err(ReadError::Unavailable(_))),
        "in doubt, nothing is read: {read:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn reading_the_cluster_uid_is_retried_until_it_succeeds() {
    let api = FakeApi::default();
    api.fail("GET", NAMESPACE, 403, "Forbidden");
    api.answer("GET", NAMESPACE, 200, json!({"metadata": {"uid": "c-1"}}));
    api.answer("GET", "/api/v1/nodes", 200, list("NodeList", &[]));
    api.answer("GET", "/api/v1/services", 200, list("ServiceList", &[]));
    let mut bench = start_on(api, &[Capability::Instances], Options::default());
    sleep(Duration::from_millis(500)).await;
    let cluster = bench.cluster.try_recv().unwrap();
    assert_eq!(cluster.uid(), None);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.uid().as_deref(), Some("c-1"));
}
