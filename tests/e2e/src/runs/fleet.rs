//! Counts the requests that describe the nodes of a cluster, once the plugin has everything in its
//! caches.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use skydock_clusters::Plane;
use skydock_support::{Host, Seen, eventually};

use crate::{
    cluster::Cluster,
    hosts::Hosts,
    site::{Machine, Site},
};

/// How long it may take until all nodes are initialized, and until they have been described again.
const PATIENCE: Duration = Duration::from_secs(300);
const FLAGS: [&str; 4] = [
    "--leader-elect=false",
    "--controllers=cloud-node",
    "--configure-cloud-routes=false",
    "--node-status-update-frequency=10s",
];
/// The number of calls that are measured.
const CALLS: f64 = 3.0;

/// How nodes were described.
#[derive(Clone, Debug)]
pub struct Described {
    /// The number of nodes.
    pub nodes: usize,
    /// The time until all were initialized.
    pub initialized_in: Duration,
    /// The number of requests of one call, by operation.
    pub requests: BTreeMap<String, f64>,
    /// The duration of one call.
    pub call: Duration,
    /// The CPU time of the plugin in one call.
    pub cpu: Duration,
    /// The most memory of one instance of the plugin, in bytes.
    pub guest: f64,
    /// The resident memory of the host, in bytes.
    pub host: u64,
}

impl Described {
    /// Returns the number of requests of one call.
    #[must_use]
    pub fn all_requests(&self) -> f64 {
        self.requests.values().sum()
    }
}

impl Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            nodes,
            initialized_in,
            requests,
            call,
            cpu,
            guest,
            host,
        } = self;
        let mib = f64::from(1 << 20);
        write!(
            f,
            "{nodes} nodes initialized in {:.1} s; described by {requests:?} in {:.0} ms, {:.0} ms of CPU; instance {:.1} MiB, host {:.1} MiB",
            initialized_in.as_secs_f64(),
            call.as_secs_f64() * 1000.0,
            cpu.as_secs_f64() * 1000.0,
            guest / mib,
            *host as f64 / mib,
        )
    }
}

/// Measures clusters of these sizes, one after the other, in an empty site and on a plane without
/// nodes.
///
/// # Errors
/// Fails if the nodes are not initialized in time.
pub async fn run(
    site: &mut dyn Site,
    plane: &dyn Plane,
    name: &str,
    sizes: &[usize],
) -> Result<Vec<Described>> {
    let mut hosts = Hosts::of_site(site, name, plane.kubeconfig_path(), &FLAGS)?;
    let host = hosts.start().await?;
    let cluster = Cluster::new(plane.client());
    site.prepare(&cluster).await?;
    let (mut machines, mut all): (Vec<Machine>, _) = (Vec::new(), Vec::new());
    for &size in sizes {
        let began = Instant::now();
        for machine in site.add(size.saturating_sub(machines.len())).await? {
            site.register(&cluster, &machine).await?;
            machines.push(machine);
        }
        initialized(&cluster, &machines).await?;
        let initialized_in = began.elapsed();
        after(&host, calls(&host).await? + 1.0).await?;
        all.push(measure(site, &host, size, initialized_in).await?);
    }
    Hosts::stop(host).await?;
    Ok(all)
}

async fn measure(
    site: &dyn Site,
    host: &Host,
    nodes: usize,
    initialized_in: Duration,
) -> Result<Described> {
    let (calls, [seconds, cpu]) = (calls(host).await?, times(host).await?);
    site.proxy().forget();
    let ended = after(host, calls + CALLS).await?;
    ensure!(
        ended == calls + CALLS,
        "more than one call describes {nodes} nodes"
    );
    let [seconds_after, cpu_after] = times(host).await?;
    let each = |total: f64| Duration::from_secs_f64(total / CALLS);
    let requests = site
        .proxy()
        .counts()
        .into_iter()
        .map(|(operation, count)| (operation, count as f64 / CALLS));
    Ok(Described {
        nodes,
        initialized_in,
        requests: requests.collect(),
        call: each(seconds_after - seconds),
        cpu: each(cpu_after - cpu),
        guest: host
            .scrape()
            .await?
            .sum("skydock_plugin_memory_peak_bytes", &[]),
        host: host.resident()?,
    })
}

async fn initialized(cluster: &Cluster, machines: &[Machine]) -> Result<()> {
    eventually(PATIENCE, || async {
        let nodes = cluster.nodes().await?;
        let of = |machine: &Machine| {
            let node = nodes
                .iter()
                .find(|node| node.metadata.name.as_ref() == Some(&machine.node))?;
            node.spec.as_ref()?.provider_id.clone()
        };
        let left: Vec<_> = machines
            .iter()
            .filter(|it| of(it).as_ref() != Some(&it.provider_id))
            .collect();
        Ok(Seen::when(
            left.is_empty(),
            format!("{} nodes are not initialized: {left:?}", left.len()),
        ))
    })
    .await
}

/// Waits for this number of calls, and returns how many there were. Calls are far apart, so that
/// one has ended when it is counted, and the next has not begun.
async fn after(host: &Host, number: f64) -> Result<f64> {
    eventually(PATIENCE, || async {
        let seen = calls(host).await?;
        Ok(if seen >= number {
            Seen::Yes(seen)
        } else {
            Seen::NotYet(format!("{seen} calls"))
        })
    })
    .await
}

async fn calls(host: &Host) -> Result<f64> {
    Ok(host.scrape().await?.sum(
        "skydock_plugin_calls_total",
        &[("function", "describe"), ("outcome", "ok")],
    ))
}

async fn times(host: &Host) -> Result<[f64; 2]> {
    let scrape = host.scrape().await?;
    let seconds = scrape.sum(
        "skydock_plugin_call_duration_seconds_sum",
        &[("function", "describe")],
    );
    Ok([
        seconds,
        scrape.sum("skydock_plugin_guest_cpu_seconds_total", &[]),
    ])
}
