//! Initializes nodes in turns: with upstream, with Skydock, and with a bare loop that sends the two
//! patches per node with the same client. Within a round, all of them run under the same conditions
//! of the machine.
//!
//! The loop sends all first patches, then all second patches. Sent directly after each other, the
//! two patches of a node would cost the API server about twice as much.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, header};
use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skydock_bench::Progress;

use crate::cloud::{Instance, OWN_LABELS};
use crate::cluster::Cluster;
use crate::fleet::name;
use crate::measure::{Goal, Measurement, seconds_between};
use crate::scenario::{ROUNDS, Size};
use crate::side::{Manager, Place, Programs, Side};

/// How many nodes the loop patches concurrently. Each variant gets half as many nodes as the
/// others, and the better result counts.
const AT_A_TIME: [usize; 2] = [20, 64];

/// Milliseconds per node between the first and the last write, as median of all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Turns {
    pub(crate) skydock: f64,
    pub(crate) upstream: Other,
    pub(crate) floor: Other,
    /// The number of concurrent nodes of the loop.
    pub(crate) at_a_time: usize,
    rounds: Vec<Round>,
}

/// What Skydock is compared with.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Other {
    pub(crate) time: f64,
    /// The median of the ratios of all rounds: the machine is not equally fast in each.
    pub(crate) ratio: f64,
}

/// Milliseconds per node.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Round {
    /// As in [`AT_A_TIME`].
    floor: [f64; 2],
    upstream: f64,
    skydock: f64,
}

/// Lets all of them initialize nodes in turns. Upstream and Skydock each initialize as many nodes
/// as the size specifies.
pub(crate) async fn turns(programs: &Programs, size: &Size, progress: &Progress) -> Result<Turns> {
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        let title = format!("turns, {number} of {ROUNDS}");
        progress.say(format!("{title}: starting a control plane"));
        let round = Stage::set(programs, size, &title, progress)
            .await?
            .round(number % 2 == 0)
            .await?;
        let Round {
            floor: [few, many],
            upstream,
            skydock,
        } = round;
        progress.line(&format!(
            "{title}: the loop {few:.2} and {many:.2} ms a node, upstream {upstream:.2} ms, skydock {skydock:.2} ms"
        ));
        rounds.push(round);
    }
    Ok(Turns::of(rounds))
}

impl Turns {
    fn of(rounds: Vec<Round>) -> Self {
        let other = |of: &dyn Fn(&Round) -> f64| Other {
            time: median(rounds.iter().map(of)),
            ratio: median(rounds.iter().map(|round| round.skydock / of(round))),
        };

        let [few, many] = [other(&|it| it.floor[0]), other(&|it| it.floor[1])];
        let (floor, at_a_time) = if few.time <= many.time {
            (few, AT_A_TIME[0])
        } else {
            (many, AT_A_TIME[1])
        };
        Self {
            skydock: median(rounds.iter().map(|it| it.skydock)),
            upstream: other(&|it| it.upstream),
            floor,
            at_a_time,
            rounds,
        }
    }
}

/// Returns the median of an odd number of values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// A control plane and the number of its nodes.
struct Stage<'a> {
    programs: &'a Programs,
    size: &'a Size,
    title: &'a str,
    progress: &'a Progress,
    cluster: Cluster,
    client: Client,
    nodes: usize,
}

impl<'a> Stage<'a> {
    async fn set(
        programs: &'a Programs,
        size: &'a Size,
        title: &'a str,
        progress: &'a Progress,
    ) -> Result<Self> {
        let cluster = Cluster::start().await?;
        let client = cluster.manager_client().await?;
        Ok(Self {
            programs,
            size,
            title,
            progress,
            cluster,
            client,
            nodes: 0,
        })
    }

    /// Runs one round. Every other round is in reverse order, because a new API server is slow at
    /// first.
    async fn round(mut self, backwards: bool) -> Result<Round> {
        let share = self.size.nodes.div_ceil(ROUNDS);
        let [few, many] = AT_A_TIME;
        let mut round = Round::default();
        let mut order = [0, 1, 2, 3];
        if backwards {
            order.reverse();
        }
        for turn in order {
            match turn {
                0 => round.floor[0] = self.bare(share.div_ceil(2), few).await?,
                1 => round.upstream = self.manager(share, Side::Upstream).await?,
                2 => round.skydock = self.manager(share, Side::Skydock).await?,
                _ => round.floor[1] = self.bare(share.div_ceil(2), many).await?,
            }
        }
        self.cluster.fleet.all_initialized(self.nodes).await?;
        Ok(round)
    }

