//! Runs all scenarios for one size on one cluster.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use skydock_bench::{Progress, mebibytes, seconds};
use skydock_bench_scale::{Order, Stats};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::cost::{Meter, Row};
use crate::host::{Host, Programs};
use crate::scenario::{Scenario, Size};

const POLL: Duration = Duration::from_millis(20);
/// How long the cluster must be idle until the work counts as done.
const QUIET: Duration = Duration::from_secs(3);
/// How long the run waits for an idle cluster between scenarios. Longer work is included in the
/// figures of the next scenario.
const SETTLE: Duration = Duration::from_secs(60);
/// How long the idle cluster is measured.
const REST: Duration = Duration::from_secs(30);
/// How long nodes that do not report, but whose instances exist, are measured: slightly more than
/// two periods of the lifecycle controller.
const SILENCE: Duration = Duration::from_secs(12);
/// How often a kubelet reports an unchanged status (`nodeStatusReportFrequency`), in seconds.
const REPORTS: u32 = 300;
/// The number of repetitions of changing one node.
const CHANGES: u32 = 50;
/// The number of repetitions of removing a node from the load balancers, or adding it.
const PASSES: u32 = 2;
/// The call that updates the nodes of a load balancer.
pub(crate) const UPDATE: &str = "load-balancers.update-nodes";
/// The call that ensures a complete load balancer.
const ENSURE: &str = "load-balancers.ensure";
/// Flags for the measured work: as many nodes are deleted as are gone, and routes are not
/// configured.
const FLAGS: [&str; 2] = [
    "--node-deletion-limit=2000",
    "--configure-cloud-routes=false",
];

/// The results for one size.
#[derive(Debug, Serialize)]
pub(crate) struct Rows {
    pub(crate) size: Size,
    pub(crate) rows: Vec<Row>,
}

/// The run for one size.
pub(crate) struct Run<'a> {
    programs: &'a Programs,
    size: Size,
    limit: Duration,
    progress: &'a Progress,
    rows: Vec<Row>,
}

