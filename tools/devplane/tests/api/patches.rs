use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use skydock_devplane::NodeSpec;

use crate::{Stage, config_map, create, is, rejected};

fn params() -> PatchParams {
    PatchParams::default()
}

fn node(name: &str, taints: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"taints": taints}})
}

#[tokio::test]
async fn a_json_patch_is_applied_completely_or_not_at_all() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    create(
        &maps,
        json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}),
    )
    .await?;
    let patch = |operations: Value| {
        Ok::<_, anyhow::Error>(Patch::<()>::Json(serde_json::from_value(operations)?))
    };
    let changed = maps
        .patch(
            "a",
            &params(),
            &patch(json!([
                {"op": "test", "path": "/data/x", "value": "1"},
                {"op": "replace", "path": "/data/x", "value": "2"},
                {"op": "remove", "path": "/data/y"},
                {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
            ]))?,
        )
        .await?;
    assert_eq!(serde_json::to_value(&changed.data)?, json!({"x": "2"}));
    assert_eq!(changed.labels()["a/b"], "c");
    let failing = json!([
        {"op": "replace", "path": "/data/x", "value": "3"},
        {"op": "test", "path": "/data/x", "value": "1"},
    ]);
    is(
        maps.patch("a", &params(), &patch(failing)?).await,
        422,
        "Invalid",
    )?;
    assert_eq!(maps.get("a").await?, changed, "nothing was changed by half");
    Ok(())
}

#[tokio::test]
async fn merge_patches_replace_lists_and_strategic_ones_merge_by_key() -> Result<()> {
    let stage = Stage::new().await?;
    let services: Api<Service> = stage.api();
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    create(
        &services,
        json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}),
    )
    .await?;
    let port_names = |service: Service| -> Vec<String> {
        let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
        ports.into_iter().filter_map(|port| port.name).collect()
    };
    let patch = json!({"spec": {"ports": [{"port": 81, "name": "c"}]}});
    let merged = services
        .patch("s", &params(), &Patch::Strategic(patch.clone()))
        .await?;
    assert_eq!(port_names(merged), ["a", "c"]);
    let deleting = json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}});
    let merged = services
        .patch("s", &params(), &Patch::Strategic(deleting))
        .await?;
    assert_eq!(port_names(merged), ["c"]);
    let more = json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 82, "name": "d"}]}});
    let merged = services
        .patch("s", &params(), &Patch::Strategic(more))
        .await?;
    assert_eq!(port_names(merged).len(), 3);
    let replaced = services.patch("s", &params(), &Patch::Merge(patch)).await?;
    assert_eq!(port_names(replaced), ["c"]);
    Ok(())
}

