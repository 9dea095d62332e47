//! The requests of the node and lifecycle controllers to Nodes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::FutureExt;
use serde_json::{Value, json};
use skydock_clusters::{NodeSpec, Plane};
use skydock_support::kubernetes::UNINITIALIZED;

use super::http::{
    JSON_PATCH, MERGE, STRATEGIC, Scenario, delete, expect, get, only_if_uid, patch,
    patch_for_metadata, post,
};

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("a patch with the right UID sets the provider ID", |plane| {
        right_uid(plane).boxed()
    }),
    (
        "a patch with the UID of a namesake is rejected, and is a conflict if it names a version",
        |plane| wrong_uid(plane).boxed(),
    ),
    ("a provider ID never changes once it is set", |plane| {
        fixed_provider_id(plane).boxed()
    }),
    ("Pod CIDRs never change once they are set", |plane| {
        fixed_pod_cidrs(plane).boxed()
    }),
    (
        "taints are one value: no patch removes one of them by key",
        |plane| atomic_taints(plane).boxed(),
    ),
    (
        "taints replaced under a resource version are a conflict if the node changed",
        |plane| guarded(plane).boxed(),
    ),
    (
        "a JSON patch that tests a taint removes that taint or nothing",
        |plane| tested(plane).boxed(),
    ),
    (
        "a status patch replaces addresses, and only metadata is answered",
        |plane| addresses(plane).boxed(),
    ),
    ("a status patch changes labels but not the spec", |plane| {
        status_only(plane).boxed()
    }),
    (
        "a live kubelet leaves the cloud's addresses alone",
        |plane| live_kubelet(plane).boxed(),
    ),
    (
        "a patch that changes nothing leaves the resource version",
        |plane| no_change(plane).boxed(),
    ),
    (
        "a deletion with another UID is a conflict, with the right one it works",
        |plane| deletion(plane).boxed(),
    ),
];

fn path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// Creates a Ready node whose taint for uninitialized nodes is between two others.
async fn create(plane: &dyn Plane, name: &str) -> Result<Value> {
    let now = "2026-01-01T00:00:00Z";
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": [
            {"key": "example.com/first", "effect": "NoSchedule"},
            {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
            {"key": "example.com/last", "value": "x", "effect": "NoExecute"},
        ]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now},
        ]},
    });
    post(plane, "/api/v1/nodes", node).await?.ok()
}