/// A cluster with a running Skydock.
pub(crate) struct Stage {
    folder: TempDir,
    pub(crate) cluster: Cluster,
    pub(crate) host: Host,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        programs: &'a Programs,
        size: Size,
        limit: Duration,
        progress: &'a Progress,
    ) -> Self {
        Self {
            programs,
            size,
            limit,
            progress,
            rows: Vec::new(),
        }
    }

    /// Runs the requested scenarios and those that they depend on.
    pub(crate) async fn all(mut self, wants: impl Fn(Scenario) -> bool) -> Result<Rows> {
        self.progress
            .say(format!("{}: registering nodes", self.size));
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let cluster = Cluster::start(&self.programs.api, folder.path()).await?;
        cluster
            .order_each(0..self.size.nodes, Order::Register)
            .await?;
        let host = Host::start(self.programs, folder.path(), &cluster.kubeconfig, 0, &FLAGS)?;
        let mut stage = Stage {
            folder,
            cluster,
            host,
        };
        let result = self.each(&mut stage, &wants).await;
        let ended = result.with_context(|| stage.host.process.last_words());
        ended?;
        Ok(Rows {
            size: self.size,
            rows: self.rows,
        })
    }

    async fn each(&mut self, stage: &mut Stage, wants: &impl Fn(Scenario) -> bool) -> Result<()> {
        self.settle(stage).await?;
        self.services(stage).await?;
        if wants(Scenario::Start) {
            self.start(stage).await?;
        }
        if wants(Scenario::Rest) {
            self.rest(stage).await?;
        }
        if wants(Scenario::OneNode) {
            self.one_node(stage).await?;
        }
        if wants(Scenario::Races) {
            self.races(stage).await?;
        }
        if wants(Scenario::LoadBalancers) {
            self.load_balancers(stage).await?;
        }
        if wants(Scenario::Silent) {
            self.silent(stage).await?;
        }
        if wants(Scenario::Gone) {
            self.gone(stage).await?;
        }
        if wants(Scenario::Routes) || wants(Scenario::TooManyRoutes) {
            self.routes(stage, wants(Scenario::TooManyRoutes)).await?;
        }
        Ok(())
    }

    async fn settle(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::Settle);
        let meter = Meter::start(None, &stage.cluster.process)?;
        let reached = self.until(stage, |stats| stats.uninitialized == 0).await?;
        self.done(stage, &meter, Scenario::Settle, 1, reached, String::new())?;
        self.quiet(stage).await.map(drop)
    }

    async fn services(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::Services);
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        stage
            .cluster
            .order_each(0..self.size.services, Order::Expose)
            .await?;
        let services = usize::try_from(self.size.services).unwrap_or(usize::MAX);
        let reached = self
            .until(stage, |stats| {
                stats.services == services && stats.without_address == 0
            })
            .await?;
        self.done(stage, &meter, Scenario::Services, 1, reached, String::new())?;
        self.quiet(stage).await.map(drop)
    }

    async fn start(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::Start);
        stage.restart(self.programs, 0, &FLAGS).await?;
        let meter = Meter::start(None, &stage.cluster.process)?;
        let reached = self.until(stage, |stats| stats.watches == 2).await?;
        self.done(stage, &meter, Scenario::Start, 1, reached, String::new())?;
        self.quiet(stage).await.map(drop)
    }

    async fn rest(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::Rest);
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        let before = total(&stage.host.calls().await);
        let seconds = u32::try_from(REST.as_secs()).unwrap_or(u32::MAX);
        for second in 0..seconds {
            let at = |second: u32| self.size.nodes * second / REPORTS;
            stage
                .cluster
                .order(&Order::Report(at(second)..at(second + 1)))
                .await?;
            sleep(Duration::from_secs(1)).await;
        }
        let calls = total(&stage.host.calls().await) - before;
        let note = format!("{calls} calls to the cloud in {seconds} s");
        self.done(stage, &meter, Scenario::Rest, seconds, true, note)
    }

    async fn one_node(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::OneNode);
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        let mut reached = true;
        for number in 0..CHANGES.min(self.size.nodes) {
            stage
                .cluster
                .order(&Order::Taint(number..number + 1))
                .await?;
            reached &= self.until(stage, |stats| stats.uninitialized == 0).await?;
        }
        self.done(
            stage,
            &meter,
            Scenario::OneNode,
            CHANGES,
            reached,
            String::new(),
        )
    }

    async fn races(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::Races);
        let many = self.size.many();
        let before = stage.cluster.stats().await?.conflicts;
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        stage.cluster.order(&Order::Race(0..many)).await?;
        stage.cluster.order(&Order::Taint(0..many)).await?;
        let reached = self.until(stage, |stats| stats.uninitialized == 0).await?;
        let conflicts = stage.cluster.stats().await?.conflicts - before;
        self.done(
            stage,
            &meter,
            Scenario::Races,
            1,
            reached,
            format!("{conflicts} answers of 409"),
        )?;
        self.quiet(stage).await.map(drop)
    }

    async fn load_balancers(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::LoadBalancers);
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        let (mut reached, mut told) = (true, 0);
        for pass in 0..PASSES {
            let excluded = pass % 2 == 0;
            let before = told_of_nodes(stage).await;
            stage
                .cluster
                .order(&Order::Exclude { node: 0, excluded })
                .await?;
            let begun = Instant::now();
            while told_of_nodes(stage).await < before + u64::from(self.size.services)
                || are_waiting(stage).await
            {
                stage.host.check()?;
                if begun.elapsed() > self.limit {
                    reached = false;
                    break;
                }
                sleep(POLL * 5).await;
            }
            told += told_of_nodes(stage).await - before;
        }
        let note = format!("{told} calls in {PASSES} passes");
        self.done(
            stage,
            &meter,
            Scenario::LoadBalancers,
            PASSES,
            reached,
            note,
        )
    }

    async fn silent(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::Silent);
        self.quiet(stage).await?;
        let nodes = 0..self.size.many();
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        let before = total(&stage.host.calls().await);
        stage
            .cluster
            .order(&Order::Silence {
                nodes: nodes.clone(),
                gone: false,
            })
            .await?;
        sleep(SILENCE).await;
        let calls = total(&stage.host.calls().await) - before;
        let note = format!("{calls} calls to the cloud in {} s", SILENCE.as_secs());
        self.done(stage, &meter, Scenario::Silent, 1, true, note)?;
        stage.cluster.order(&Order::Recover(nodes)).await?;
        self.quiet(stage).await.map(drop)
    }

    async fn gone(&mut self, stage: &mut Stage) -> Result<()> {
        self.say(Scenario::Gone);
        let nodes = self.size.nodes - self.size.many()..self.size.nodes;
        let left = usize::try_from(nodes.start).unwrap_or_default();
        let before = updates(stage).await;
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        stage
            .cluster
            .order(&Order::Silence { nodes, gone: true })
            .await?;
        let deleted = self.until(stage, |stats| stats.nodes == left).await?;
        let after = meter.elapsed();
        let reached = deleted && self.quiet(stage).await?;
        let told = updates(stage).await - before;
        let note = format!(
            "deleted after {}, {told} updates of load balancers",
            seconds(after)
        );
        self.done(stage, &meter, Scenario::Gone, 1, reached, note)
    }

    /// Waits for a condition of the API server's statistics. Returns false if that takes too long.
    async fn until(&self, stage: &mut Stage, reached: impl Fn(&Stats) -> bool) -> Result<bool> {
        self.until_at_most(stage, self.limit, reached).await
    }

    /// Like [`Self::until`], with a separate limit.
    pub(crate) async fn until_at_most(
        &self,
        stage: &mut Stage,
        limit: Duration,
        reached: impl Fn(&Stats) -> bool,
    ) -> Result<bool> {
        let begun = Instant::now();
        while !reached(&stage.cluster.stats().await?) {
            stage.host.check()?;
            if begun.elapsed() > limit.min(self.limit) {
                return Ok(false);
            }
            sleep(POLL).await;
        }
        Ok(true)
    }

    /// Waits until neither nodes nor services are written, and no load balancer is updated. Returns
    /// false if that takes too long.
    pub(crate) async fn quiet(&self, stage: &mut Stage) -> Result<bool> {
        let begun = Instant::now();
        let mut seen = (0.0, 0);
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            stage.host.check()?;
            let now = (
                stage.cluster.stats().await?.last_write,
                updates(stage).await,
            );
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if begun.elapsed() > SETTLE.min(self.limit) {
                return Ok(false);
            }
            sleep(POLL * 10).await;
        }
        Ok(true)
    }

    fn say(&self, scenario: Scenario) {
        self.progress
            .say(format!("{}: {}", self.size, scenario.title(self.size)));
    }

    pub(crate) fn say_of(&self, what: &str) {
        self.progress.say(format!("{}: {what}", self.size));
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    pub(crate) fn programs(&self) -> &'a Programs {
        self.programs
    }

    /// Ends a measurement and records its result.
    pub(crate) fn done(
        &mut self,
        stage: &Stage,
        meter: &Meter,
        scenario: Scenario,
        times: u32,
        reached: bool,
        note: String,
    ) -> Result<()> {
        let row = Row {
            reached,
            note,
            ..meter.row(scenario, times, &stage.host.process, &stage.cluster.process)?
        };
        self.progress.line(&format!(
            "{}: {}: {}{}, {:.3} s of CPU, {}; API server: {:.3} s of CPU, {}; {}",
            self.size,
            scenario.title(self.size),
            if reached { "" } else { "given up after " },
            seconds(row.seconds),
            row.cpu_seconds,
            mebibytes(row.peak_bytes),
            row.api_cpu_seconds,
            mebibytes(row.api_peak_bytes),
            row.note
        ));
        self.rows.push(row);
        Ok(())
    }
}

