use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::{AccessMode, CsiDriver, StorageError, VolumeId};
use skydock_controller_base::testing::{FakeApi, FakeCloud, context, every_error, pairs, with};
use tokio::time::sleep;

use super::*;
use crate::Metrics;

const DRIVER: &str = "disks.example";
const ZONE: &str = "topology.disks.example/zone";
const OBJECT: &str = "/api/v1/persistentvolumes/pv-1";

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: Arc<VolumeLabelController>,
}

/// Returns a running controller.
fn bench() -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    *cloud.driver.lock().unwrap() = Some(CsiDriver {
        name: DRIVER.into(),
        topology_keys: vec![ZONE.into()],
        access_modes: vec![AccessMode::SingleNodeWriter],
        clones: false,
    });
    let metrics = Metrics::register(&mut Registry::default());
    let context = context(&CONTROLLER, &api, cloud.clone(), &metrics.shared);
    let controller = Arc::new(VolumeLabelController::new(context, api.client()));
    tokio::spawn(Arc::clone(&controller).run(CancellationToken::new()));
    Bench {
        api,
        cloud,
        controller,
    }
}

impl Bench {
    /// Adds the PersistentVolume `pv-1` for the volume `vol-1`, with a change.
    fn has(&self, change: &Value) {
        self.has_number(1, change);
    }

    fn has_number(&self, number: usize, change: &Value) {
        let name = format!("pv-{number}");
        let object = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"},
            "spec": {"csi": {"driver": DRIVER, "volumeHandle": format!("vol-{number}")}},
        });
        let object = serde_json::from_value(with(&object, change)).unwrap();
        self.controller.volumes.apply(object);
    }

    fn says(&self, id: &str, answer: Result<Volume, StorageError>) {
        let mut volumes = self.cloud.volumes.lock().unwrap();
        volumes.insert(id.to_owned(), answer);
    }

    fn patches(&self) -> Vec<Value> {
        let requests = self.api.requests();
        let patches = requests
            .into_iter()
            .filter(|it| it.method == "PATCH" && it.path.starts_with("/api/v1/persistentvolumes/"));
        patches.map(|it| it.body).collect()
    }

    /// Returns the messages of the events.
    fn told(&self) -> Vec<String> {
        let events = self.api.events();
        events
            .iter()
            .map(|event| {
                assert_eq!(event["reason"], "VolumeNotLabeled");
                assert_eq!(event["involvedObject"]["kind"], "PersistentVolume");
                event["message"].as_str().unwrap().to_owned()
            })
            .collect()
    }
}

fn volume(id: &str, zones: &[&str]) -> Volume {
    Volume {
        id: VolumeId(id.to_owned()),
        bytes: 1 << 30,
        topology: zones.iter().map(|zone| pairs(&[(ZONE, *zone)])).collect(),
        context: pairs(&[]),
        nodes: Vec::new(),
    }
}

