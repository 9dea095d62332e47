//! Clusters in faulty clouds with a host that is killed: at the end, the state must be as expected, and nothing may be left.
//!
//! All events depend on a seed: the faults of the cloud, the actions of users and operators, and when the host is killed. Another
//! run with the same seed has the same events, but the host may be doing something else when it is killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use skydock_clouds::{Fault, Rule};
use skydock_clusters::Plane;
use skydock_support::Host;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    expect::Wanted,
    hosts::Hosts,
    site::{Machine, Site},
    tapes::{Figures, Tapes},
};

/// How long it may take to reach the expected state after the last fault: what failed for minutes is retried after minutes.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest pause after a step, and before the host is killed.
const PAUSE: Duration = Duration::from_millis(2500);
/// How long a killed process may take to end on a busy machine.
const END: Duration = Duration::from_secs(60);
/// Maximum number of concurrent instances.
const MACHINES: usize = 5;
const SERVICES: [&str; 3] = ["web", "mail", "dns"];
const PORTS: [&str; 4] = ["TCP/80", "TCP/443", "UDP/53", "TCP/8443"];

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The number of steps of users and operators.
    pub steps: usize,
    /// The number of times the host was killed.
    pub kills: usize,
    /// The number of requests to the cloud.
    pub requests: usize,
    /// The number of requests with injected faults.
    pub faults: usize,
    /// The time until the expected state was reached.
    pub settled_in: Duration,
    /// What was recorded, if anything.
    pub taped: Option<Figures>,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, kills, requests, faults, settled_in, taped } = self;
        let seconds = settled_in.as_secs_f64();
        write!(f, "{steps} steps, {kills} kills, {faults} faults in {requests} requests, well after {seconds:.1} s")?;
        taped.iter().try_for_each(|figures| write!(f, "; {figures}"))
    }
}

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

struct Run<'a> {
    site: &'a mut dyn Site,
    cluster: Cluster,
    hosts: Hosts,
    wanted: Wanted,
    chance: StdRng,
    report: Report,
}

/// The events of a run.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    /// What they depend on.
    pub seed: u64,
    /// The number of steps of users and operators.
    pub steps: usize,
    /// Where the hosts record them.
    pub tapes: Option<&'a Tapes>,
}

/// Runs the events of a seed, in an empty site and on a plane without nodes. Recordings must have no secrets, and replay exactly.
///
/// # Errors
/// Returns the differences from the expected state. The logs of the hosts are kept in this case.
pub async fn run(site: &mut dyn Site, plane: &dyn Plane, name: &str, course: Course<'_>) -> Result<Report> {
    let Course { seed, steps, tapes } = course;
    let before = holdings(site).await?;
    let recorded = tapes.map(Tapes::flag);
    let flags: Vec<_> = ["--leader-elect=false", "--v=4"].into_iter().chain(recorded.as_deref()).collect();
    let hosts = Hosts::configure(site, name, plane.kubeconfig_path(), &flags)?;
    let wanted = Wanted { labels: site.labels().to_vec(), ..Wanted::default() };
    let (cluster, chance) = (Cluster::new(plane.client()), StdRng::seed_from_u64(seed));
    let mut run = Run { site, cluster, hosts, wanted, chance, report: Report::default() };
    let played = run.play(steps).await;
    let ended = match played {
        Ok(()) => {
            let after = holdings(run.site).await?;
            if after == before { Ok(()) } else { Err(anyhow::anyhow!("before {before:#?}\nafter {after:#?}")) }
        }
        Err(error) => Err(error),
    };
    let ended = match (ended, tapes) {
        (Ok(()), Some(tapes)) => tapes.verify(run.site).await.map(|figures| run.report.taped = Some(figures)),
        (ended, _) => ended,
    };
    ended.with_context(|| format!("seed {seed}, the logs are in {}", Path::display(run.hosts.keep())))?;
    Ok(run.report)
}

/// Returns all resources that must not be left behind.
async fn holdings(site: &dyn Site) -> Result<BTreeMap<&'static str, Vec<String>>> {
    let mut all = site.holdings().await?;
    all.retain(|kind, _| !site.may_leave().contains(kind));
    Ok(all)
}

