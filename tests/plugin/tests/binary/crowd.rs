//! A thousand nodes, of which a hundred are deleted in the cloud at once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use skydock_support::{Paths, Seen, eventually, kubernetes::UNINITIALIZED};

use crate::stage::Stage;

const NODES: usize = 1000;
const DEAD: usize = 100;
/// The deleted node at which the plugin traps, and the one at which it sleeps.
const TRAPS: &str = "n0";
const SLEEPS: &str = "n1";
const PERIOD: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(10);
const ROUTES: &str = "--configure-cloud-routes=false";
/// Number of concurrent requests.
const AT_A_TIME: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn dead_nodes_are_deleted_despite_a_trap_and_a_late_answer() {
    run().await.unwrap();
}

async fn run() -> anyhow::Result<()> {
    let component = std::fs::read(Paths::of_checkout()?.plugins.join("hostile/good.wasm"))?;
    let limit = format!("--plugin-limit=read-deadline={}s", DEADLINE.as_secs());
    let more = [
        limit.as_str(),
        "--node-monitor-period=5s",
        "--node-deletion-limit=1000",
        ROUTES,
    ];
    let stage = Stage::with("hostile", &component, &more).await?;
    each(0..NODES, async |name| {
        let node = json!({
            "metadata": {"name": name},
            "spec": {"taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
            "status": ready("True"),
        });
        stage
            .nodes()
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        Ok(())
    })
    .await?;
    let initialized = eventually(Duration::from_secs(60), || async {
        let nodes = stage.nodes().list(&ListParams::default()).await?.items;
        let waits = |node: &&k8s_openapi::api::core::v1::Node| {
            node.spec
                .iter()
                .flat_map(|spec| spec.taints.iter().flatten())
                .any(|taint| taint.key == UNINITIALIZED)
        };
        let waiting = nodes.iter().filter(waits).count();
        Ok(Seen::when(waiting == 0, format!("{waiting} nodes wait")))
    });
    initialized.await.context("all are initialized")?;

    each(0..DEAD, async |name| {
        let behavior = match name.as_str() {
            TRAPS => "trap",
            SLEEPS => "sleep",
            _ => "good",
        };
        let annotations =
            json!({"hostile.example/presence": "absent", "hostile.example/do": behavior});
        patch(
            &stage,
            &name,
            None,
            json!({"metadata": {"annotations": annotations}}),
        )
        .await
    })
    .await?;
    let begun = Instant::now();
    each(0..DEAD, async |name| {
        patch(
            &stage,
            &name,
            Some("status"),
            json!({"status": ready("Unknown")}),
        )
        .await
    })
    .await?;
    let gone = eventually(3 * PERIOD + DEADLINE, || async {
        let left = stage
            .nodes()
            .list(&ListParams::default())
            .await?
            .items
            .len();
        Ok(Seen::when(
            left == NODES - DEAD + 2,
            format!("{left} nodes are left"),
        ))
    });
    gone.await
        .context("the dead ones are gone, but the two of which nothing is known")?;
    println!("{} nodes gone after {:?}", DEAD - 2, begun.elapsed());
    for name in [TRAPS, SLEEPS] {
        ensure!(
            stage.nodes().get_opt(name).await?.is_some(),
            "{name} is gone, of which the cloud has said nothing"
        );
    }
    stage.ends_within(crate::END).await
}

async fn each(
    numbers: std::ops::Range<usize>,
    act: impl AsyncFn(String) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let all = stream::iter(numbers).map(|number| act(format!("n{number}")));
    all.buffer_unordered(AT_A_TIME).try_collect().await
}

async fn patch(stage: &Stage, name: &str, part: Option<&str>, change: Value) -> anyhow::Result<()> {
    let (params, change) = (PatchParams::default(), Patch::Merge(change));
    match part {
        Some(_) => stage.nodes().patch_status(name, &params, &change).await?,
        None => stage.nodes().patch(name, &params, &change).await?,
    };
    Ok(())
}

fn ready(status: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status}]})
}
