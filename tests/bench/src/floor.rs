//! The least it takes: a bare loop that sends the two patches a node costs, with the same client and nothing around it.
//! All first ones, then all second ones: straight after one another, the two would cost the API server about twice as much.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, header};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::core::PartialObjectMeta;
use serde::Serialize;
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
        let versions: Vec<_> = stream::iter(names)
            .map(|name| addresses(&client, name))
            .buffer_unordered(at_a_time)
            .try_collect()
            .await
            .context("cannot patch the status of a node")?;
        stream::iter(&versions)
            .map(|(name, version)| initialise(&client, name, version))
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

/// The addresses of a node; answers its version.
async fn addresses<'a>(client: &Client, name: &'a str) -> Result<(&'a str, String)> {
    let number: u16 = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let [third, fourth] = number.to_be_bytes();
    let body = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": format!("10.0.{third}.{fourth}")},
        {"type": "ExternalIP", "address": format!("198.18.{third}.{fourth}")},
        {"type": "Hostname", "address": name},
        {"$patch": "replace"},
    ]}});
    let version = patch(client, &format!("/api/v1/nodes/{name}/status"), &body).await?;
    Ok((name, version))
}

/// Provider ID, labels and the end of the taint.
async fn initialise(client: &Client, name: &str, version: &str) -> Result<()> {
    let body = json!({
        "metadata": {
            "resourceVersion": version,
            "labels": {
                "node.kubernetes.io/instance-type": "bench.large",
                "beta.kubernetes.io/instance-type": "bench.large",
                "topology.kubernetes.io/zone": "bench-1a",
                "failure-domain.beta.kubernetes.io/zone": "bench-1a",
                "topology.kubernetes.io/region": "bench-1",
                "failure-domain.beta.kubernetes.io/region": "bench-1",
                "bench.skydock.dev/rack": "r1",
            },
            "annotations": {"node.skydock.dev/labels": "bench.skydock.dev/rack"},
        },
        "spec": {
            "providerID": format!("bench://{name}"),
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
