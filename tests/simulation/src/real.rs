//! The same steps on a real API server with the built binary.
//!
//! Two hosts compete for the lease, and a third one runs with `--dry-run`. All of them use the API
//! server through a `Proxy` that injects the faults of a step. They are killed, stopped and
//! suspended at any time. Their cloud is the inventory file of the static provider. At the end, the
//! cluster must have the state that the inventory and the operator require. The audit log must show
//! that two hosts never wrote at the same time, and that the third one never wrote.
//!
//! Time is real here, so the pauses of a sequence and the periods of the hosts are shorter. Steps
//! that this cloud does not support, for example about routes, do nothing.

mod audit;
mod check;
mod cluster;
mod hosts;
mod proxy;

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{Api, Client};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use skydock_clusters::{Plane as _, RealPlane};
use skydock_devplane::{Fault, Rule, Verb};
use skydock_support::Paths;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use self::{cluster::Cluster, hosts::Contender, proxy::Proxy};
use crate::{Step, sequence::Sequence};

/// The factor by which pauses are shorter than on the embedded plane.
const HASTE: u32 = 4;
/// The longest suspension of a process, which is much longer than a lease.
const LONGEST_SUSPENSION: Duration = Duration::from_secs(15);
/// How long it may take to reach the expected state after the last fault: what failed for a minute
/// is retried after about a minute.
const PATIENCE: Duration = Duration::from_secs(300);
/// When an operator handles nodes that the brake keeps.
const OPERATOR: Duration = Duration::from_secs(60);
/// The interval between two checks of the state.
const BETWEEN: Duration = Duration::from_secs(1);
/// How long the expected state must persist.
const QUIET: Duration = Duration::from_secs(6);
/// Maximum number of writes in this time, without those to the lease and events. It allows a check
/// that is due, but no endless loop.
const QUIET_WRITES: usize = 4;
/// How long a host may take to stop after SIGTERM.
const STOP: Duration = Duration::from_secs(15);

/// The results of a sequence.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The time until the expected state was reached.
    pub settled_in: Duration,
    /// The number of failed requests to the API server.
    pub faults: u64,
    /// The number of writes of hosts in the audit log, without those to the lease and events.
    pub writes: usize,
    /// How often the lease changed its holder.
    pub leaders: usize,
}

/// A control plane, files, and the processes that use them.
struct Stage {
    cluster: Cluster,
    contenders: [Contender; 2],
    looker: Contender,
    proxy: Proxy,
    client: Client,
    chance: StdRng,
    plane: RealPlane,
    dir: TempDir,
}

/// Runs a sequence on its own control plane.
///
/// # Errors
/// Returns the differences from the expected state at the end. The error names the folder with all
/// logs, which is kept.
pub async fn run(seed: u64, sequence: &Sequence) -> Result<Report> {
    let mut stage = Stage::set(seed).await?;
    let played = stage.play(sequence).await;
    if played.is_err() {
        stage.dir.disable_cleanup(true);
        let log = stage.plane.audit_log();
        let _ = std::fs::copy(&log, stage.dir.path().join("audit.log"));
    }
    let place = format!("seed {seed}, logs in {}", stage.dir.path().display());
    stage.end().await;
    played.context(place)
}

impl Stage {
    async fn set(seed: u64) -> Result<Self> {
        let plane = RealPlane::start_without_controllers().await?;
        let dir = tempfile::Builder::new()
            .prefix("skydock-chaos-")
            .tempdir()?;
        let paths = Paths::of_checkout()?;
        let client = plane.client();
        let proxy = Proxy::start(plane.kubeconfig_path()).await?;
        let cluster = Cluster::new(client.clone(), dir.path().join("inventory.yaml"))?;
        let contender = async |name: &str, flags: &[&str]| {
            let token = hosts::account(&client, name).await?;
            std::fs::write(
                dir.path().join(format!("{name}.kubeconfig")),
                proxy.kubeconfig(&token),
            )?;
            Contender::start(&paths, dir.path(), name, flags)
        };
        let contenders = [
            contender("host-a", &[]).await?,
            contender("host-b", &[]).await?,
        ];
        let looker = contender(audit::LOOKER, &["--dry-run"]).await?;
        let chance = StdRng::seed_from_u64(seed);
        Ok(Self {
            cluster,
            contenders,
            looker,
            proxy,
            client,
            chance,
            plane,
            dir,
        })
    }

