use std::time::Duration;

use serde_json::json;
use skydock_cloud::CloudError;
use skydock_controller_base::testing::with;
use tokio::time::sleep;

use super::*;
use crate::testing::{Bench, DRIVER, wait};

const STATUS: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/data/status";
const VOLUME: &str = "/api/v1/persistentvolumes/pv";
const CLASS: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses/gold";

/// Starts a controller in a cluster with a volume and a class.
fn start(bench: &Bench, driver: &str) {
    let controller = Arc::new(ModifyController::new(bench.parts(&CONTROLLER)));
    tokio::spawn(controller.run(CancellationToken::new()));
    let class = json!({"driverName": driver, "parameters": {"type": "fast"}});
    for _ in 0..10 {
        bench.api.answer("GET", CLASS, 200, class.clone());
    }
    let volume = json!({
        "metadata": {"name": "pv", "uid": "v"},
        "spec": {"claimRef": {"uid": "u"}, "csi": {"driver": DRIVER, "volumeHandle": "vol-1"}},
    });
    bench
        .objects
        .volumes
        .apply(serde_json::from_value(volume).unwrap());
}

fn has_claim(bench: &Bench, change: &Value) {
    let claim = json!({
        "metadata": {"namespace": "ns", "name": "data", "uid": "u"},
        "spec": {"volumeName": "pv", "volumeAttributesClassName": "gold"},
        "status": {"phase": "Bound", "currentVolumeAttributesClassName": "silver"},
    });
    let claim = serde_json::from_value(with(&claim, change)).unwrap();
    bench.objects.claims.apply(claim);
}

/// Returns the writes, without events.
fn writes(bench: &Bench) -> Vec<(String, Value)> {
    let requests = bench.api.requests();
    bench.api.forget();
    let writes = requests.into_iter();
    let writes = writes.filter(|it| it.method != "GET" && !it.path.contains("/events"));
    writes.map(|it| (it.path, it.body)).collect()
}

fn paths(all: &[(String, Value)]) -> Vec<&str> {
    all.iter().map(|(path, _)| path.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_volume_gets_the_properties_of_the_class() {
    let bench = Bench::default();
    start(&bench, DRIVER);
    has_claim(&bench, &json!({}));
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["modify vol-1 to fast"]);
    let all = writes(&bench);
    assert_eq!(paths(&all), [STATUS, VOLUME, STATUS]);
    assert_eq!(all[1].1["spec"]["volumeAttributesClassName"], "gold");
    assert_eq!(
        all[2].1["status"]["currentVolumeAttributesClassName"],
        "gold"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_and_retried() {
    let bench = Bench::default();
    start(&bench, DRIVER);
    bench
        .disks
        .fails("vol-1", CloudError::Unavailable("down".into()));
    has_claim(&bench, &json!({}));
    sleep(Duration::from_millis(500)).await;
    let all = writes(&bench);
    assert_eq!(paths(&all), [STATUS, STATUS]);
    assert_eq!(all[1].1["status"]["conditions"][1]["reason"], "Unavailable");
    wait(5).await;
    assert_eq!(bench.disks.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn other_classes_and_drivers_are_not_touched() {
    let current = json!({"status": {"currentVolumeAttributesClassName": "gold"}});
    let other = json!({"metadata": {"uid": "w"}});
    for (driver, change) in [
        ("other.example", json!({})),
        (DRIVER, current),
        (DRIVER, other),
    ] {
        let bench = Bench::default();
        start(&bench, driver);
        has_claim(&bench, &change);
        wait(10).await;
        assert_eq!(bench.disks.calls(), [""; 0], "{driver} {change}");
        assert!(writes(&bench).is_empty(), "{driver} {change}");
    }
}
