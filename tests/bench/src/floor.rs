//! The least it takes: a bare loop that sends the two patches a node costs, with the same client and nothing around it.
//! All first ones, then all second ones: straight after one another, the two would cost the API server about twice as much.
//!
//! The loop and Skydock take turns, so that both meet the machine as it is in the same minute.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, header};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::core::PartialObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cloud::{Instance, OWN_LABELS};
use crate::cluster::Cluster;
use crate::fleet::{name, none_of};
use crate::measure::{Goal, Measurement, seconds_between};
use crate::progress::Progress;
use crate::scenario::Size;
use crate::side::{Manager, Place, Programs, Side};

/// How often all have their turn, each time on a new control plane.
const ROUNDS: usize = 4;
/// How many nodes at a time the loop works on. Both have half as many nodes as Skydock, and the better one counts.
const AT_A_TIME: [usize; 2] = [20, 64];

/// Milliseconds of a node, from the first write to the last.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Floor {
    /// Of the loop, over all rounds.
    pub(crate) floor: f64,
    /// With so many nodes at a time.
    pub(crate) at_a_time: usize,
    /// Of Skydock, over all rounds.
    pub(crate) skydock: f64,
    rounds: Vec<Round>,
}

/// Milliseconds of a node.
#[derive(Debug, Clone, Copy, Serialize)]
struct Round {
    /// As in [`AT_A_TIME`].
    floor: [f64; 2],
    skydock: f64,
}

/// Has the loop and Skydock initialise nodes in turn; Skydock as many as the size says.
pub(crate) async fn floor(programs: &Programs, size: &Size, progress: &Progress) -> Result<Floor> {
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        let round = round(programs, size, &format!("floor, {number} of {ROUNDS}"), progress).await?;
        let [few, many] = round.floor;
        progress.line(&format!(
            "floor, {number} of {ROUNDS}: {few:.2} ms and {many:.2} ms a node, skydock {:.2} ms",
            round.skydock
        ));
        rounds.push(round);
    }
    #[allow(clippy::cast_precision_loss)] // four rounds
    let mean = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>() / rounds.len() as f64;
    let loops = [(mean(&|it| it.floor[0]), AT_A_TIME[0]), (mean(&|it| it.floor[1]), AT_A_TIME[1])];
    let (floor, at_a_time) = if loops[0].0 <= loops[1].0 { loops[0] } else { loops[1] };
    Ok(Floor { floor, at_a_time, skydock: mean(&|it| it.skydock), rounds })
}

async fn round(programs: &Programs, size: &Size, title: &str, progress: &Progress) -> Result<Round> {
    progress.say(format!("{title}: starting a control plane"));
    let mut cluster = Cluster::start().await?;
    let client = cluster.manager_client().await?;
    let share = size.nodes.div_ceil(ROUNDS);
    let [few, many] = AT_A_TIME;
    let mut first = 0;
    let mut names = |count: usize| {
        first += count;
        (first - count..first).map(|number| name("node", number)).collect::<Vec<_>>()
    };
    let of_few = bare(&cluster, &client, &names(share.div_ceil(2)), few, title, progress).await?;
    let skydock = skydock(programs, &mut cluster, &names(share), size, title, progress).await?;
    let of_many = bare(&cluster, &client, &names(share.div_ceil(2)), many, title, progress).await?;
    let lacking: Vec<_> =
        cluster.fleet.nodes().await?.into_iter().filter(|(_, lacks)| lacks.is_some()).map(|(name, _)| name).collect();
    none_of("nodes are not initialised", &lacking)?;
    Ok(Round { floor: [of_few, of_many], skydock })
}

/// Milliseconds of a node by the loop.
async fn bare(
    cluster: &Cluster,
    client: &Client,
    names: &[String],
    at_a_time: usize,
    title: &str,
    progress: &Progress,
) -> Result<f64> {
    progress.say(format!("{title}: the loop, {} nodes, {at_a_time} at a time", names.len()));
    cluster.fleet.create_nodes(names).await?;
    let start = Timestamp::now();
    let versions: Vec<_> = stream::iter(names)
        .map(|name| addresses(client, name))
        .buffer_unordered(at_a_time)
        .try_collect()
        .await
        .context("cannot patch the status of a node")?;
    stream::iter(&versions)
        .map(|(name, version)| initialise(client, name, version))
        .buffer_unordered(at_a_time)
        .try_collect::<()>()
        .await
        .context("cannot patch a node")?;
    Ok(per_node(seconds_between(start, Timestamp::now()), names))
}

/// Milliseconds of a node by Skydock.
async fn skydock(
    programs: &Programs,
    cluster: &mut Cluster,
    names: &[String],
    size: &Size,
    title: &str,
    progress: &Progress,
) -> Result<f64> {
    progress.say(format!("{title}: skydock, {} nodes", names.len()));
    cluster.fleet.create_nodes(names).await?;
    cluster.log.read()?;
    let mut manager = Manager::start(Side::Skydock, programs, &Place::of(cluster, size))?;
    let goal = Goal::default().nodes_initialised(names);
    let (seconds, requests) = Measurement::of_started(&mut manager, &mut cluster.log).written(goal).await?;
    manager.process.stop().await?;
    let patches = |kind| requests.by_kind.get(kind).copied().unwrap_or_default();
    let (first, second) = (patches("patch nodes/status"), patches("patch nodes"));
    let count = names.len();
    ensure!(
        [first, second].iter().all(|patches| usize::try_from(*patches).is_ok_and(|patches| patches == count)),
        "{first} and {second} patches for {count} nodes: that is not the loop's work"
    );
    Ok(per_node(seconds, names))
}

#[allow(clippy::cast_precision_loss)] // thousands of nodes
fn per_node(seconds: f64, names: &[String]) -> f64 {
    seconds * 1000.0 / names.len() as f64
}

/// The addresses of a node; answers its version.
async fn addresses<'a>(client: &Client, name: &'a str) -> Result<(&'a str, String)> {
    let mut addresses: Vec<_> = Instance::of(name)
        .addresses
        .into_iter()
        .map(|(kind, address)| json!({"type": kind, "address": address}))
        .collect();
    addresses.push(json!({"$patch": "replace"}));
    let body = json!({"status": {"addresses": addresses}});
    let version = patch(client, &format!("/api/v1/nodes/{name}/status"), &body).await?;
    Ok((name, version))
}

/// Provider ID, labels and the end of the taint.
async fn initialise(client: &Client, name: &str, version: &str) -> Result<()> {
    let instance = Instance::of(name);
    let (annotation, labels) = OWN_LABELS;
    let body = json!({
        "metadata": {"resourceVersion": version, "labels": instance.labels, "annotations": {annotation: labels}},
        "spec": {
            "providerID": instance.provider_id,
            // The API server has added this one.
            "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
        },
    });
    patch(client, &format!("/api/v1/nodes/{name}"), &body).await.map(drop)
}

/// Answers the new version of the object.
async fn patch(client: &Client, path: &str, body: &Value) -> Result<String> {
    let request = Request::patch(path)
        .header(header::ACCEPT, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
        .header(header::CONTENT_TYPE, "application/strategic-merge-patch+json")
        .body(body.to_string().into_bytes())?;
    let answer: PartialObjectMeta<Node> = client.request(request).await?;
    answer.metadata.resource_version.context("the API server gave no version")
}
