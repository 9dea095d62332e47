use std::{pin::pin, time::Duration};

use anyhow::{Result, bail};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams},
};
use serde_json::json;

use crate::{Stage, config_map, create, is};

fn only_if(uid: Option<String>, resource_version: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version,
        }),
        ..DeleteParams::default()
    }
}

#[tokio::test]
async fn a_deletion_with_wrong_preconditions_is_a_conflict() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let map = create(&maps, config_map("a", "0")).await?;
    is(
        maps.delete("a", &only_if(Some("other".into()), None)).await,
        409,
        "Conflict",
    )?;
    is(
        maps.delete("a", &only_if(map.uid(), Some("1".into())))
            .await,
        409,
        "Conflict",
    )?;
    assert!(maps.get_opt("a").await?.is_some());
    maps.delete("a", &only_if(map.uid(), map.resource_version()))
        .await?;
    is(
        maps.delete("a", &DeleteParams::default()).await,
        404,
        "NotFound",
    )
}

/// Like an API server: if a client sets `dryRun` in the query and sends a body, the object is
/// deleted.
#[tokio::test]
async fn a_deletion_body_overrides_the_options_in_the_query() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    for (query, body, code, goes) in [
        ("?dryRun=All", "", 200, false),
        ("?dryRun=All", "{}", 200, true),
        ("", r#"{"dryRun":["All"]}"#, 200, false),
        ("", r#"{"dryRun":["None"]}"#, 422, false),
        ("?uid=other", "", 409, false),
        ("?uid=other", "{}", 200, true),
        ("?resourceVersion=1", "", 409, false),
        ("", "", 200, true),
    ] {
        if maps.get_opt("a").await?.is_none() {
            create(&maps, config_map("a", "0")).await?;
        }
        let path = format!("/api/v1/namespaces/default/configmaps/a{query}");
        let (answered, answer) = stage
            .send("DELETE", &path, "application/json", body)
            .await?;
        assert_eq!(answered, code, "{query} {body}: {answer}");
        assert_eq!(maps.get_opt("a").await?.is_none(), goes, "{query} {body}");
    }
    Ok(())
}

#[tokio::test]
async fn removing_the_last_finalizer_deletes_the_object() -> Result<()> {
    let stage = Stage::new().await?;
    let services: Api<Service> = stage.api();
    let finalizers = ["example.com/a", "example.com/b"];
    let body = json!({"metadata": {"name": "s", "finalizers": finalizers}, "spec": {"ports": [{"port": 80}]}});
    let created = create(&services, body).await?;
    let mut events = pin!(
        services
            .watch(
                &WatchParams::default(),
                &created.resource_version().unwrap_or_default()
            )
            .await?
    );
    let marked = services.delete("s", &DeleteParams::default()).await?.left();
    assert!(marked.is_some_and(|service| service.metadata.deletion_timestamp.is_some()));
    services.delete("s", &DeleteParams::default()).await?;
    let set = |finalizers: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let added = services
        .patch(
            "s",
            &PatchParams::default(),
            &set(&["example.com/a", "example.com/c"]),
        )
        .await;
    is(added, 422, "Invalid")?;
    services
        .patch("s", &PatchParams::default(), &set(&["example.com/b"]))
        .await?;
    services
        .patch_status("s", &PatchParams::default(), &set(&[]))
        .await?;
    assert!(services.get_opt("s").await?.is_none());
    let mut told = Vec::new();
    while let Some(event) =
        tokio::time::timeout(Duration::from_secs(10), events.try_next()).await??
    {
        match event {
            WatchEvent::Modified(service) => told.push(service.finalizers().len()),
            WatchEvent::Deleted(_) => break,
            other => bail!("unexpected: {other:?}"),
        }
    }
    assert_eq!(
        told,
        [2, 1],
        "marked once, and one finalizer less; the last one goes with the object"
    );
    Ok(())
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector_within_its_namespace() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let elsewhere: Api<ConfigMap> = Api::namespaced(stage.client.clone(), "kube-public");
    for (api, name, color) in [
        (&maps, "a", "red"),
        (&maps, "b", "red"),
        (&maps, "c", "blue"),
        (&elsewhere, "a", "red"),
    ] {
        create(
            api,
            json!({"metadata": {"name": name, "labels": {"color": color}}}),
        )
        .await?;
    }
    let deleted = maps
        .delete_collection(
            &DeleteParams::default(),
            &ListParams::default().labels("color=red"),
        )
        .await?;
    assert_eq!(deleted.left().map(|list| list.items.len()), Some(2));
    let all: Api<ConfigMap> = stage.cluster();
    let left: Vec<_> = all
        .list(&ListParams::default())
        .await?
        .iter()
        .map(kube::ResourceExt::name_any)
        .collect();
    assert_eq!(left, ["c", "a"]);
    Ok(())
}

#[tokio::test]
async fn a_terminating_namespace_waits_for_its_content() -> Result<()> {
    let stage = Stage::new().await?;
    let namespaces: Api<Namespace> = stage.cluster();
    create(&namespaces, json!({"metadata": {"name": "shop"}})).await?;
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), "shop");
    create(&maps, config_map("plain", "0")).await?;
    create(
        &maps,
        json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}),
    )
    .await?;
    let terminating = namespaces
        .delete("shop", &DeleteParams::default())
        .await?
        .left();
    let phase = terminating.and_then(|namespace| namespace.status?.phase);
    assert_eq!(phase.as_deref(), Some("Terminating"));
    assert!(maps.get_opt("plain").await?.is_none());
    is(create_kube(&maps, "late").await, 403, "Forbidden")?;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await?;
    assert!(namespaces.get_opt("shop").await?.is_none());
    is(create_kube(&maps, "late").await, 404, "NotFound")?;
    is(
        namespaces
            .delete("kube-system", &DeleteParams::default())
            .await,
        403,
        "Forbidden",
    )
}

async fn create_kube(maps: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    maps.create(&kube::api::PostParams::default(), &map).await
}