/// Returns the keys of the test's taints: Kubernetes' node lifecycle controller adds and removes
/// its own at any time.
fn taints(node: &Value) -> Vec<&str> {
    let all = node["spec"]["taints"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    all.iter()
        .filter_map(|taint| taint["key"].as_str())
        .filter(|key| !key.starts_with("node.kubernetes.io/"))
        .collect()
}

async fn right_uid(plane: &dyn Plane) -> Result<()> {
    let node = create(plane, "right-uid").await?;
    let body = json!({
        "metadata": {"uid": node["metadata"]["uid"], "labels": {"example.com/zone": "a"}},
        "spec": {"providerID": "x://y"},
    });
    let node = patch(plane, &path("right-uid"), STRATEGIC, body)
        .await?
        .ok()?;
    expect("providerID", &node["spec"]["providerID"], json!("x://y"))?;
    expect(
        "the label",
        &node["metadata"]["labels"]["example.com/zone"],
        json!("a"),
    )?;
    ensure!(
        taints(&node).len() == 3,
        "taints changed: {}",
        node["spec"]["taints"]
    );
    Ok(())
}

/// A wrong UID alone is not a conflict: Kubernetes reports a change of an immutable field. It is a
/// conflict together with the resource version, which the other node with this name does not have
/// either.
async fn wrong_uid(plane: &dyn Plane) -> Result<()> {
    let mut node = create(plane, "wrong-uid").await?;
    let version = node["metadata"]["resourceVersion"].take();
    delete(plane, &path("wrong-uid"), Value::Null).await?.ok()?;
    create(plane, "wrong-uid").await?;
    let (uid, object, status) = (
        &node["metadata"]["uid"],
        path("wrong-uid"),
        format!("{}/status", path("wrong-uid")),
    );
    let address = json!([{"type": "InternalIP", "address": "10.0.0.7"}]);
    for kind in [STRATEGIC, MERGE] {
        for path in [&object, &status] {
            let body = json!({
                "metadata": only_if_uid(uid), "spec": {"providerID": "x://y"}, "status": {"addresses": address},
            });
            let rejected = patch(plane, path, kind, body.clone())
                .await?
                .rejected(422, "Invalid")?;
            expect(
                "the field",
                &rejected.body["details"]["causes"][0]["field"],
                json!("metadata.uid"),
            )?;

            let mut body = body;
            body["metadata"]["resourceVersion"] = version.clone();
            patch(plane, path, kind, body)
                .await?
                .rejected(409, "Conflict")?;
        }
    }
    let node = get(plane, &object).await?.ok()?;
    expect("providerID", &node["spec"]["providerID"], Value::Null)?;
    expect("addresses", &node["status"]["addresses"], Value::Null)
}

async fn fixed_provider_id(plane: &dyn Plane) -> Result<()> {
    create(plane, "fixed").await?;
    let set = |id: &str| json!({"spec": {"providerID": id}});
    patch(plane, &path("fixed"), MERGE, set("x://y"))
        .await?
        .ok()?;
    patch(plane, &path("fixed"), MERGE, set("x://y"))
        .await?
        .ok()?;
    for other in ["x://z", ""] {
        patch(plane, &path("fixed"), MERGE, set(other))
            .await?
            .rejected(422, "Invalid")?;
    }
    Ok(())
}

async fn fixed_pod_cidrs(plane: &dyn Plane) -> Result<()> {
    create(plane, "pod-cidrs").await?;
    let set = |cidrs: &[&str]| json!({"spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs}});
    let both = ["10.244.7.0/24", "fd00:0:0:7::/64"];
    let node = patch(plane, &path("pod-cidrs"), MERGE, set(&both))
        .await?
        .ok()?;
    expect("podCIDRs", &node["spec"]["podCIDRs"], json!(both))?;
    patch(plane, &path("pod-cidrs"), MERGE, set(&both))
        .await?
        .ok()?;
    for other in [
        &["10.244.8.0/24", "fd00:0:0:7::/64"][..],
        &["10.244.7.0/24"],
    ] {
        let rejected = patch(plane, &path("pod-cidrs"), MERGE, set(other))
            .await?
            .rejected(422, "Invalid")?;
        for cause in rejected.body["details"]["causes"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
        {
            expect("the field", &cause["field"], json!("spec.podCIDRs"))?;
        }
    }
    let node = get(plane, &path("pod-cidrs")).await?.ok()?;
    expect("podCIDRs", &node["spec"]["podCIDRs"], json!(both))
}

async fn atomic_taints(plane: &dyn Plane) -> Result<()> {
    create(plane, "atomic").await?;
    let body = json!({"spec": {"providerID": "x://y", "taints": [{"$patch": "delete", "key": UNINITIALIZED}]}});
    patch(plane, &path("atomic"), STRATEGIC, body)
        .await?
        .rejected(422, "Invalid")?;
    let node = get(plane, &path("atomic")).await?.ok()?;
    ensure!(
        taints(&node).len() == 3,
        "taints changed: {}",
        node["spec"]["taints"]
    );
    expect("providerID", &node["spec"]["providerID"], Value::Null)?;

    let body = json!({"spec": {"taints": [{"key": "example.com/only", "effect": "NoSchedule"}]}});
    let node = patch(plane, &path("atomic"), STRATEGIC, body).await?.ok()?;
    ensure!(
        taints(&node) == ["example.com/only"],
        "taints were merged: {}",
        node["spec"]["taints"]
    );
    Ok(())
}

async fn guarded(plane: &dyn Plane) -> Result<()> {
    let stale = create(plane, "guarded").await?;
    let touch = json!({"metadata": {"labels": {"example.com/touched": "yes"}}});
    patch(plane, &path("guarded"), MERGE, touch).await?.ok()?;
    patch(
        plane,
        &path("guarded"),
        STRATEGIC,
        without_uninitialized(&stale),
    )
    .await?
    .rejected(409, "Conflict")?;

    // Kubernetes' own controllers write to the node too, so the fresh version may be outdated once
    // or twice.
    for _ in 0..5 {
        let fresh = get(plane, &path("guarded")).await?.ok()?;
        let answer = patch(
            plane,
            &path("guarded"),
            STRATEGIC,
            without_uninitialized(&fresh),
        )
        .await?;
        if answer.status != 409 {
            let node = answer.ok()?;
            ensure!(
                taints(&node) == ["example.com/first", "example.com/last"],
                "{}",
                node["spec"]["taints"]
            );
            return expect("providerID", &node["spec"]["providerID"], json!("x://y"));
        }
    }
    anyhow::bail!("a conflict each time")
}

/// Returns the patch that initializes a node in one step: all taints except one, with the version
/// that they were read from.
fn without_uninitialized(node: &Value) -> Value {
    let mut kept = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    kept.retain(|taint| taint["key"] != UNINITIALIZED);
    json!({
        "metadata": {"uid": node["metadata"]["uid"], "resourceVersion": node["metadata"]["resourceVersion"]},
        "spec": {"providerID": "x://y", "taints": kept},
    })
}

async fn tested(plane: &dyn Plane) -> Result<()> {
    let node = create(plane, "tested").await?;
    let remove = |index: usize, uid: &Value| {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": format!("/spec/taints/{index}/key"), "value": UNINITIALIZED},
            {"op": "remove", "path": format!("/spec/taints/{index}")},
        ])
    };
    let uid = &node["metadata"]["uid"];
    patch(plane, &path("tested"), JSON_PATCH, remove(0, uid))
        .await?
        .rejected(422, "Invalid")?;
    patch(
        plane,
        &path("tested"),
        JSON_PATCH,
        remove(1, &json!("other")),
    )
    .await?
    .rejected(422, "Invalid")?;
    let before = get(plane, &path("tested")).await?.ok()?;
    let index = before["spec"]["taints"]
        .as_array()
        .and_then(|taints| {
            taints
                .iter()
                .position(|taint| taint["key"] == UNINITIALIZED)
        })
        .unwrap_or_default();
    let after = patch(plane, &path("tested"), JSON_PATCH, remove(index, uid))
        .await?
        .ok()?;
    ensure!(
        taints(&after) == ["example.com/first", "example.com/last"],
        "{}",
        after["spec"]["taints"]
    );
    Ok(())
}

/// Returns addresses as from a cloud: two of one type, which a strategic merge would mix up because
/// it uses the type as key.
fn cloud_addresses() -> Value {
    json!([
        {"type": "InternalIP", "address": "10.0.0.7"},
        {"type": "InternalIP", "address": "fd00::7"},
        {"type": "ExternalIP", "address": "198.51.100.7"},
        {"type": "Hostname", "address": "from-the-cloud"},
    ])
}

async fn addresses(plane: &dyn Plane) -> Result<()> {
    create(plane, "addresses").await?;
    let status = format!("{}/status", path("addresses"));
    for addresses in [
        cloud_addresses(),
        json!([{"type": "InternalIP", "address": "10.0.0.8"}]),
    ] {
        let body = json!({"status": {"addresses": addresses}});
        let answer = patch_for_metadata(plane, &status, MERGE, body)
            .await?
            .ok()?;
        expect("kind", &answer["kind"], json!("PartialObjectMetadata"))?;
        expect("apiVersion", &answer["apiVersion"], json!("meta.k8s.io/v1"))?;
        expect("name", &answer["metadata"]["name"], json!("addresses"))?;
        ensure!(
            answer.get("status").is_none() && answer.get("spec").is_none(),
            "more than metadata: {answer}"
        );
        let node = get(plane, &path("addresses")).await?.ok()?;
        expect("addresses", &node["status"]["addresses"], addresses)?;
        ensure!(
            !node["status"]["conditions"].is_null(),
            "the conditions are gone"
        );
    }
    Ok(())
}

async fn status_only(plane: &dyn Plane) -> Result<()> {
    create(plane, "status-only").await?;
    let body = json!({
        "metadata": {"labels": {"example.com/zone": "a"}},
        "spec": {"providerID": "x://y"},
        "status": {"addresses": cloud_addresses()},
    });
    let node = patch(
        plane,
        &format!("{}/status", path("status-only")),
        MERGE,
        body,
    )
    .await?
    .ok()?;
    expect("providerID", &node["spec"]["providerID"], Value::Null)?;
    expect(
        "the label",
        &node["metadata"]["labels"]["example.com/zone"],
        json!("a"),
    )?;

    let body = json!({"status": {"addresses": []}});
    let node = patch(plane, &path("status-only"), MERGE, body)
        .await?
        .ok()?;
    expect("addresses", &node["status"]["addresses"], cloud_addresses())
}

async fn live_kubelet(plane: &dyn Plane) -> Result<()> {
    plane.start_node(&NodeSpec::new("live")).await?;
    heartbeat_other_than(plane, &Value::Null).await?;
    let body = json!({"status": {"addresses": cloud_addresses()}});
    patch(plane, &format!("{}/status", path("live")), MERGE, body)
        .await?
        .ok()?;

    // A kubelet writes its complete status when it starts, and then writes an unchanged status only
    // after minutes.
    plane.stop_node("live").await?;
    let before = get(plane, &path("live")).await?.ok()?;
    tokio::time::sleep(Duration::from_secs(1)).await; // heartbeats have a resolution of one second
    plane.start_node(&NodeSpec::new("live")).await?;
    heartbeat_other_than(plane, ready(&before)).await?;
    let node = get(plane, &path("live")).await?.ok()?;
    expect("addresses", &node["status"]["addresses"], cloud_addresses())?;
    plane.stop_node("live").await?;
    Ok(())
}

/// Returns the time of the last heartbeat of a Ready node.
fn ready(node: &Value) -> &Value {
    let conditions = node["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready.map_or(&Value::Null, |condition| &condition["lastHeartbeatTime"])
}

async fn heartbeat_other_than(plane: &dyn Plane, last: &Value) -> Result<()> {
    let began = Instant::now();
    loop {
        let node = get(plane, &path("live")).await?.ok()?;
        if !ready(&node).is_null() && ready(&node) != last {
            return Ok(());
        }
        ensure!(
            began.elapsed() < Duration::from_secs(60),
            "no new heartbeat: {}",
            node["status"]["conditions"]
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn no_change(plane: &dyn Plane) -> Result<()> {
    create(plane, "no-change").await?;
    let body = json!({"metadata": {"labels": {"example.com/zone": "a"}}});
    let first = patch(plane, &path("no-change"), MERGE, body.clone())
        .await?
        .ok()?;
    // If another writer changes the node in between, the next pair is compared.
    let mut before = first;
    for _ in 0..5 {
        let after = patch(plane, &path("no-change"), MERGE, body.clone())
            .await?
            .ok()?;
        if after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"] {
            return Ok(());
        }
        before = after;
    }
    anyhow::bail!("the resource version grew each time")
}

async fn deletion(plane: &dyn Plane) -> Result<()> {
    let node = create(plane, "doomed").await?;
    let only_if = |uid: &Value| json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    let other = json!("00000000-0000-0000-0000-000000000000");
    delete(plane, &path("doomed"), only_if(&other))
        .await?
        .rejected(409, "Conflict")?;
    delete(plane, &path("doomed"), only_if(&node["metadata"]["uid"]))
        .await?
        .ok()?;
    get(plane, &path("doomed"))
        .await?
        .rejected(404, "NotFound")?;
    let body =
        json!({"metadata": only_if_uid(&node["metadata"]["uid"]), "spec": {"providerID": "x://y"}});
    patch(plane, &path("doomed"), STRATEGIC, body)
        .await?
        .rejected(404, "NotFound")?;
    Ok(())
}