    async fn play(&mut self, sequence: &Sequence) -> Result<Report> {
        for (step, pause) in sequence {
            self.step(step)
                .await
                .with_context(|| format!("step {step:?}"))?;
            sleep(*pause / HASTE).await;
        }
        let settled_in = self.settle().await?;
        self.stop().await?;
        let log = self.audit()?;
        let mut wrongs = audit::wrongs(&log);
        wrongs.extend(
            self.contenders
                .iter()
                .chain([&self.looker])
                .flat_map(Contender::wrongs),
        );
        ensure!(wrongs.is_empty(), wrongs.join("\n"));
        Ok(Report {
            settled_in,
            faults: self.proxy.faults().met().values().sum(),
            writes: audit::work(&log).count(),
            leaders: audit::leaders(&log),
        })
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        let cluster = &mut self.cluster;
        match *step {
            Step::Register { node, with_id } => cluster.register(node, with_id).await?,
            Step::PowerOff(node) => cluster.power_off(node).await?,
            Step::PowerOn(node) => cluster.power_on(node).await?,
            Step::Silence(node) => cluster.silence(node).await?,
            Step::Wake(node) => cluster.wake(node).await?,
            Step::Vanish(node) => cluster.vanish(node).await?,
            Step::DeleteNode(node) => cluster.delete_node(node).await?,
            Step::Exclude { node, out } => cluster.exclude(node, out).await?,
            Step::Readdress(node) => cluster.readdress(node)?,
            Step::Relabel(node) => cluster.relabel(node).await?,
            Step::Outage(time) => cluster.outage(time / (HASTE * 2)).await?,
            Step::Create(service) => cluster.create(service).await?,
            Step::Port { service, port } => cluster.port(service, port).await?,
            Step::Note { service, note } => cluster.note(service, note).await?,
            Step::Reject { service, reject } => cluster.reject(service, reject).await?,
            Step::Type { service, balanced } => cluster.set_type(service, balanced).await?,
            Step::Delete(service) => cluster.delete(service).await?,
            Step::Kill { down } => self.any_contender()?.kill(down / HASTE),
            Step::Restart => self.any_contender()?.terminate(),
            Step::Swap => cluster.touch()?,
            // A partially written file, as after an editor was killed.
            Step::Cloud { .. } => cluster.tear()?,
            Step::Api { trouble, seed } => self
                .proxy
                .faults()
                .set(trouble.faults(), Step::chance(seed)),
            Step::ApiWell => self.proxy.faults().clear(),
            Step::CutWatches => self.proxy.cut_watches(),
            Step::Compact => {
                let expired = Rule::new(Fault::Expired).verbs(&[Verb::Watch]).times(6);
                self.proxy.faults().set(expired, Step::chance(0));
                self.proxy.cut_watches();
            }
            Step::Suspend(time) => {
                let time = (time / (HASTE * 10)).min(LONGEST_SUSPENSION);
                self.any_contender()?.suspend(time).await;
            }
            Step::Wait(time) => sleep(time / HASTE).await,
            // This cloud has no routes, and tests do not change the clock of the machine.
            Step::LoseRoutes(_)
            | Step::Blackhole(_)
            | Step::StrayRoute { .. }
            | Step::WallClock { .. } => {}
        }
        Ok(())
    }

    /// Returns one of the two hosts, usually the leader.
    fn any_contender(&mut self) -> Result<&Contender> {
        let log = self.audit()?;
        let leader = self.chance.random_bool(0.7);
        let [a, b] = &self.contenders;
        Ok(if (audit::leader(&log) == Some(b.name())) == leader {
            b
        } else {
            a
        })
    }

    /// Ends all faults, waits until the expected state is reached and persists, and returns the
    /// time it took.
    async fn settle(&mut self) -> Result<Duration> {
        self.proxy.faults().clear();
        self.cluster.touch()?;
        let start = Instant::now();
        loop {
            let differences = self.cluster.differences().await?;
            if differences.is_empty() {
                break;
            }
            if start.elapsed() > OPERATOR {
                self.cluster.allow_deletions().await?;
            }
            if start.elapsed() > PATIENCE {
                let holder = self.holder().await;
                bail!(
                    "after {PATIENCE:?} without faults, and {holder} leads:\n{}",
                    differences.join("\n")
                );
            }
            sleep(BETWEEN).await;
        }
        let took = start.elapsed();
        let before = audit::work(&self.audit()?).count();
        sleep(QUIET).await;
        let writes = audit::work(&self.audit()?).count() - before;
        ensure!(
            writes <= QUIET_WRITES,
            "{writes} writes in {QUIET:?} in which nothing happened"
        );
        let differences = self.cluster.differences().await?;
        ensure!(
            differences.is_empty(),
            "it did not stay so:\n{}",
            differences.join("\n")
        );
        Ok(took)
    }

    async fn stop(&self) -> Result<()> {
        for contender in self.contenders.iter().chain([&self.looker]) {
            contender.stop(STOP).await?;
        }
        Ok(())
    }

    /// Ends all processes, so that none outlives the folder with its files.
    async fn end(self) {
        for contender in self.contenders.iter().chain([&self.looker]) {
            contender.end().await;
        }
    }

    async fn holder(&self) -> String {
        let leases = Api::<Lease>::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get("cloud-controller-manager").await.ok();
        lease
            .and_then(|lease| lease.spec?.holder_identity)
            .unwrap_or_else(|| "nobody".to_owned())
    }

    fn audit(&self) -> Result<Vec<audit::Write>> {
        audit::read(&self.plane.audit_log())
    }
}

/// Returns all nodes by name.
async fn list_nodes(client: &Client) -> Result<BTreeMap<String, Node>> {
    let nodes = Api::<Node>::all(client.clone())
        .list(&kube::api::ListParams::default())
        .await?;
    Ok(nodes
        .into_iter()
        .map(|node| (node.metadata.name.clone().unwrap_or_default(), node))
        .collect())
}

/// Replaces a file atomically.
fn replace(file: &Path, text: &str) -> Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, file)?;
    Ok(())
}