    /// Registers this number of additional nodes.
    async fn nodes(&mut self, count: usize, by: &str) -> Result<Vec<String>> {
        self.progress
            .say(format!("{}: {count} nodes by {by}", self.title));
        let names: Vec<_> = (self.nodes..self.nodes + count)
            .map(|number| name("node", number))
            .collect();
        self.nodes += count;
        self.cluster.fleet.create_nodes(&names).await?;
        Ok(names)
    }

    /// Returns the milliseconds per node of the loop.
    async fn bare(&mut self, count: usize, at_a_time: usize) -> Result<f64> {
        let names = self
            .nodes(count, &format!("the loop, {at_a_time} at a time"))
            .await?;
        let client = &self.client;
        let start = Timestamp::now();
        let versions: Vec<_> = stream::iter(&names)
            .map(|name| addresses(client, name))
            .buffer_unordered(at_a_time)
            .try_collect()
            .await
            .context("cannot patch the status of a node")?;
        stream::iter(&versions)
            .map(|(name, version)| initialize(client, name, version))
            .buffer_unordered(at_a_time)
            .try_collect::<()>()
            .await
            .context("cannot patch a node")?;
        Ok(per_node(seconds_between(start, Timestamp::now()), count))
    }

    /// Returns the milliseconds per node of a manager.
    async fn manager(&mut self, count: usize, side: Side) -> Result<f64> {
        let names = self.nodes(count, side.name()).await?;
        self.cluster.log.read()?;
        let mut manager =
            Manager::start(side, self.programs, &Place::of(&self.cluster, self.size))?;
        let goal = Goal::default().nodes_initialized(&names);
        let (seconds, requests) = Measurement::of_started(&mut manager, &mut self.cluster.log)
            .written(goal)
            .await?;
        manager.process.stop().await?;
        let patches = |kind| requests.by_kind.get(kind).copied().unwrap_or_default();
        let (first, second) = (patches("patch nodes/status"), patches("patch nodes"));
        ensure!(
            side != Side::Skydock
                || [first, second]
                    .iter()
                    .all(|patches| usize::try_from(*patches) == Ok(count)),
            "{first} and {second} patches for {count} nodes: that is not the loop's work"
        );
        Ok(per_node(seconds, count))
    }
}

#[allow(clippy::cast_precision_loss)] // thousands of nodes
fn per_node(seconds: f64, nodes: usize) -> f64 {
    seconds * 1000.0 / nodes as f64
}

/// Patches the addresses of a node and returns its resource version.
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

/// Patches provider ID and labels, and removes the taint.
async fn initialize(client: &Client, name: &str, version: &str) -> Result<()> {
    let instance = Instance::of(name);
    let (annotation, labels) = OWN_LABELS;
    let body = json!({
        "metadata": {"resourceVersion": version, "labels": instance.labels, "annotations": {annotation: labels}},
        "spec": {
            "providerID": instance.provider_id,
            // This taint was added by the API server.
            "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
        },
    });
    patch(client, &format!("/api/v1/nodes/{name}"), &body)
        .await
        .map(drop)
}

/// The fields of an answer that are read, as few as in Skydock.
#[derive(Deserialize)]
struct Written {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

/// Sends a patch and returns the new resource version of the object.
async fn patch(client: &Client, path: &str, body: &Value) -> Result<String> {
    let request = Request::patch(path)
        .header(
            header::ACCEPT,
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        )
        .header(
            header::CONTENT_TYPE,
            "application/strategic-merge-patch+json",
        )
        .body(body.to_string().into_bytes())?;
    let answer: Written = client.request(request).await?;
    Ok(answer.metadata.resource_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_round_does_not_count() {
        let round = |floor, upstream, skydock| Round {
            floor,
            upstream,
            skydock,
        };
        let turns = Turns::of(vec![
            round([2.0, 1.0], 4.0, 1.1),
            round([9.0, 8.0], 9.0, 8.0),
            round([2.5, 2.0], 4.0, 3.0),
        ]);
        assert_eq!((turns.skydock, turns.at_a_time), (3.0, AT_A_TIME[1]));
        assert_eq!((turns.upstream.time, turns.floor.time), (4.0, 2.0));
        assert_eq!((turns.upstream.ratio, turns.floor.ratio), (0.75, 1.1));
    }
}
