//! Starts each side.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Advice, fadvise};
use skydock_bench::Process;
use skydock_e2e::{Plugin, configured};
use skydock_peers::{Peer, Settings};
use skydock_support::{free_address, metrics};

use crate::cluster::Fleet;
use crate::place::{CLUSTER, Place};
use crate::scenario::Side;

/// How long a start may take, including the compilation of the plugin and waiting for a lease that
/// was not released.
const PATIENCE: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(25);

/// The programs that are started.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) skydock: PathBuf,
    pub(crate) plugin: PathBuf,
    /// The peer's provider as a plugin.
    pub(crate) go_plugin: PathBuf,
    pub(crate) peer: Peer,
}

impl Programs {
    /// Returns the plugin of a side, or `None` without our host.
    pub(crate) fn plugin_of(&self, side: Side) -> Option<&Path> {
        Some(match side.plugin()? {
            Plugin::Native => &self.plugin,
            Plugin::Go => &self.go_plugin,
        })
    }
}

/// A side that can be started any number of times.
pub(crate) struct Manager {
    how: How,
    log: PathBuf,
}

enum How {
    Peer(Peer, Box<Settings>),
    Skydock {
        binary: PathBuf,
        arguments: Vec<String>,
        address: SocketAddr,
    },
}

impl Manager {
    /// Prepares the official cloud controller manager, tuned: 20 workers, no client rate limit, no
    /// routes.
    pub(crate) fn peer(
        peer: &Peer,
        place: &Place<'_>,
        folder: &Path,
        kubeconfig: &Path,
    ) -> Result<Self> {
        let settings = place.peer_settings(folder, kubeconfig)?;
        Ok(Self {
            how: How::Peer(peer.clone(), Box::new(settings)),
            log: folder.join("peer.log"),
        })
    }

    /// Prepares Skydock with its defaults, without routes. The plugin is not compiled yet.
    pub(crate) fn skydock(
        binary: &Path,
        plugin: &Path,
        place: &Place<'_>,
        folder: &Path,
        kubeconfig: &Path,
    ) -> Result<Self> {
        let files = folder.join("skydock");
        std::fs::create_dir_all(&files)?;
        let document = configured(place.site(), plugin, &files, CLUSTER)?;
        let config = files.join("config.yaml");
        std::fs::write(&config, serde_json::to_vec_pretty(&document)?)?;
        let address = free_address()?;
        let arguments = vec![
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--plugin-cache-dir={}", files.join("compiled").display()),
            format!("--cluster-name={CLUSTER}"),
            "--secure-port=0".to_owned(),
            format!("--metrics-bind-address={address}"),
            "--configure-cloud-routes=false".to_owned(),
        ];
        let how = How::Skydock {
            binary: binary.to_owned(),
            arguments,
            address,
        };
        Ok(Self {
            how,
            log: folder.join("skydock.log"),
        })
    }

    /// Returns the path of its log.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Starts the side and waits until it leads. `before` is the previous leader.
    pub(crate) async fn start(&self, fleet: &Fleet, before: Option<&str>) -> Result<Process> {
        let command = match &self.how {
            How::Peer(peer, settings) => {
                forget_pages(peer.binary())?;
                peer.command(settings)
            }
            How::Skydock {
                binary, arguments, ..
            } => {
                forget_pages(binary)?;
                let mut command = Command::new(binary);
                // As in the container image.
                command.args(arguments).env("MALLOC_ARENA_MAX", "1");
                command
            }
        };
        let mut process = Process::start(command, &self.log)?;
        let began = Instant::now();
        while !self.leads(fleet, before).await? {
            process.check()?;
            if began.elapsed() > PATIENCE {
                bail!("does not lead; {}", process.last_words());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(process)
    }

    async fn leads(&self, fleet: &Fleet, before: Option<&str>) -> Result<bool> {
        let leader = fleet.leader().await.context("look for the leader")?;
        let leads = leader.is_some_and(|leader| Some(leader.as_str()) != before);
        Ok(match &self.how {
            How::Peer(..) => leads,
            How::Skydock { address, .. } => {
                leads && metrics::is_ready(*address).await.unwrap_or(false)
            }
        })
    }
}

/// Has the kernel read a program from the disk again. What a build has just written is in the cache
/// in pieces of up to 2 MiB, which are mapped as a whole: without this, the memory of a program
/// would depend on how long ago it was built.
fn forget_pages(program: &Path) -> Result<()> {
    let failed = || format!("cannot drop the cached pages of {}", program.display());
    let file = File::open(program).with_context(failed)?;
    // Only pages that are on the disk can be dropped.
    file.sync_all().with_context(failed)?;
    fadvise(&file, 0, None, Advice::DontNeed).with_context(failed)
}