impl Run<'_> {
    async fn play(&mut self, steps: usize) -> Result<()> {
        self.join(2).await?;
        let mut host = self.hosts.start().await?;
        self.spoil();
        for _ in 0..steps {
            // Until a step is possible: a Service can always be created or changed.
            loop {
                let step = *STEPS.choose(&mut self.chance).context("a step")?;
                if self.step(step).await.with_context(|| format!("{step:?}"))? {
                    break;
                }
            }
            self.report.steps += 1;
            sleep(self.chance.random_range(Duration::ZERO..PAUSE)).await;
            if self.chance.random_bool(0.6) {
                host = self.kill(host).await?;
            }
        }
        self.site.proxy().clear_rules();
        let began = Instant::now();
        self.settle().await?;
        self.report.settled_in = began.elapsed();

        // The cleanup also runs with a faulty cloud, and the host is killed during it.
        self.spoil();
        for service in std::mem::take(&mut self.wanted.services).into_keys() {
            self.cluster.withdraw(&service).await?;
        }
        sleep(self.chance.random_range(Duration::ZERO..PAUSE)).await;
        host = self.kill(host).await?;
        for (machine, _) in std::mem::take(&mut self.wanted.machines) {
            self.site.delete(&machine).await?;
            self.cluster.remove(&machine.node).await?;
        }
        sleep(self.chance.random_range(Duration::ZERO..PAUSE)).await;
        host = self.kill(host).await?;
        self.site.proxy().clear_rules();
        self.settle().await?;
        let calls = self.site.proxy().calls();
        self.report.requests = calls.len();
        self.report.faults = calls.iter().filter(|call| !call.faults.is_empty()).count();
        Hosts::stop(host).await?;
        let logs = self.hosts.logs()?;
        ensure!(self.report.faults > 0 && self.report.kills > 0, "nothing went wrong: {:?}", self.report);
        ensure!(!self.site.secrets().iter().any(|secret| logs.contains(secret)), "a log has a secret in it");
        Ok(())
    }

    async fn kill(&mut self, mut host: Host) -> Result<Host> {
        host.kill()?;
        host.ended(END).await?;
        self.report.kills += 1;
        self.hosts.start().await
    }

    /// Injects random faults into the cloud.
    fn spoil(&mut self) {
        // AWS is eventually consistent by design. In OpenStack, only database replicas can be outdated.
        let (reads, stale) = match self.site.provider() {
            "aws" => ("*:Describe*", Duration::from_secs(4)),
            _ => ("GET *", Duration::from_millis(300)),
        };
        let faults = [
            ("*", Fault::Latency(Duration::ZERO, Duration::from_millis(300)), 0.3),
            ("*", Fault::Throttle(Some(1)), 0.04),
            ("*", Fault::Throttle(None), 0.02),
            ("*", Fault::Status(500), 0.04),
            ("*", Fault::Status(503), 0.04),
            ("*", Fault::Refused, 0.04),
            ("*", Fault::Lost, 0.08),
            ("*", Fault::Cut(40), 0.04),
            (reads, Fault::Stale(stale), 0.06),
            (reads, Fault::WrongPage, 0.03),
            (reads, Fault::Garbage("<html>maintenance</html>"), 0.03),
        ];
        for (operations, fault, probability) in faults {
            if self.chance.random_bool(0.7) {
                self.site.proxy().rule(Rule::new(operations, fault).with_probability(probability));
            }
        }
    }

    /// Performs a step. Returns false if it is not possible.
    async fn step(&mut self, step: Step) -> Result<bool> {
        match step {
            Step::Join if self.wanted.machines.len() < MACHINES => self.join(1).await.map(|()| true),
            Step::Join => Ok(false),
            Step::Stop => self.switch(false).await,
            Step::Start => self.switch(true).await,
            Step::Delete => self.delete().await,
            Step::Serve => self.serve().await,
            Step::KeepInside => {
                let Some(service) = self.any_service() else { return Ok(false) };
                self.cluster.keep_inside(&service).await?;
                self.wanted.services.remove(&service);
                Ok(true)
            }
            Step::Withdraw => {
                let Some(service) = self.any_service() else { return Ok(false) };
                self.cluster.withdraw(&service).await?;
                self.wanted.services.remove(&service);
                Ok(true)
            }
        }
    }

    async fn join(&mut self, count: usize) -> Result<()> {
        for machine in self.site.add(count).await? {
            self.cluster.register(&machine.node).await?;
            self.wanted.machines.push((machine, true));
        }
        Ok(())
    }

    /// Returns a random instance in this state. The first instance always runs, so that load balancers have a member.
    fn machine(&mut self, runs: bool) -> Option<Machine> {
        let all: Vec<_> = self.wanted.machines.iter().skip(1).filter(|(_, seen)| *seen == runs).collect();
        all.choose(&mut self.chance).map(|(machine, _)| machine.clone())
    }

    async fn switch(&mut self, on: bool) -> Result<bool> {
        let Some(machine) = self.machine(!on) else { return Ok(false) };
        if on {
            self.site.start(&machine).await?;
        } else {
            self.site.stop(&machine).await?;
        }
        self.cluster.set_ready(&machine.node, on).await?;
        for (one, runs) in &mut self.wanted.machines {
            if *one == machine {
                *runs = on;
            }
        }
        Ok(true)
    }

    async fn delete(&mut self) -> Result<bool> {
        let Some(machine) = self.machine(true) else { return Ok(false) };
        self.site.delete(&machine).await?;
        self.cluster.set_ready(&machine.node, false).await?;
        if self.cluster.is_initialized(&machine.node).await? {
            // With so few nodes, the brake would prevent the deletion.
            self.cluster.allow_deletion(&machine.node).await?;
        } else {
            // The host would delete it only after ten minutes.
            self.cluster.remove(&machine.node).await?;
        }
        self.wanted.machines.retain(|(one, _)| *one != machine);
        Ok(true)
    }

    fn any_service(&mut self) -> Option<String> {
        let all: Vec<_> = self.wanted.services.keys().cloned().collect();
        all.choose(&mut self.chance).cloned()
    }

    /// Creates a Service or changes its ports, unless one with the same name is being deleted. Returns false in that case.
    async fn serve(&mut self) -> Result<bool> {
        let name = *SERVICES.choose(&mut self.chance).context("a name")?;
        let count = self.chance.random_range(1..=2);
        let mut ports: Vec<&str> = PORTS.choose_multiple(&mut self.chance, count).copied().collect();
        if !self.site.mixes_protocols() {
            let protocol = ports.first().and_then(|port| port.split('/').next()).unwrap_or_default().to_owned();
            ports.retain(|port| port.starts_with(&protocol));
        }
        if self.cluster.is_deleted(name).await? {
            return Ok(false);
        }
        self.cluster.serve(name, &ports, &self.site.annotations()).await?;
        let ports: BTreeSet<String> = ports.into_iter().map(str::to_owned).collect();
        self.wanted.services.insert(name.to_owned(), ports);
        Ok(true)
    }

    /// Waits until cluster and cloud have the expected state.
    async fn settle(&self) -> Result<()> {
        self.wanted.seen(self.site, &self.cluster, PATIENCE).await
    }
}
