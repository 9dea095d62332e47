use std::{error::Error as _, pin::pin, time::Duration};

use anyhow::{Result, bail};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use kube::{
    Api, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use serde_json::json;
use skydock_devplane::{DevPlane, NodeSpec, Options, StartError, StateFileError};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{Stage, config_map, create, value};

fn keep_in(folder: &tempfile::TempDir) -> Options {
    Options {
        state_file: Some(folder.path().join("cluster/state.json")),
        ..Options::default()
    }
}

#[tokio::test]
async fn a_cluster_survives_a_restart() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let first = Stage::with(keep_in(&folder)).await?;
    let maps: Api<ConfigMap> = first.api();
    let map = create(&maps, config_map("a", "1")).await?;
    let service = create(
        &first.api::<Service>(),
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
    )
    .await?;
    first
        .plane
        .kubelets()
        .register(NodeSpec::new("n", "10.0.0.1".parse()?))?;
    first.plane.shutdown().await;

    let second = Stage::with(keep_in(&folder)).await?;
    let maps: Api<ConfigMap> = second.api();
    assert_eq!(maps.get("a").await?, map);
    assert_eq!(second.api::<Service>().get("s").await?, service);
    assert!(second.cluster::<Node>().get_opt("n").await?.is_some());
    let version = |map: &ConfigMap| map.resource_version().unwrap_or_default().parse::<u64>();
    let later = create(&maps, config_map("c", "1")).await?;
    assert!(version(&later)? > version(&map)?);
    let old = map.resource_version().unwrap_or_default();
    let mut events = pin!(maps.watch(&WatchParams::default(), &old).await?);
    match events.try_next().await? {
        Some(WatchEvent::Error(status)) => assert_eq!(status.code, 410, "the history is not kept"),
        other => bail!("expected 410, found {other:?}"),
    }
    second
        .plane
        .kubelets()
        .register(NodeSpec::new("n", "10.0.0.1".parse()?))?;
    Ok(())
}

#[tokio::test]
async fn writes_reach_the_file_soon_and_survive_a_drop() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let stage = Stage::with(keep_in(&folder)).await?;
    create(&stage.api::<ConfigMap>(), config_map("a", "soon")).await?;
    let file = folder.path().join("cluster/state.json");
    let written = async {
        while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"soon\"")) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(5), written).await?;
    drop(stage);
    let reopened = async {
        loop {
            match Stage::with(keep_in(&folder)).await {
                Err(_) => sleep(Duration::from_millis(20)).await,
                Ok(stage) => break stage,
            }
        }
    };
    let stage = timeout(Duration::from_secs(5), reopened).await?;
    assert_eq!(value(&stage.api::<ConfigMap>().get("a").await?), "soon");
    Ok(())
}

#[tokio::test]
async fn a_state_file_is_locked_by_one_plane_at_a_time() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let first = DevPlane::start(keep_in(&folder)).await?;
    match DevPlane::start(keep_in(&folder)).await {
        Err(StartError::StateFile(error @ StateFileError::Locked(_))) => {
            assert!(
                error.to_string().contains("in use by another process"),
                "{error}"
            );
        }
        other => bail!("expected a rejection, found {other:?}"),
    }
    first.shutdown().await;
    DevPlane::start(keep_in(&folder)).await?.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn rejects_and_keeps_a_damaged_or_foreign_state_file() -> Result<()> {
    for content in [
        "{\"format\": 1, \"rev",
        "{\"format\": 99, \"revision\": 1, \"objects\": []}",
    ] {
        let folder = tempfile::tempdir()?;
        let options = keep_in(&folder);
        let Some(path) = options.state_file.clone() else {
            bail!("no state file")
        };
        std::fs::create_dir_all(folder.path().join("cluster"))?;
        std::fs::write(&path, content)?;
        match DevPlane::start(options).await {
            Err(error @ StartError::StateFile(_)) => {
                assert!(
                    error.to_string().contains("state.json"),
                    "{error}: {:?}",
                    error.source()
                );
            }
            other => bail!("expected a rejection, found {other:?}"),
        }
        assert_eq!(std::fs::read_to_string(&path)?, content);
    }
    Ok(())
}

#[tokio::test]
async fn a_shutdown_ends_watches_at_once_and_frees_the_port() -> Result<()> {
    let stage = Stage::new().await?;
    let maps: Api<ConfigMap> = stage.api();
    let params = WatchParams {
        bookmarks: false,
        ..WatchParams::default()
    };
    let mut events = pin!(maps.watch(&params, "0").await?);
    let (before, url) = (Instant::now(), stage.plane.url());
    stage.plane.shutdown().await;
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    assert!(
        events.try_next().await?.is_none(),
        "a watch ends; it does not break off"
    );
    assert!(maps.get("a").await.is_err());
    let listen = url.trim_start_matches("http://").parse()?;
    DevPlane::start(Options {
        listen,
        ..Options::default()
    })
    .await?
    .shutdown()
    .await;
    Ok(())
}

#[tokio::test]
async fn only_loopback_addresses_are_listened_on() -> Result<()> {
    let options = Options {
        listen: "0.0.0.0:0".parse()?,
        ..Options::default()
    };
    let error = DevPlane::start(options)
        .await
        .err()
        .map(|error| error.to_string());
    let expected = "the embedded control plane cannot listen on 0.0.0.0:0: other machines could reach it; use a loopback \
                    address, for example 127.0.0.1:0";
    assert_eq!(error.as_deref(), Some(expected));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_does_not_wait_for_clients_that_watch_again() -> Result<()> {
    let stage = Stage::new().await?;
    let address = stage
        .plane
        .url()
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let request = format!("GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut kept = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(&address).await?;
        // The second watch starts when the first ends.
        stream.write_all(request.repeat(2).as_bytes()).await?;
        stream.read_exact(&mut [0; 64]).await?;
        kept.push(stream);
    }
    sleep(Duration::from_millis(200)).await;
    let start = Instant::now();
    stage.plane.shutdown().await;
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    Ok(())
}

#[tokio::test]
async fn a_watch_can_be_requested_for_any_time() -> Result<()> {
    let stage = Stage::new().await?;
    let longest = format!("/api/v1/nodes?watch=1&timeoutSeconds={}", i64::MAX);
    let mut lines = stage
        .client
        .request_stream(http::Request::get(longest).body(vec![])?)
        .await?;
    assert!(
        timeout(Duration::from_millis(300), lines.fill_buf())
            .await
            .is_err(),
        "the watch goes on"
    );
    Ok(())
}
