//! A replica of Skydock with its sidecars, if it has any, as they are in its Pod.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use skydock_e2e::Hosts;
use skydock_support::{Host, Process, Seen, eventually};
use tempfile::TempDir;

use crate::{
    LIMIT,
    lab::{By, Lab, SKYDOCK},
    sidecars::{arguments, tail},
};

/// How long Skydock may need to stop.
const STOPS: Duration = Duration::from_secs(60);

/// A replica.
pub(crate) struct Replica {
    // Fields are dropped in order: sidecars do not outlive their Skydock.
    sidecars: Vec<Process>,
    host: Host,
    hosts: Hosts,
    dir: TempDir,
}

impl Replica {
    /// Starts Skydock, and its sidecars when it has its socket.
    pub(crate) async fn start(lab: &Lab) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("skydock-csi-").tempdir()?;
        let mut flags = vec!["--controllers=cloud-node,cloud-node-lifecycle".to_owned()];
        match lab.by {
            By::Sidecars => flags.push(format!("--csi-endpoint=unix://{}", socket(&dir).display())),
            By::Controllers => {
                for component in lab.by.components() {
                    flags.extend(arguments(component)?);
                }
            }
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut hosts = lab.cloud.hosts(lab.kubeconfig(SKYDOCK)?, &flags)?;
        let host = hosts.start().await?;

        let mut sidecars = Vec::new();
        for sidecar in &lab.sidecars {
            let kubeconfig = lab.kubeconfig(sidecar.name)?;
            sidecars.push(sidecar.start(&socket(&dir), kubeconfig, dir.path())?);
        }
        Ok(Self {
            sidecars,
            host,
            hosts,
            dir,
        })
    }

    /// Waits until it is the leader.
    pub(crate) async fn leads(&self) -> Result<()> {
        let leads = eventually(LIMIT, || async {
            Ok(Seen::when(self.is_leader().await?, "no"))
        });
        leads.await.context("a replica leads")
    }

    pub(crate) async fn is_leader(&self) -> Result<bool> {
        let scrape = self.host.scrape().await?;
        Ok(scrape.sum("leader_election_master_status", &[]) > 0.0)
    }

    /// Returns the number of requests to the cloud so far.
    pub(crate) async fn requests(&self) -> Result<usize> {
        let scrape = self.host.scrape().await?;
        let requests = scrape.measured("skydock_egress_requests_total")?;
        Ok(requests.to_string().parse()?)
    }

    /// Checks that no sidecar has ended.
    pub(crate) fn works(&mut self) -> Result<()> {
        for sidecar in &mut self.sidecars {
            let ended = sidecar.ended()?;
            ensure!(
                ended.is_none(),
                "{} has ended: {ended:?}\n{}",
                sidecar.name(),
                tail(sidecar)
            );
        }
        Ok(())
    }

    /// Kills Skydock and starts it again, as its Pod does: it is then a standby.
    pub(crate) async fn crashes(&mut self) -> Result<()> {
        self.host.kill()?;
        self.host.ended(STOPS).await?;
        self.host = self.hosts.start().await?;
        Ok(())
    }

    /// Stops Skydock and starts it again.
    pub(crate) async fn restarts(&mut self) -> Result<()> {
        self.host.terminate()?;
        self.host.ended(STOPS).await?;
        self.host = self.hosts.start().await?;
        Ok(())
    }

    /// Starts sidecars again that have ended, as a kubelet does. They end at the first request after
    /// their Skydock was restarted.
    pub(crate) fn tend(&mut self, lab: &Lab) -> Result<()> {
        for (process, sidecar) in self.sidecars.iter_mut().zip(&lab.sidecars) {
            if process.ended()?.is_some() {
                let kubeconfig = lab.kubeconfig(sidecar.name)?;
                *process = sidecar.start(&socket(&self.dir), kubeconfig, self.dir.path())?;
            }
        }
        Ok(())
    }

    /// Returns the ends of its logs, and keeps them.
    pub(crate) fn report(&mut self) -> String {
        self.dir.disable_cleanup(true);
        let hosts = self.hosts.keep().display().to_string();
        let mut parts = vec![self.host.last_words()];
        parts.extend(self.sidecars.iter().map(tail));
        let sidecars = self.dir.path().display();
        parts.push(format!("logs: {hosts} and {sidecars}"));
        parts.join("\n\n")
    }
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("csi.sock")
}
