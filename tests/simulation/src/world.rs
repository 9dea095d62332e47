//! The world and its expected state.

mod check;
mod network;
mod nodes;
mod outage;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::SignedDuration;
use kube::Client;
use skydock_devplane::DevPlane;
use tokio::time::{Instant, advance, sleep};

use self::{nodes::NodeModel, services::ServiceModel};
use crate::{Cloud, Host, Step, Trouble, host, host::Lease};

/// How long it may take to reach the expected state after the last failure: a node may be retried
/// only after 1000 s, and a watch without events is detected after 5 minutes.
const PATIENCE: Duration = Duration::from_secs(3600);
/// When an operator handles nodes that the brake keeps: all missing nodes are detected by this
/// time, and previous deletions do not count.
const OPERATOR: Duration = Duration::from_secs(1800);
/// The maximum interval between two checks of the state.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long the expected state must persist.
const QUIET: Duration = Duration::from_secs(60);
/// Maximum number of calls in this time that change something in the cloud. It allows each pending
/// change once, but no endless loop.
const QUIET_CALLS: usize = 20;

/// Plane, cloud, host, and their expected state. Requires a single-threaded runtime with paused
/// time.
pub struct World {
    plane: DevPlane,
    operator: Client,
    cloud: Cloud,
    lease: Lease,
    host: Option<Host>,
    nodes: BTreeMap<&'static str, NodeModel>,
    /// The UIDs of Nodes whose instance is gone.
    vanished: BTreeSet<String>,
    services: BTreeMap<&'static str, ServiceModel>,
    /// Errors in addition to the differences at the end.
    wrongs: Vec<String>,
}

impl World {
    /// Creates an empty cluster with an empty cloud and a running host.
    ///
    /// # Errors
    /// Fails if the plane cannot be started.
    pub async fn new(seed: u64) -> Result<Self, String> {
        let plane = DevPlane::start(skydock_devplane::Options::default())
            .await
            .map_err(|error| error.to_string())?;
        let cloud = Cloud::new(seed);
        let operator = host::client(plane.router(), "operator");
        let lease = Lease::default();
        let host = Some(Host::start(&plane, &cloud, &lease));
        Ok(Self {
            plane,
            operator,
            cloud,
            lease,
            host,
            nodes: BTreeMap::new(),
            vanished: BTreeSet::new(),
            services: BTreeMap::new(),
            wrongs: Vec::new(),
        })
    }

    /// Returns the cloud.
    #[must_use]
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Returns the control plane.
    #[must_use]
    pub fn plane(&self) -> &DevPlane {
        &self.plane
    }

    /// Performs one step.
    ///
    /// # Errors
    /// Fails if the operator cannot perform it. Faults do not affect the operator.
    pub async fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Register { node, with_id } => self.register(node, with_id).await?,
            Step::PowerOff(node) => self.power_off(node)?,
            Step::PowerOn(node) => self.power_on(node).await?,
            Step::Silence(node) => self.silence(node)?,
            Step::Wake(node) => self.wake(node).await?,
            Step::Vanish(node) => self.vanish(node)?,
            Step::DeleteNode(node) => self.delete_node(node).await?,
            Step::Exclude { node, out } => self.exclude(node, out).await?,
            Step::Readdress(node) => self.readdress(node),
            Step::Relabel(node) => self.relabel(node).await?,
            Step::LoseRoutes(node) => self.cloud.lose_routes(node),
            Step::Blackhole(node) => self.cloud.blackhole(node),
            Step::StrayRoute { cidr, node } => self.cloud.stray_route(cidr, node),
            Step::Outage(time) => self.outage(time).await?,
            Step::Create(service) => self.create(service).await?,
            Step::Port { service, port } => self.port(service, port).await?,
            Step::Note { service, note } => self.note(service, note).await?,
            Step::Reject { service, reject } => self.reject(service, reject).await?,
            Step::Type { service, balanced } => self.set_type(service, balanced).await?,
            Step::Delete(service) => self.delete(service).await?,
            Step::Kill { down } => {
                if let Some(host) = self.host.take() {
                    host.kill().await;
                }
                sleep(down).await;
                self.start_host();
            }
            Step::Restart => {
                if let Some(host) = self.host.take() {
                    host.stop().await?;
                }
                self.start_host();
            }
            Step::Swap => self.host.iter().for_each(Host::swap),
            Step::Cloud { calls } => self.cloud.trouble(Trouble::next(calls)),
            Step::Api { trouble, seed } => self
                .plane
                .faults()
                .set(trouble.faults(), Step::chance(seed)),
            Step::ApiWell => self.plane.faults().clear(),
            Step::CutWatches => self.plane.cut_watches(),
            Step::Compact => {
                self.plane.compact();
                self.plane.cut_watches();
            }
            Step::Suspend(time) => advance(time).await,
            Step::WallClock { hours } => self.plane.shift_clock(SignedDuration::from_hours(hours)),
            Step::Wait(time) => sleep(time).await,
        }
        self.watch_pod_cidrs().await
    }

    /// Performs steps with a short delay after each.
    ///
    /// # Errors
    /// See [`World::step`].
    pub async fn steps(&mut self, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            self.step(step).await?;
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Ends all failures, waits until the expected state is reached and persists, and returns the
    /// time it took.
    ///
    /// # Errors
    /// Returns all differences from the expected state.
    pub async fn settle(&mut self) -> Result<Duration, String> {
        self.plane.faults().clear();
        self.cloud.trouble(Trouble::default());
        let start = Instant::now();
        let mut pause = Duration::from_millis(500);
        loop {
            let differences = self.differences().await?;
            if differences.is_empty() {
                break;
            }
            if start.elapsed() > OPERATOR {
                self.allow_deletions().await?;
            }
            if start.elapsed() > PATIENCE {
                return Err(format!(
                    "after {PATIENCE:?} without faults:\n{}",
                    differences.join("\n")
                ));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let took = start.elapsed();
        let before = self.changing_calls();
        sleep(QUIET).await;
        let mut differences = self.differences().await?;
        let calls = self.changing_calls() - before;
        if calls > QUIET_CALLS {
            differences.push(format!(
                "{calls} calls of the cloud in {QUIET:?} in which nothing happened"
            ));
        }
        differences.extend(self.cloud.wrongs());
        differences.append(&mut self.wrongs);
        if self.host.as_ref().is_none_or(Host::ended) {
            differences.push("the host has ended by itself".to_owned());
        }
        if differences.is_empty() {
            Ok(took)
        } else {
            Err(differences.join("\n"))
        }
    }

    fn start_host(&mut self) {
        self.host = Some(Host::start(&self.plane, &self.cloud, &self.lease));
    }

    fn changing_calls(&self) -> usize {
        let changes = |call: &&String| {
            ["ensure", "update", "create", "delete"]
                .iter()
                .any(|verb| call.starts_with(verb))
        };
        self.cloud.calls().iter().filter(changes).count()
    }
}
