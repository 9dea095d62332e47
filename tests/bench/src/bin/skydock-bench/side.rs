//! The two sides, how each is started, and how its calls to the cloud are read.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use skydock_bench::{Process, calls};
use skydock_support::{Scrape, free_address};

use crate::cluster::Cluster;
use crate::scenario::Size;

/// One of the two measured programs.
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

/// The programs that are started.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) skydock: PathBuf,
    /// The component of `tests/bench/plugin`.
    pub(crate) plugin: PathBuf,
    /// The program of `tests/bench/peer`.
    pub(crate) peer: PathBuf,
}

/// The environment of a manager.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The folder for logs and caches.
    pub(crate) folder: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// How long a call to the cloud takes.
    pub(crate) latency: Duration,
}

impl Place {
    /// Returns the environment for a manager of this cluster.
    pub(crate) fn of(cluster: &Cluster, size: &Size) -> Self {
        Self {
            folder: cluster.folder().to_owned(),
            kubeconfig: cluster.kubeconfig.clone(),
            latency: size.latency,
        }
    }
}

/// A running cloud controller manager.
pub(crate) struct Manager {
    side: Side,
    pub(crate) process: Process,
    /// The address at which it serves its number of calls to the cloud.
    address: SocketAddr,
}

impl Manager {
    /// Starts the manager without waiting for it.
    pub(crate) fn start(side: Side, programs: &Programs, place: &Place) -> Result<Self> {
        let address = free_address()?;
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
        Ok(Self {
            side,
            process,
            address,
        })
    }

    /// Returns the calls to the cloud since the start by kind, or none while the manager does not
    /// answer yet.
    pub(crate) async fn calls(&mut self) -> Result<BTreeMap<String, u64>> {
        self.process.check()?;
        let Ok(scrape) = Scrape::of(self.address).await else {
            return Ok(BTreeMap::new());
        };
        match self.side {
            Side::Upstream => {
                serde_json::from_str(scrape.text()).context("cannot read the peer's calls")
            }
            Side::Skydock => Ok(calls(scrape.text())),
        }
    }
}

/// Returns tuned arguments for upstream: as many workers as in large clusters, and no client rate
/// limit (a negative rate).
fn upstream() -> Vec<String> {
    [
        "--concurrent-node-syncs=20",
        "--concurrent-service-syncs=20",
        "--kube-api-qps=-1",
        // Otherwise it would handle node CIDRs and routes, which are not measured here.
        "--allocate-node-cidrs=false",
        "--configure-cloud-routes=false",
        "--secure-port=0",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Returns arguments for Skydock: the defaults, without routes.
fn skydock(programs: &Programs, place: &Place, address: SocketAddr) -> Vec<String> {
    vec![
        format!("--plugin=bench={}", programs.plugin.display()),
        format!(
            "--plugin-cache-dir={}",
            place.folder.join("compiled").display()
        ),
        "--secure-port=0".to_owned(),
        format!("--metrics-bind-address={address}"),
        // The cloud supports routes for other benchmarks.
        "--configure-cloud-routes=false".to_owned(),
    ]
}
