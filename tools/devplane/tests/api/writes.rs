use anyhow::{Result, bail};
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event as CoreEvent, ServiceAccount},
    events::v1::Event,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::{Stage, config_map, create, is, rejected};

#[tokio::test]
async fn only_one_of_several_concurrent_candidates_gets_a_lease() -> Result<()> {
    let stage = Stage::new().await?;
    let leases: Api<Lease> = stage.api();
    let lease = create(
        &leases,
        json!({"metadata": {"name": "leader"}, "spec": {"leaseDurationSeconds": 15}}),
    )
    .await?;
    let attempts = (0..8).map(|index| {
        let (leases, mut lease) = (leases.clone(), lease.clone());
        lease.spec.get_or_insert_default().holder_identity = Some(format!("candidate-{index}"));
        async move {
            leases
                .replace("leader", &PostParams::default(), &lease)
                .await
        }
    });
    let results = futures::future::join_all(attempts).await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    for result in lost {
        is(result, 409, "Conflict")?;
    }
    Ok(())
}

#[tokio::test]
async fn an_event_is_one_object_in_both_of_its_versions() -> Result<()> {
    let stage = Stage::new().await?;
    let (events, core): (Api<Event>, Api<CoreEvent>) = (stage.api(), stage.api());
    create(
        &events,
        json!({
            "metadata": {"name": "e"}, "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "c",
            "reportingInstance": "i", "action": "A", "reason": "R", "type": "Warning", "note": "hello",
            "regarding": {"kind": "Node", "name": "n"},
        }),
    )
    .await?;
    let params = ListParams::default().fields("involvedObject.name=n,type=Warning");
    let found = core.list(&params).await?;
    assert_eq!(
        found
            .items
            .first()
            .and_then(|event| event.message.as_deref()),
        Some("hello")
    );
    assert!(
        core.list(&params.fields("involvedObject.name=other"))
            .await?
            .items
            .is_empty()
    );
    Ok(())
}

#[tokio::test]
async fn a_service_account_gets_tokens_that_expire() -> Result<()> {
    let stage = Stage::new().await?;
    let accounts: Api<ServiceAccount> = stage.api();
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": ["a"], "expirationSeconds": 900}}))?;
    let missing = accounts
        .create_token_request("bot", &PostParams::default(), &request)
        .await;
    is(missing, 404, "NotFound")?;
    create(&accounts, json!({"metadata": {"name": "bot"}})).await?;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let answer = accounts
            .create_token_request("bot", &PostParams::default(), &request)
            .await?;
        let Some(status) = answer.status else {
            bail!("no token")
        };
        let lifetime = status
            .expiration_timestamp
            .0
            .duration_since(jiff::Timestamp::now())
            .as_secs();
        assert!((890..=900).contains(&lifetime), "{lifetime}");
        assert_eq!(answer.spec.audiences, ["a"]);
        tokens.push(status.token);
    }
    assert_ne!(tokens.first(), tokens.last());
    let short: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 599}}))?;
    let result = accounts
        .create_token_request("bot", &PostParams::default(), &short)
        .await;
    assert_eq!(rejected(result.map(|_| ()))?.code, 422);
    Ok(())
}

#[tokio::test]
async fn the_pages_of_a_list_show_one_consistent_version() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    for index in 0..10 {
        create(&maps, config_map(&format!("m{index}"), "0")).await?;
    }
    let mut params = ListParams::default().limit(4);
    let mut names = Vec::new();
    loop {
        let page = maps.list(&params).await?;
        names.extend(page.iter().map(kube::ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
        maps.delete("m9", &kube::api::DeleteParams::default())
            .await
            .ok();
    }
    assert_eq!(
        names,
        (0..10).map(|index| format!("m{index}")).collect::<Vec<_>>()
    );
    stage.plane.compact();
    is(maps.list(&params).await, 410, "Expired")
}

#[tokio::test]
async fn dry_runs_and_generated_names_work_as_in_an_api_server() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let mut map = ConfigMap::default();
    map.metadata.generate_name = Some("a-".to_owned());
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    assert!(maps.create(&dry, &map).await?.name_any().starts_with("a-"));
    assert!(maps.list(&ListParams::default()).await?.items.is_empty());
    let first = maps.create(&PostParams::default(), &map).await?;
    let second = maps.create(&PostParams::default(), &map).await?;
    assert_ne!(first.name_any(), second.name_any());
    Ok(())
}