#[tokio::test]
async fn taints_are_replaced_as_a_whole_by_any_patch() -> Result<()> {
    let stage = Stage::new().await?;
    let nodes: Api<Node> = stage.cluster();
    let (one, two) = (
        json!([{"key": "a", "effect": "NoSchedule"}]),
        json!([{"key": "b", "effect": "NoSchedule"}]),
    );
    for (name, patch) in [
        (
            "strategic",
            Patch::Strategic(json!({"spec": {"taints": two}})),
        ),
        ("merge", Patch::Merge(json!({"spec": {"taints": two}}))),
    ] {
        create(&nodes, node(name, &one)).await?;
        let patched = nodes.patch(name, &params(), &patch).await?;
        assert_eq!(
            serde_json::to_value(patched.spec.and_then(|spec| spec.taints))?,
            two,
            "{name}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_metadata_patch_returns_only_metadata() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    create(&maps, config_map("a", "0")).await?;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    let answer = maps.patch_metadata("a", &params(), &patch).await?;
    assert_eq!(answer.annotations()["a"], "b");
    assert_eq!(
        answer.types.map(|types| types.kind).as_deref(),
        Some("PartialObjectMetadata")
    );
    Ok(())
}

#[tokio::test]
async fn a_patch_based_on_an_old_version_is_a_conflict() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let first = create(&maps, config_map("a", "0")).await?;
    let body = |value: &str, version: Option<String>| json!({"metadata": {"resourceVersion": version}, "data": {"value": value}});
    let (old, patch) = (first.resource_version(), |body: Value| Patch::Merge(body));
    maps.patch("a", &params(), &patch(body("1", old.clone())))
        .await?;
    is(
        maps.patch("a", &params(), &patch(body("2", old.clone())))
            .await,
        409,
        "Conflict",
    )?;
    is(
        maps.patch("a", &params(), &Patch::Strategic(body("2", old)))
            .await,
        409,
        "Conflict",
    )?;
    is(
        maps.replace("a", &PostParams::default(), &first).await,
        409,
        "Conflict",
    )?;
    assert_eq!(crate::value(&maps.get("a").await?), "1");
    Ok(())
}

/// In a replacement, the UID is a precondition; in a patch, it is a field that cannot be changed.
#[tokio::test]
async fn rejects_a_change_with_the_uid_of_a_previous_object() -> Result<()> {
    let stage = Stage::new().await?;
    let nodes: Api<Node> = stage.cluster();
    let mut gone = create(&nodes, node("a", &json!([]))).await?;
    nodes
        .delete("a", &kube::api::DeleteParams::default())
        .await?;
    create(&nodes, node("a", &json!([]))).await?;
    let uid = gone.uid();
    for body in [
        json!({"metadata": {"uid": uid}, "spec": {"providerID": "a://b"}}),
        json!({"metadata": {"uid": uid, "labels": {"a": "b"}}, "status": {"phase": "Running"}}),
    ] {
        for patch in [Patch::Merge(body.clone()), Patch::Strategic(body.clone())] {
            for result in [
                nodes.patch("a", &params(), &patch).await,
                nodes.patch_status("a", &params(), &patch).await,
            ] {
                let status = rejected(result)?;
                assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
                let causes = status
                    .details
                    .map(|details| details.causes)
                    .unwrap_or_default();
                assert_eq!(
                    causes.first().map(|cause| cause.field.as_str()),
                    Some("metadata.uid")
                );
            }
        }
    }
    is(
        nodes.replace("a", &PostParams::default(), &gone).await,
        409,
        "Conflict",
    )?;
    gone.metadata.resource_version = None;
    is(
        nodes.replace("a", &PostParams::default(), &gone).await,
        409,
        "Conflict",
    )?;
    Ok(())
}

#[tokio::test]
async fn status_and_spec_are_patched_separately() -> Result<()> {
    let stage = Stage::new().await?;
    let services: Api<Service> = stage.api();
    let created = json!({
        "metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    });
    let ingress = |service: &Service| {
        let status = service
            .status
            .as_ref()
            .and_then(|status| status.load_balancer.as_ref());
        status
            .and_then(|balancer| balancer.ingress.clone())
            .unwrap_or_default()
            .len()
    };
    let service = create(&services, created).await?;
    assert_eq!(
        ingress(&service),
        0,
        "a Service is created without a status"
    );
    let both = Patch::Merge(json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"externalName": "x", "sessionAffinity": "ClientIP"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    }));
    let service = services.patch_status("s", &params(), &both).await?;
    assert_eq!(ingress(&service), 1);
    assert_eq!(service.labels()["a"], "b", "metadata goes with either");
    let affinity = |service: &Service| {
        service
            .spec
            .as_ref()
            .and_then(|spec| spec.session_affinity.clone())
    };
    assert_eq!(affinity(&service).as_deref(), Some("None"));
    let other = Patch::Merge(
        json!({"spec": {"sessionAffinity": "ClientIP"}, "status": {"loadBalancer": null}}),
    );
    let service = services.patch("s", &params(), &other).await?;
    assert_eq!(
        (ingress(&service), affinity(&service).as_deref()),
        (1, Some("ClientIP"))
    );
    Ok(())
}

#[tokio::test]
async fn a_provider_id_cannot_be_changed_or_cleared() -> Result<()> {
    let stage = Stage::new().await?;
    stage
        .plane
        .kubelets()
        .register(NodeSpec::new("a", "10.0.0.1".parse()?))?;
    let nodes: Api<Node> = stage.cluster();
    let with = |id: &str| Patch::Strategic(json!({"spec": {"providerID": id}}));
    nodes.patch("a", &params(), &with("cloud://1")).await?;
    nodes.patch("a", &params(), &with("cloud://1")).await?;
    for id in ["cloud://2", ""] {
        let status = rejected(nodes.patch("a", &params(), &with(id)).await)?;
        assert_eq!(
            (status.code, status.reason.as_str()),
            (422, "Invalid"),
            "{id:?}"
        );
        assert!(
            status.message.contains("spec.providerID"),
            "{}",
            status.message
        );
    }
    assert_eq!(
        nodes
            .get("a")
            .await?
            .spec
            .and_then(|spec| spec.provider_id)
            .as_deref(),
        Some("cloud://1")
    );
    Ok(())
}
