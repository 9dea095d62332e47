//! Zone labels and node affinity of PersistentVolumes that people create.

use k8s_openapi::api::core::v1::{Event, PersistentVolume};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::Hosts;
use skydock_simcloud::Simcloud;
use skydock_support::{Seen, eventually};

use crate::{DRIVER, KEY, SOON, cloud, start};

const LABEL: &str = "topology.kubernetes.io/zone";

/// Creates a volume in a zone, and returns its ID.
fn volume(cloud: &Simcloud, name: &str, labels: &Value) -> String {
    let new = json!({"name": name, "size_gib": 1, "zone": "zone-b", "labels": labels});
    let (status, created) = cloud.request("POST", "/v1/volumes", &new);
    assert_eq!(status, 201, "{created}");
    created["id"].as_str().unwrap().to_owned()
}

/// Returns a node affinity for a zone.
fn affinity(zone: &str) -> Value {
    let requirement = json!({"key": KEY, "operator": "In", "values": [zone]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
}

/// Returns a PersistentVolume for a volume, as people write it.
fn hand_made(name: &str, handle: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": DRIVER, "volumeHandle": handle},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn people_need_not_write_the_zone_of_a_volume() {
    let (cloud, plane) = (cloud(), RealPlane::start_without_controllers().await);
    let plane = plane.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(plane.client());
    let create = async |object: Value| {
        let object = serde_json::from_value(object).unwrap();
        let created = volumes.create(&PostParams::default(), &object).await;
        created.unwrap()
    };

    let ours = volume(&cloud, "ours", &json!({}));
    let foreign = volume(&cloud, "foreign", &json!({"cluster": "another"}));
    let mut complete = hand_made("complete", &ours);
    complete["metadata"]["labels"] = json!({LABEL: "zone-c"});
    complete["spec"]["nodeAffinity"] = affinity("zone-c");
    let complete = create(complete).await;
    create(hand_made("plain", &ours)).await;
    create(hand_made("foreign", &foreign)).await;
    create(hand_made("gone", "vol-999")).await;
    let (_hosts, host) = start(&cloud, &plane, &["--controllers=pvlabel"]).await;

    let labeled = eventually(SOON, || async {
        let found = volumes.get("plain").await?;
        let zone = found.labels().get(LABEL).cloned();
        let spec = serde_json::to_value(&found.spec)?;
        let is_complete =
            zone.as_deref() == Some("zone-b") && spec["nodeAffinity"] == affinity("zone-b");
        Ok(Seen::when(is_complete, format!("{zone:?} {spec}")))
    });
    labeled.await.unwrap();

    let events: Api<Event> = Api::all(plane.client());
    for name in ["foreign", "gone"] {
        let params = ListParams::default().fields(&format!(
            "involvedObject.name={name},reason=VolumeNotLabeled"
        ));
        let told = eventually(SOON, || async {
            let found = events.list(&params).await?.items;
            Ok(Seen::when(!found.is_empty(), "no event"))
        });
        told.await.unwrap();
    }

    let after = volumes.get("complete").await.unwrap();
    assert_eq!(after.resource_version(), complete.resource_version());
    Hosts::stop(host).await.unwrap();
}
