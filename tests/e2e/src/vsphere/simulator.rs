//! govmomi's simulator of a vCenter, as a program in Go.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};
use serde::Deserialize;
use skydock_clusters::go_binary;
use skydock_support::{Process, Seen, eventually, free_address, metrics::get};
use tempfile::TempDir;

use crate::authority::Authority;

/// The folder of its Go module.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vcsim");
/// The only user.
pub(super) const USER: &str = "skydock@vsphere.local";
pub(super) const PASSWORD: &str = "a-password-of-vsphere";
/// How long the start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Machine {
    /// The name of the guest, and therefore of the node.
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) address: String,
}

#[derive(Deserialize)]
struct State {
    server: String,
    machines: Vec<Machine>,
}

/// A vCenter with virtual machines. It ends when it is dropped.
pub(super) struct Simulator {
    _process: Process,
    _dir: TempDir,
    control: SocketAddr,
    authority: Authority,
    state: State,
}

impl Simulator {
    /// Starts a vCenter. The first start on a machine builds the simulator, which takes a minute.
    ///
    /// # Errors
    /// Fails if it cannot be built, or does not answer.
    pub(super) async fn start(machines: usize) -> Result<Self> {
        let binary = go_binary(Path::new(MODULE), "vcsim").await?;
        let (dir, control) = (tempfile::Builder::new().prefix("skydock-vcsim-").tempdir()?, free_address()?);
        let authority = Authority::new("vcsim")?;
        let leaf = authority.sign(Duration::from_secs(24 * 3600))?;
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|file| dir.path().join(file));
        fs::write(&certificate, leaf.certificate)?;
        fs::write(&key, leaf.key)?;
        let mut command = Command::new(binary);
        command.arg("-certificate").arg(certificate).arg("-key").arg(key);
        command.args([format!("-control={control}"), format!("-machines={machines}")]);
        command.args(["-user", USER, "-password", PASSWORD]);
        let process = Process::start("vcsim", command, &dir.path().join("vcsim.log"))?;
        let answered = eventually(PATIENCE, || async {
            Ok(match get(control, "/").await {
                Ok((200, text)) => Seen::Yes(text),
                other => Seen::NotYet(format!("{other:?}; {}", process.last_words())),
            })
        });
        let state = serde_json::from_str(&answered.await?)?;
        Ok(Self { _process: process, _dir: dir, control, authority, state })
    }

    /// Returns the host and port of the vCenter.
    pub(super) fn server(&self) -> &str {
        &self.state.server
    }

    /// Returns the certificate of the authority that has signed that of the vCenter, in PEM.
    pub(super) fn authority(&self) -> String {
        self.authority.pem()
    }

    /// Returns all virtual machines that were created.
    pub(super) fn machines(&self) -> &[Machine] {
        &self.state.machines
    }

    /// Changes a virtual machine: `power-on`, `power-off` or `destroy`.
    ///
    /// # Errors
    /// Fails if the vCenter does not do it.
    pub(super) async fn change(&self, action: &str, machine: &Machine) -> Result<()> {
        let (status, text) = get(self.control, &format!("/{action}/{}", machine.uuid)).await?;
        ensure!(status == 200, "{action} of {}: {text}", machine.name);
        Ok(())
    }
}
