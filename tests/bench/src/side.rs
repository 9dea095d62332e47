//! The two that are measured, and how each is started and asked for its calls to the cloud.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use skydock_bench::{Process, calls, get};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::scenario::Size;

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Kubernetes' own framework with a cloud in memory (`tests/bench/peer`).
    Upstream,
    /// Skydock with the same cloud as a plugin (`tests/bench/plugin`).
    Skydock,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Skydock => "skydock",
        }
    }
}

/// What is started.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) skydock: PathBuf,
    /// The component of `tests/bench/plugin`.
    pub(crate) plugin: PathBuf,
    /// The program of `tests/bench/peer`.
    pub(crate) peer: PathBuf,
}

/// Where it runs, and what for.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Logs and caches go here.
    pub(crate) folder: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// How long a call to the cloud takes.
    pub(crate) latency: Duration,
}

impl Place {
    /// Where the cluster is.
    pub(crate) fn of(cluster: &Cluster, size: &Size) -> Self {
        Self { folder: cluster.folder().to_owned(), kubeconfig: cluster.kubeconfig.clone(), latency: size.latency }
    }
}

/// A cloud controller manager that runs.
pub(crate) struct Manager {
    side: Side,
    pub(crate) process: Process,
    /// Where it tells its calls to the cloud.
    address: SocketAddr,
}

impl Manager {
    /// Starts it, and returns at once.
    pub(crate) fn start(side: Side, programs: &Programs, place: &Place) -> Result<Self> {
        let address = free_port()?;
        let config = place.folder.join(format!("{}.conf", side.name()));
        let mut text = format!("latency-ms={}\n", place.latency.as_millis());
        if side == Side::Upstream {
            text.push_str(&format!("calls-address={address}\n"));
        }
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        let (program, arguments) = match side {
            Side::Upstream => (&programs.peer, upstream()),
            Side::Skydock => (&programs.skydock, skydock(programs, place, address)),
        };
        let mut command = Command::new(program);
        command
            .arg("--cloud-provider=bench")
            .arg(format!("--cloud-config={}", config.display()))
            .arg(format!("--kubeconfig={}", place.kubeconfig.display()))
            .args(arguments);
        let process = Process::start(command, &place.folder.join(format!("{}.log", side.name())))?;
        Ok(Self { side, process, address })
    }

    /// Calls to the cloud since the start, by kind. None before it answers.
    pub(crate) async fn calls(&mut self) -> Result<BTreeMap<String, u64>> {
        self.process.check()?;
        let Ok(text) = get(self.address, "/metrics").await else { return Ok(BTreeMap::new()) };
        match self.side {
            Side::Upstream => serde_json::from_str(&text).context("cannot read the peer's calls"),
            Side::Skydock => Ok(calls(&text)),
        }
    }
}

/// Upstream, tuned: as many workers as large clusters run it with, and no limit in its client (a negative rate is none).
fn upstream() -> Vec<String> {
    [
        "--concurrent-node-syncs=20",
        "--concurrent-service-syncs=20",
        "--kube-api-qps=-1",
        // It would look for node CIDRs and routes, which are not measured here.
        "--allocate-node-cidrs=false",
        "--configure-cloud-routes=false",
        "--secure-port=0",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Skydock with its defaults, without routes.
fn skydock(programs: &Programs, place: &Place, address: SocketAddr) -> Vec<String> {
    vec![
        format!("--plugin=bench={}", programs.plugin.display()),
        format!("--plugin-cache-dir={}", place.folder.join("compiled").display()),
        format!("--metrics-bind-address={address}"),
        // The cloud has routes, for other benchmarks.
        "--configure-cloud-routes=false".to_owned(),
    ]
}

/// A port that nobody listens on now.
fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