fn affinity(zone: &str) -> Value {
    let requirement = json!({"key": ZONE, "operator": "In", "values": [zone]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
}

async fn wait(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_gets_the_zone_that_the_cloud_says() {
    let bench = bench();
    bench.says("vol-1", Ok(volume("vol-1", &["a"])));
    bench.has(&json!({"metadata": {"labels": {"other": "x"}}}));
    wait(600).await;

    let expected = json!({
        "metadata": {
            "uid": "uid-pv-1", "resourceVersion": "7",
            "labels": {"topology.kubernetes.io/zone": "a"},
        },
        "spec": {"nodeAffinity": affinity("a")},
    });
    assert_eq!(bench.patches(), [expected]);
    assert_eq!(bench.cloud.calls(), ["volumes vol-1"]);
    assert_eq!(bench.told(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_missing_is_written() {
    let label = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}});
    let affine = json!({"spec": {"nodeAffinity": affinity("z")}});
    let other = json!({"spec": {"csi": {"driver": "other.example"}}});
    let provisioned =
        json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}}});
    let identity =
        |labels: Value| json!({"uid": "uid-pv-1", "resourceVersion": "7", "labels": labels});
    for (change, asks, expected) in [
        (
            label.clone(),
            true,
            Some(json!({"metadata": identity(json!({})), "spec": {"nodeAffinity": affinity("a")}})),
        ),
        (
            affine.clone(),
            true,
            Some(json!({"metadata": identity(json!({"topology.kubernetes.io/zone": "a"}))})),
        ),
        (with(&label, &affine), false, None),
        (other, false, None),
        (provisioned, false, None),
    ] {
        let bench = bench();
        bench.says("vol-1", Ok(volume("vol-1", &["a"])));
        bench.has(&change);
        wait(60).await;
        assert_eq!(bench.patches(), Vec::from_iter(expected), "{change}");
        assert_eq!(bench.cloud.calls().len(), usize::from(asks), "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_for_all_nodes_is_not_changed() {
    let bench = bench();
    bench.says("vol-1", Ok(volume("vol-1", &[])));
    bench.has(&json!({}));
    wait(3600).await;
    assert_eq!(bench.cloud.calls(), ["volumes vol-1"]);
    assert!(bench.patches().is_empty());

    bench.controller.recheck();
    wait(1).await;
    assert_eq!(bench.cloud.calls().len(), 2, "another plugin may know more");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_volume_is_reported_until_the_cloud_knows_it() {
    for (error, kind) in [
        (
            CloudError::NotFound("no volume vol-1".into()),
            "not found: no volume vol-1",
        ),
        (
            CloudError::Denied("vol-1 belongs to the cluster other".into()),
            "denied: vol-1 belongs to the cluster other",
        ),
    ] {
        let bench = bench();
        bench.says("vol-1", Err(error.into()));
        bench.has(&json!({}));
        wait(1).await;
        let [told]: [String; 1] = bench.told().try_into().unwrap();
        assert!(
            told.contains("volume vol-1 ") && told.ends_with(kind),
            "{told}"
        );
        assert!(bench.patches().is_empty());

        bench.says("vol-1", Ok(volume("vol-1", &["a"])));
        wait(5).await;
        assert_eq!(bench.patches().len(), 1, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_cloud_writes_nothing() {
    for error in every_error() {
        let bench = bench();
        bench.says("vol-1", Err(error.clone().into()));
        bench.has(&json!({}));
        wait(3600).await;
        assert!(bench.patches().is_empty(), "{error}");
        let is_told = retry::warns(&error) && !retry::is_temporary(&error);
        assert_eq!(bench.told().is_empty(), !is_told, "{error}");

        bench.says("vol-1", Ok(volume("vol-1", &["a"])));
        bench.controller.recheck();
        wait(1).await;
        assert_eq!(bench.patches().len(), 1, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_volume_is_asked_about_less_and_less_often() {
    let bench = bench();
    bench.has(&json!({}));
    wait(10 * 3600).await;
    let calls = bench.cloud.calls().len();
    assert!((20..=30).contains(&calls), "{calls} in ten hours");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_changed_meanwhile_is_checked_again() {
    let bench = bench();
    bench.api.fail("PATCH", OBJECT, 409, "Conflict");
    bench.says("vol-1", Ok(volume("vol-1", &["a"])));
    bench.has(&json!({}));
    wait(60).await;
    assert_eq!(bench.patches().len(), 2, "one was not accepted");
    assert_eq!(bench.cloud.calls(), ["volumes vol-1", "volumes vol-1"]);
}

#[tokio::test(start_paused = true)]
async fn many_volumes_are_asked_about_together() {
    let bench = bench();
    *bench.cloud.max_batch.lock().unwrap() = 100;
    for number in 1..=20 {
        let id = format!("vol-{number}");
        bench.says(&id, Ok(volume(&id, &["a"])));
        bench.has_number(number, &json!({}));
    }
    wait(60).await;
    assert_eq!(bench.patches().len(), 20);
    assert!(bench.cloud.calls().len() <= 2, "{:?}", bench.cloud.calls());
}

#[tokio::test(start_paused = true)]
async fn a_label_that_is_always_removed_is_seldom_added() {
    let bench = bench();
    bench.says("vol-1", Ok(volume("vol-1", &["a"])));
    let version = |number: u32, labels: Value| json!({"metadata": {"resourceVersion": number.to_string(), "labels": labels}});
    for number in 0..150 {
        bench.has(&version(2 * number, json!({})));
        sleep(Duration::from_millis(100)).await;
        bench.has(&version(
            2 * number + 1,
            json!({"topology.kubernetes.io/zone": "a"}),
        ));
        sleep(Duration::from_millis(100)).await;
    }
    let calls = bench.cloud.calls().len();
    assert!((2..=8).contains(&calls), "{calls} in 30 s");
}
