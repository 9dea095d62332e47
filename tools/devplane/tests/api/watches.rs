use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::{Result, bail};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::json;
use skydock_devplane::NodeSpec;
use tokio::time::timeout;

use crate::{Stage, config_map, create, value};

const PATIENCE: Duration = Duration::from_secs(20);

/// A copy of the objects that a watcher maintains.
#[derive(Default)]
struct Mirror {
    objects: BTreeMap<String, String>,
    /// Number of complete lists.
    lists: u32,
    /// Names and values, in the order of their arrival.
    seen: Vec<(String, String)>,
}

impl Mirror {
    /// Reads events until `done` returns true, or until a timeout.
    async fn follow(
        &mut self,
        events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<()> {
        let mut fresh = BTreeMap::new();
        let follow = async {
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => fresh.clear(),
                    Ok(Event::InitApply(map)) => {
                        drop(fresh.insert(map.name_any(), value(&map).to_owned()));
                    }
                    Ok(Event::InitDone) => {
                        self.objects = std::mem::take(&mut fresh);
                        self.lists += 1;
                    }
                    Ok(Event::Apply(map)) => {
                        self.seen.push((map.name_any(), value(&map).to_owned()));
                        self.objects.insert(map.name_any(), value(&map).to_owned());
                    }
                    Ok(Event::Delete(map)) => {
                        self.seen.push((map.name_any(), "deleted".to_owned()));
                        self.objects.remove(&map.name_any());
                    }
                    // The watcher retries by itself.
                    Err(_) => {}
                }
                if done(self) {
                    return Ok(());
                }
            }
            bail!("the watcher ended")
        };
        timeout(PATIENCE, follow).await?
    }
}

async fn change(maps: &Api<ConfigMap>, name: &str, value: &str) -> Result<()> {
    let patch = json!({"data": {"value": value}});
    maps.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_watcher_resumes_after_its_watch_was_cut() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    create(&maps, config_map("a", "0")).await?;
    let mut events = pin!(watcher(maps.clone(), watcher::Config::default()));
    let mut mirror = Mirror::default();
    mirror
        .follow(&mut events, |mirror| mirror.lists == 1)
        .await?;
    let mut expected = Vec::new();
    for round in 1..=5 {
        for (step, cut) in [false, true, false].into_iter().enumerate() {
            let value = format!("{round}-{step}");
            change(&maps, "a", &value).await?;
            expected.push(("a".to_owned(), value));
            if cut {
                stage.plane.cut_watches();
            }
        }
        create(&maps, config_map("b", "0")).await?;
        maps.delete("b", &DeleteParams::default()).await?;
        expected.extend([
            ("b".to_owned(), "0".to_owned()),
            ("b".to_owned(), "deleted".to_owned()),
        ]);
        mirror
            .follow(&mut events, |mirror| mirror.seen.len() == expected.len())
            .await?;
    }
    assert_eq!(mirror.seen, expected);
    assert_eq!(mirror.lists, 1, "it never had to list again");
    Ok(())
}

#[tokio::test]
async fn a_watcher_lists_again_if_its_revision_is_compacted() -> Result<()> {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let stage = Stage::new().await?;
        let maps: Api<ConfigMap> = stage.api();
        for name in ["changed", "deleted", "kept"] {
            create(&maps, config_map(name, "0")).await?;
        }
        let mut events = pin!(watcher(maps.clone(), config));
        let mut mirror = Mirror::default();
        mirror
            .follow(&mut events, |mirror| mirror.lists == 1)
            .await?;
        assert_eq!(mirror.objects.len(), 3);
        stage.plane.cut_watches();
        change(&maps, "changed", "1").await?;
        maps.delete("deleted", &DeleteParams::default()).await?;
        create(&maps, config_map("new", "1")).await?;
        stage.plane.compact();
        mirror
            .follow(&mut events, |mirror| mirror.lists == 2)
            .await?;
        change(&maps, "kept", "2").await?;
        mirror
            .follow(&mut events, |mirror| {
                mirror.objects.get("kept").is_some_and(|value| value == "2")
            })
            .await?;
        let expected = [("changed", "1"), ("kept", "2"), ("new", "1")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(mirror.objects, BTreeMap::from(expected));
        assert_eq!(mirror.lists, 2);
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_from_a_compacted_revision_gets_410() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let first = create(&maps, config_map("a", "0"))
        .await?
        .resource_version()
        .unwrap_or_default();
    change(&maps, "a", "1").await?;
    stage.plane.compact();
    let events: Vec<_> = maps
        .watch(&WatchParams::default(), &first)
        .await?
        .try_collect()
        .await?;
    match events.as_slice() {
        [WatchEvent::Error(status)] => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        }
        other => bail!("expected one error, found {other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_that_times_out_ends_with_a_bookmark() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let created = create(&maps, config_map("a", "0"))
        .await?
        .resource_version()
        .unwrap_or_default();
    create(&maps, config_map("b", "0")).await?;
    let params = WatchParams::default().timeout(1).fields("metadata.name=b");
    let events: Vec<_> = maps.watch(&params, &created).await?.try_collect().await?;
    match events.as_slice() {
        [WatchEvent::Added(map), WatchEvent::Bookmark(bookmark)] => {
            assert_eq!(map.name_any(), "b");
            let (b, far) = (
                map.resource_version().unwrap_or_default(),
                &bookmark.metadata.resource_version,
            );
            assert!(far.parse::<u64>()? >= b.parse()?, "{far} is before {b}");
        }
        other => bail!("expected b and a bookmark, found {other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn a_selector_watch_adds_and_deletes_as_labels_change() -> Result<()> {
    let stage = Stage::new().await?;
    let nodes: Api<Node> = stage.cluster();
    let kubelets = stage.plane.kubelets();
    kubelets.register(NodeSpec::new("a", "10.0.0.1".parse()?))?;
    let mut events = pin!(
        nodes
            .watch(
                &WatchParams {
                    bookmarks: false,
                    ..WatchParams::default().labels("zone=x")
                },
                "0"
            )
            .await?
    );
    for (zone, expected) in [
        (json!("x"), "Added"),
        (json!("y"), "Deleted"),
        (json!("x"), "Added"),
    ] {
        let patch = json!({"metadata": {"labels": {"zone": zone}}});
        nodes
            .patch("a", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        let Some(event) = timeout(PATIENCE, events.try_next()).await?? else {
            bail!("the watch ended")
        };
        assert_eq!(format!("{event:?}"), format!("{expected} event"));
    }
    Ok(())
}
