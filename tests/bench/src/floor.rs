//! The least it takes: a bare loop that sends the two patches a node costs, with the same client and nothing around it.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Request, header};
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::fleet::{name, none_of};
use crate::measure::seconds_between;
use crate::progress::Progress;
use crate::scenario::Size;

/// How many nodes at a time; each gets its share of the nodes, and the best counts.
const AT_A_TIME: [usize; 2] = [20, 64];

/// Time of a node, in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Floor {
    /// With the number of nodes at a time that was best.
    pub(crate) ms_per_node: f64,
    /// That number.
    pub(crate) at_a_time: usize,
    /// All that were tried: nodes at a time, and milliseconds.
    pub(crate) tried: Vec<(usize, f64)>,
}

/// Registers the nodes on a control plane of its own, and initialises them.
pub(crate) async fn floor(size: &Size, progress: &Progress) -> Result<Floor> {
    progress.say("floor: starting a control plane".to_owned());
    let cluster = Cluster::start().await?;
    let names: Vec<_> = (0..size.nodes).map(|number| name("node", number)).collect();
    progress.say(format!("floor: registering {} nodes", names.len()));
    cluster.fleet.create_nodes(&names).await?;
    let client = cluster.manager_client().await?;
    let mut tried = Vec::new();
    let share = names.len().div_ceil(AT_A_TIME.len());
    for (at_a_time, names) in AT_A_TIME.into_iter().zip(names.chunks(share.max(1))) {
        progress.say(format!("floor: {} nodes, {at_a_time} at a time", names.len()));
        let start = Timestamp::now();
        futures::stream::iter(names)
            .map(|name| initialise(&client, name))
            .buffer_unordered(at_a_time)
            .try_collect::<()>()
            .await
            .context("cannot patch a node")?;
        #[allow(clippy::cast_precision_loss)] // thousands of nodes
        tried.push((at_a_time, seconds_between(start, Timestamp::now()) * 1000.0 / names.len() as f64));
    }
    let lacking: Vec<_> =
        cluster.fleet.nodes().await?.into_iter().filter(|(_, lacks)| lacks.is_some()).map(|(name, _)| name).collect();
    none_of("nodes are not initialised", &lacking)?;
    let best = tried.iter().copied().min_by(|(_, a), (_, b)| a.total_cmp(b)).context("no node")?;
    Ok(Floor { ms_per_node: best.1, at_a_time: best.0, tried })
}

/// What Skydock sends for a node: its addresses, then provider ID, labels and the end of the taint.
async fn initialise(client: &Client, name: &str) -> Result<()> {
    let number: u16 = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let [third, fourth] = number.to_be_bytes();
    let addresses = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": format!("10.0.{third}.{fourth}")},
        {"type": "ExternalIP", "address": format!("198.18.{third}.{fourth}")},
        {"type": "Hostname", "address": name},
    ]}});
    patch(client, &format!("/api/v1/nodes/{name}/status"), "application/merge-patch+json", &addresses).await?;
    let mut operations = vec![json!({"op": "add", "path": "/spec/providerID", "value": format!("bench://{name}")})];
    for (label, value) in [
        ("node.kubernetes.io~1instance-type", "bench.large"),
        ("beta.kubernetes.io~1instance-type", "bench.large"),
        ("topology.kubernetes.io~1zone", "bench-1a"),
        ("failure-domain.beta.kubernetes.io~1zone", "bench-1a"),
        ("topology.kubernetes.io~1region", "bench-1"),
        ("failure-domain.beta.kubernetes.io~1region", "bench-1"),
        ("bench.skydock.dev~1rack", "r1"),
    ] {
        operations.push(json!({"op": "add", "path": format!("/metadata/labels/{label}"), "value": value}));
    }
    let taint = "node.cloudprovider.kubernetes.io/uninitialized";
    // The API server has put a taint of its own behind it.
    operations.push(json!({"op": "test", "path": "/spec/taints/0/key", "value": taint}));
    operations.push(json!({"op": "remove", "path": "/spec/taints/0"}));
    patch(client, &format!("/api/v1/nodes/{name}"), "application/json-patch+json", &Value::from(operations)).await
}

async fn patch(client: &Client, path: &str, content_type: &str, body: &Value) -> Result<()> {
    let request = Request::patch(path)
        .header(header::ACCEPT, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
        .header(header::CONTENT_TYPE, content_type)
        .body(body.to_string().into_bytes())?;
    client.request::<IgnoredAny>(request).await?;
    Ok(())
}
