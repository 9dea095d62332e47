//! govmomi's simulator of a vCenter, as a program in Go.

use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};
use serde::Deserialize;
use skydock_clusters::go_binary;
use skydock_support::{Process, Seen, eventually, free_address, metrics::get};
use tempfile::TempDir;

use crate::site::Machine;

/// The folder of its Go module.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vcsim");
/// The only user.
pub(super) const USER: &str = "skydock@vsphere.local";
pub(super) const PASSWORD: &str = "a-password-of-vsphere";
/// How long the start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A virtual machine that was created.
#[derive(Deserialize)]
pub(super) struct Created {
    /// The name of the guest, and therefore of the node.
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) address: String,
}

/// A vCenter. It ends when it is dropped.
pub(super) struct Simulator {
    _process: Process,
    _dir: TempDir,
    control: SocketAddr,
    url: String,
}

impl Simulator {
    /// Starts a vCenter.
    ///
    /// # Errors
    /// Fails if it cannot be built, or does not answer.
    pub(super) async fn start() -> Result<Self> {
        let binary = go_binary(Path::new(MODULE), "vcsim").await?;
        let (dir, control) = (
            tempfile::Builder::new()
                .prefix("skydock-vcsim-")
                .tempdir()?,
            free_address()?,
        );
        let mut command = Command::new(binary);
        command
            .arg(format!("-control={control}"))
            .args(["-user", USER, "-password", PASSWORD]);
        let process = Process::start("vcsim", command, &dir.path().join("vcsim.log"))?;
        let answered = eventually(PATIENCE, || async {
            Ok(match get(control, "/").await {
                Ok((200, server)) => Seen::Yes(format!("http://{server}")),
                other => Seen::NotYet(format!("{other:?}; {}", process.last_words())),
            })
        });
        let url = answered.await?;
        Ok(Self {
            _process: process,
            _dir: dir,
            control,
            url,
        })
    }

    /// Returns the URL of the vCenter.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Creates the virtual machine with this number, which runs.
    ///
    /// # Errors
    /// Fails if the vCenter does not do it.
    pub(super) async fn create(&self, number: usize) -> Result<Created> {
        Ok(serde_json::from_str(
            &self.ask(&format!("/create/{number}")).await?,
        )?)
    }

    /// Changes a virtual machine: `power-on`, `power-off` or `destroy`.
    ///
    /// # Errors
    /// Fails if the vCenter does not do it.
    pub(super) async fn change(&self, action: &str, machine: &Machine) -> Result<()> {
        self.ask(&format!("/{action}/{}", machine.id))
            .await
            .map(drop)
    }

    async fn ask(&self, path: &str) -> Result<String> {
        let (status, text) = get(self.control, path).await?;
        ensure!(status == 200, "{path}: {text}");
        Ok(text)
    }
}