impl Stage {
    /// Restarts Skydock.
    pub(crate) async fn restart(
        &mut self,
        programs: &Programs,
        routes: u32,
        flags: &[&str],
    ) -> Result<()> {
        self.host.process.stop().await?;
        self.host = Host::start(
            programs,
            self.folder.path(),
            &self.cluster.kubeconfig,
            routes,
            flags,
        )?;
        Ok(())
    }
}

/// Returns how often the nodes of load balancers were updated.
async fn updates(stage: &Stage) -> u64 {
    stage
        .host
        .calls()
        .await
        .get(UPDATE)
        .copied()
        .unwrap_or_default()
}

/// Returns the number of updates plus the number of ensured services: a service whose periodic
/// check is due at that time is ensured instead.
async fn told_of_nodes(stage: &Stage) -> u64 {
    let calls = stage.host.calls().await;
    [UPDATE, ENSURE]
        .iter()
        .filter_map(|call| calls.get(*call))
        .sum()
}

/// Returns true while services wait for an update of their nodes.
async fn are_waiting(stage: &Stage) -> bool {
    stage
        .host
        .metrics("workqueue_depth{name=\"node\"}")
        .await
        .iter()
        .any(|line| !line.ends_with(" 0"))
}

fn total(calls: &std::collections::BTreeMap<String, u64>) -> u64 {
    calls.values().sum()
}
