//! The built `skydock`, with its defaults unless they prevent a measurement.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use skydock_bench::{Process, calls};
use skydock_support::{Scrape, free_address};

/// The programs that are started.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) skydock: PathBuf,
    /// The component of `tests/bench/plugin`.
    pub(crate) plugin: PathBuf,
    pub(crate) api: PathBuf,
    /// True if the plugin reads the nodes behind each load balancer.
    pub(crate) reads_targets: bool,
}

pub(crate) struct Host {
    pub(crate) process: Process,
    metrics: SocketAddr,
}

impl Host {
    /// Starts Skydock, with a cloud that answers at once and has routes to this number of nodes.
    pub(crate) fn start(
        programs: &Programs,
        folder: &Path,
        kubeconfig: &Path,
        routes: u32,
        more: &[&str],
    ) -> Result<Self> {
        let metrics = free_address()?;
        // Not in the folder of the log, because Skydock is notified of all changes in the folders
        // of its files.
        let config = folder.join("cloud/cloud.conf");
        fs::create_dir_all(folder.join("cloud")).context("cannot make a folder")?;
        let targets = if programs.reads_targets {
            ""
        } else {
            "targets=unread\n"
        };
        fs::write(&config, format!("latency-ms=0\nroutes={routes}\n{targets}"))
            .context("cannot write the cloud's configuration")?;
        let mut command = Command::new(&programs.skydock);
        command
            .arg("--cloud-provider=bench")
            .arg(format!("--plugin=bench={}", programs.plugin.display()))
            .arg(format!(
                "--plugin-cache-dir={}",
                folder.join("compiled").display()
            ))
            .arg(format!("--cloud-config={}", config.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--secure-port=0")
            .arg(format!("--metrics-bind-address={metrics}"))
            .args(more);
        Ok(Self {
            process: Process::start(command, &folder.join("skydock.log"))?,
            metrics,
        })
    }

    /// Fails if Skydock does not run.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Returns the calls to the cloud since the start by kind, or none while Skydock does not
    /// answer yet.
    pub(crate) async fn calls(&self) -> BTreeMap<String, u64> {
        Scrape::of(self.metrics)
            .await
            .map(|scrape| calls(scrape.text()))
            .unwrap_or_default()
    }

    /// Returns the series of metrics whose lines contain this text.
    pub(crate) async fn metrics(&self, part: &str) -> Vec<String> {
        let Ok(scrape) = Scrape::of(self.metrics).await else {
            return Vec::new();
        };
        let is_told = |line: &&str| !line.starts_with('#') && line.contains(part);
        scrape
            .text()
            .lines()
            .filter(is_told)
            .map(str::to_owned)
            .collect()
    }
}
