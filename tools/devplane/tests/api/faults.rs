use std::{pin::pin, time::Duration};

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::json;
use skydock_devplane::{Fault, Rule, Verb};
use tokio::time::{Instant, timeout};

use crate::{Stage, config_map, create, is, value};

impl Stage {
    fn suffer(&self, rule: Rule) {
        self.plane
            .faults()
            .set(rule.resource("configmaps"), StdRng::seed_from_u64(1));
    }

    fn met(&self, fault: &str) -> u64 {
        self.plane.faults().met().get(fault).copied().unwrap_or(0)
    }
}

async fn change(maps: &Api<ConfigMap>, value: &str) -> kube::Result<ConfigMap> {
    maps.patch(
        "a",
        &PatchParams::default(),
        &Patch::Merge(json!({"data": {"value": value}})),
    )
    .await
}

#[tokio::test]
async fn a_failed_request_changes_nothing_and_has_a_status() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    create(&maps, config_map("a", "old")).await?;
    for (fault, code, reason) in [
        (Fault::Conflict, 409, "Conflict"),
        (Fault::InternalError, 500, "InternalError"),
    ] {
        stage.suffer(Rule::new(fault).verbs(&[Verb::Patch]).times(1));
        is(change(&maps, "new").await, code, reason)?;
        assert_eq!(value(&maps.get("a").await?), "old");
        change(&maps, "old").await?;
    }
    stage.suffer(Rule::new(Fault::Expired).verbs(&[Verb::List]));
    is(maps.list(&Default::default()).await, 410, "Expired")?;
    stage.plane.faults().clear();
    assert_eq!(maps.list(&Default::default()).await?.items.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_client_retries_after_the_requested_delay() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    create(&maps, config_map("a", "old")).await?;
    stage.suffer(Rule::new(Fault::TooManyRequests { retry_after: 1 }).times(1));
    let start = Instant::now();
    change(&maps, "new").await?;
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    stage.suffer(Rule::new(Fault::ServiceUnavailable).times(1));
    assert_eq!(value(&maps.get("a").await?), "new");
    assert_eq!(
        (
            stage.met("too many requests"),
            stage.met("service unavailable")
        ),
        (1, 1)
    );
    Ok(())
}

#[tokio::test]
async fn a_connection_is_cut_before_or_after_the_change_is_made() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    create(&maps, config_map("a", "old")).await?;
    for (fault, expected) in [(Fault::Cut, "old"), (Fault::AnswerLost, "new")] {
        stage.suffer(Rule::new(fault).verbs(&[Verb::Patch]));
        let error = change(&maps, "new")
            .await
            .err()
            .context("an answer came through")?;
        assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
        assert_eq!(value(&maps.get("a").await?), expected);
    }
    stage.suffer(Rule::new(Fault::AnswerLost).verbs(&[Verb::Delete]));
    maps.delete("a", &DeleteParams::default())
        .await
        .err()
        .context("an answer came through")?;
    assert!(maps.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_silent_request_does_not_block_other_requests() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    create(&maps, config_map("a", "old")).await?;
    stage.suffer(Rule::new(Fault::Silence).verbs(&[Verb::Patch]));
    assert!(
        timeout(Duration::from_millis(300), change(&maps, "new"))
            .await
            .is_err()
    );
    assert_eq!(value(&maps.get("a").await?), "old");
    let late = Duration::from_millis(200);
    stage.suffer(Rule::new(Fault::Slow(late..=late)));
    let start = Instant::now();
    change(&maps, "new").await?;
    assert!(start.elapsed() >= late);
    Ok(())
}

#[tokio::test]
async fn faults_also_affect_a_running_watch() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let soon = Duration::from_millis(500);
    let late = Duration::from_millis(200);
    for fault in [
        Fault::Slow(late..=late),
        Fault::Expired,
        Fault::Cut,
        Fault::Silence,
    ] {
        let map = create(&maps, config_map("a", "old")).await?;
        let version = map.metadata.resource_version.context("no version")?;
        let mut events = pin!(maps.watch(&WatchParams::default(), &version).await?);
        stage.suffer(Rule::new(fault.clone()).verbs(&[Verb::Watch]));
        let start = Instant::now();
        change(&maps, "new").await?;
        let next = timeout(soon, events.try_next()).await;
        match (&fault, next) {
            (Fault::Slow(_), Ok(Ok(Some(WatchEvent::Modified(_))))) => {
                assert!(start.elapsed() >= late);
            }
            (Fault::Expired, Ok(Ok(Some(WatchEvent::Error(status))))) => {
                assert_eq!(status.code, 410);
            }
            (Fault::Cut, Ok(Err(_) | Ok(None))) | (Fault::Silence, Err(_)) => {}
            (fault, other) => anyhow::bail!("{fault:?}: {other:?}"),
        }
        assert_eq!(stage.met(fault.name()), 1, "{fault:?}");
        stage.plane.faults().clear();
        maps.delete("a", &DeleteParams::default()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_bookmarks_of_a_watch_can_be_suppressed() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    for without in [false, true] {
        if without {
            stage.suffer(Rule::new(Fault::NoBookmarks));
        }
        let version = create(&maps, config_map("a", "old"))
            .await?
            .metadata
            .resource_version
            .context("no version")?;
        maps.delete("a", &DeleteParams::default()).await?;
        // A watch sends a bookmark before it ends.
        let watched = maps
            .watch(&WatchParams::default().timeout(1), &version)
            .await?
            .try_collect::<Vec<_>>()
            .await?;
        let bookmarks = watched
            .iter()
            .filter(|event| matches!(event, WatchEvent::Bookmark(_)))
            .count();
        assert_eq!(bookmarks > 0, !without, "{watched:?}");
    }
    Ok(())
}
