//! Random changes of a cluster and its cloud.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use skydock_clusters::Plane;
use tokio::time::sleep;

use crate::{
    site::{Machine, Site},
    steps::{spoil::spoil, users::Users},
};

/// Maximum number of concurrent instances.
const MACHINES: usize = 5;
const SERVICES: [&str; 3] = ["web", "mail", "dns"];
const PORTS: [&str; 4] = ["TCP/80", "TCP/443", "UDP/53", "TCP/8443"];

/// An action of users or operators.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Stop,
    Start,
    Delete,
    Serve,
    KeepInside,
    Withdraw,
}

const STEPS: [Step; 9] = [
    Step::Join,
    Step::Stop,
    Step::Start,
    Step::Delete,
    Step::Serve,
    Step::Serve,
    Step::Serve,
    Step::KeepInside,
    Step::Withdraw,
];

/// A cluster that changes, in a cloud with faults.
pub(crate) struct Changes<'a> {
    pub(crate) users: Users<'a>,
    pub(crate) chance: StdRng,
    /// What the cloud held before the first change, except for what may be left.
    before: BTreeMap<&'static str, Vec<String>>,
}

impl<'a> Changes<'a> {
    /// Prepares changes that depend on a seed, in an empty site and on a plane without nodes.
    ///
    /// # Errors
    /// Fails if a request to the cloud or to the API server fails.
    pub(crate) async fn new(site: &'a mut dyn Site, plane: &dyn Plane, seed: u64) -> Result<Self> {
        let before = holdings(site).await?;
        Ok(Self {
            users: Users::of(site, plane).await?,
            chance: StdRng::seed_from_u64(seed),
            before,
        })
    }

    /// Injects random faults into the cloud, instead of those before.
    pub(crate) fn spoil(&mut self) {
        self.repair();
        spoil(self.users.site, &mut self.chance);
    }

    /// Removes all faults from the cloud.
    pub(crate) fn repair(&self) {
        self.users.site.proxy().clear_rules();
    }

    /// Waits for a random time of at most this.
    pub(crate) async fn pause(&mut self, most: Duration) {
        sleep(self.chance.random_range(Duration::ZERO..most)).await;
    }

    /// Performs the next step that is possible.
    ///
    /// # Errors
    /// Fails if a request to the cloud or to the API server fails.
    pub(crate) async fn step(&mut self) -> Result<()> {
        // There always is one: an instance can be created, or one can be stopped or started.
        loop {
            let step = *STEPS.choose(&mut self.chance).context("a step")?;
            if self
                .perform(step)
                .await
                .with_context(|| format!("{step:?}"))?
            {
                return Ok(());
            }
        }
    }

    /// Performs a step. Returns false if it is not possible.
    async fn perform(&mut self, step: Step) -> Result<bool> {
        match step {
            Step::Join if self.users.wanted.machines.len() < MACHINES => self.users.join(1).await?,
            Step::Join => return Ok(false),
            Step::Stop => {
                let Some(machine) = self.machine(true) else {
                    return Ok(false);
                };
                self.users.switch(&machine, false).await?;
            }
            Step::Start => {
                let Some(machine) = self.machine(false) else {
                    return Ok(false);
                };
                self.users.switch(&machine, true).await?;
            }
            Step::Delete => {
                let Some(machine) = self.machine(true) else {
                    return Ok(false);
                };
                self.users.delete(&machine).await?;
            }
            Step::Serve => return self.serve().await,
            Step::KeepInside => {
                let Some(service) = self.any_service() else {
                    return Ok(false);
                };
                self.users.keep_inside(&service).await?;
            }
            Step::Withdraw => {
                let Some(service) = self.any_service() else {
                    return Ok(false);
                };
                self.users.withdraw(&service).await?;
            }
        }
        Ok(true)
    }

    /// Returns a random instance in this state. The first instance always runs, so that load
    /// balancers have a member.
    fn machine(&mut self, runs: bool) -> Option<Machine> {
        let all: Vec<_> = self
            .users
            .wanted
            .machines
            .iter()
            .skip(1)
            .filter(|(_, seen)| *seen == runs)
            .collect();
        all.choose(&mut self.chance)
            .map(|(machine, _)| machine.clone())
    }

    fn any_service(&mut self) -> Option<String> {
        let all: Vec<_> = self.users.wanted.services.keys().cloned().collect();
        all.choose(&mut self.chance).cloned()
    }

    /// Creates a Service or changes its ports, unless one with the same name is being deleted.
    /// Returns false in that case.
    async fn serve(&mut self) -> Result<bool> {
        if self.users.site.has_only_nodes() {
            return Ok(false);
        }
        let name = *SERVICES.choose(&mut self.chance).context("a name")?;
        let count = self.chance.random_range(1..=2);
        let mut ports: Vec<&str> = PORTS
            .choose_multiple(&mut self.chance, count)
            .copied()
            .collect();
        if !self.users.site.mixes_protocols() {
            let protocol = ports
                .first()
                .and_then(|port| port.split('/').next())
                .unwrap_or_default()
                .to_owned();
            ports.retain(|port| port.starts_with(&protocol));
        }
        if self.users.cluster.is_deleted(name).await? {
            return Ok(false);
        }
        self.users.serve(name, &ports).await?;
        Ok(true)
    }

    /// Checks that the cloud holds what it held before the first change.
    ///
    /// # Errors
    /// Returns what it held before and holds at the end.
    pub(crate) async fn left_nothing(&self) -> Result<()> {
        let (before, after) = (&self.before, holdings(self.users.site).await?);
        ensure!(after == *before, "before {before:#?}\nafter {after:#?}");
        Ok(())
    }
}

/// Returns all resources that must not be left behind.
async fn holdings(site: &dyn Site) -> Result<BTreeMap<&'static str, Vec<String>>> {
    let mut all = site.holdings().await?;
    all.retain(|kind, _| !site.may_leave().contains(kind));
    Ok(all)
}
