//! Clusters in faulty clouds with a host that is killed: at the end, the state must be as expected,
//! and nothing may be left.
//!
//! All events depend on a seed: the faults of the cloud, the actions of users and operators, and
//! when the host is killed. Another run with the same seed has the same events, but the host may be
//! doing something else when it is killed.

use std::{
    fmt::{self, Display},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rand::Rng as _;
use skydock_clusters::Plane;
use skydock_support::Host;

use crate::{
    hosts::Hosts,
    site::Site,
    steps::changes::Changes,
    tapes::{Figures, Tapes},
};

/// How long it may take to reach the expected state after the last fault: what failed for minutes
/// is retried after minutes.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest pause after a step, and before the host is killed.
const PAUSE: Duration = Duration::from_millis(2500);
/// How long a killed process may take to end on a busy machine.
const END: Duration = Duration::from_secs(60);

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
        let Self {
            steps,
            kills,
            requests,
            faults,
            settled_in,
            taped,
        } = self;
        let seconds = settled_in.as_secs_f64();
        write!(
            f,
            "{steps} steps, {kills} kills, {faults} faults in {requests} requests, well after {seconds:.1} s"
        )?;
        taped
            .iter()
            .try_for_each(|figures| write!(f, "; {figures}"))
    }
}

struct Run<'a> {
    changes: Changes<'a>,
    hosts: Hosts,
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

/// Runs the events of a seed, in an empty site and on a plane without nodes. Recordings must have
/// no secrets, and replay exactly.
///
/// # Errors
/// Returns the differences from the expected state. The logs of the hosts are kept in this case.
pub async fn run(
    site: &mut dyn Site,
    plane: &dyn Plane,
    name: &str,
    course: Course<'_>,
) -> Result<Report> {
    let Course { seed, steps, tapes } = course;
    let recorded = tapes.map(Tapes::flag);
    let flags: Vec<_> = ["--leader-elect=false", "--v=4"]
        .into_iter()
        .chain(recorded.as_deref())
        .collect();
    let hosts = Hosts::configure(site, name, plane.kubeconfig_path(), &flags)?;
    let changes = Changes::new(site, plane, seed).await?;
    let mut run = Run {
        changes,
        hosts,
        report: Report::default(),
    };
    let mut played = run.play(steps).await;
    if let (Ok(()), Some(tapes)) = (&played, tapes) {
        played = tapes
            .verify(run.changes.users.site)
            .await
            .map(|figures| run.report.taped = Some(figures));
    }
    played.with_context(|| {
        format!(
            "seed {seed}, the logs are in {}",
            Path::display(run.hosts.keep())
        )
    })?;
    Ok(run.report)
}

impl Run<'_> {
    async fn play(&mut self, steps: usize) -> Result<()> {
        self.changes.users.join(2).await?;
        let mut host = self.hosts.start().await?;
        self.changes.spoil();
        for _ in 0..steps {
            self.changes.step().await?;
            self.report.steps += 1;
            self.changes.pause(PAUSE).await;
            if self.changes.chance.random_bool(0.6) {
                host = self.kill(host).await?;
            }
        }
        self.changes.repair();
        let began = Instant::now();
        self.changes.users.settle(PATIENCE).await?;
        self.report.settled_in = began.elapsed();

        // The cleanup also runs with a faulty cloud, and the host is killed during it.
        self.changes.spoil();
        self.changes.users.withdraw_all().await?;
        self.changes.pause(PAUSE).await;
        host = self.kill(host).await?;
        self.changes.users.delete_all().await?;
        self.changes.pause(PAUSE).await;
        host = self.kill(host).await?;
        self.changes.repair();
        self.changes.users.settle(PATIENCE).await?;
        let calls = self.changes.users.site.proxy().calls();
        self.report.requests = calls.len();
        self.report.faults = calls.iter().filter(|call| !call.faults.is_empty()).count();
        Hosts::stop(host).await?;
        let logs = self.hosts.logs()?;
        ensure!(
            self.report.faults > 0 && self.report.kills > 0,
            "nothing went wrong: {:?}",
            self.report
        );
        ensure!(
            !self
                .changes
                .users
                .site
                .secrets()
                .iter()
                .any(|secret| logs.contains(secret)),
            "a log has a secret in it"
        );
        self.changes.left_nothing().await
    }

    async fn kill(&mut self, mut host: Host) -> Result<Host> {
        host.kill()?;
        host.ended(END).await?;
        self.report.kills += 1;
        self.hosts.start().await
    }
}
