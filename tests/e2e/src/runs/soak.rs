//! One host serves a cluster that changes all the time in a faulty cloud, for as long as its caller
//! wants: at the end, the state must be as expected, nothing may be left, and what the host takes
//! must not have grown.

mod growth;
mod sample;

use std::{
    fmt::{self, Display},
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use skydock_clusters::Plane;
use skydock_support::Host;

use self::{growth::SAMPLES, sample::Sample};
use crate::{
    hosts::Hosts,
    secrets,
    site::Site,
    steps::{changes::Changes, churn::generation},
};

/// How long it may take to reach the expected state after the last fault: the longest delay of a
/// retry is 5 minutes, and a provider that makes one call at a time may have others before it.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest pause after a step.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest time between two samples. A short run has more of them.
const EVERY: Duration = Duration::from_secs(60);
/// How long the cloud has the same kinds of faults.
const SPELL: Duration = Duration::from_secs(300);

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    lasted: Duration,
    settled_in: Duration,
    last: Sample,
    /// How each series has developed, in sentences.
    grown: Vec<String>,
    /// Where no secret was found.
    searched: String,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lasted,
            settled_in,
            last,
            grown,
            searched,
        } = self;
        let (minutes, seconds) = (lasted.as_secs_f64() / 60.0, settled_in.as_secs_f64());
        write!(
            f,
            "{minutes:.0} minutes: {}, well after {seconds:.1} s; {}",
            last.work(),
            grown.join(", ")
        )?;
        write!(f, "; secrets are in {searched}")
    }
}

struct Run<'a> {
    changes: Changes<'a>,
    steps: usize,
    /// Requests to the cloud, and those with injected faults.
    requests: (usize, usize),
    samples: Vec<Sample>,
}

/// Changes a cluster for this time, in an empty site and on a plane without nodes. Writes a line
/// for each sample.
///
/// # Errors
/// Returns the differences from the expected state, or what has grown, with all its values. The log
/// of the host is kept in this case.
pub async fn run(
    site: &mut dyn Site,
    plane: &dyn Plane,
    name: &str,
    lasting: Duration,
    lines: &mut (dyn Write + Send),
) -> Result<Report> {
    let mut hosts = Hosts::configure(
        site,
        name,
        plane.kubeconfig_path(),
        &["--leader-elect=false", "--v=4"],
    )?;
    // As in the container image: with many arenas the allocator keeps freed memory and grows for
    // minutes.
    hosts.set("MALLOC_ARENA_MAX=1");
    let changes = Changes::new(site, plane, 1).await?;
    let mut run = Run {
        changes,
        steps: 0,
        requests: (0, 0),
        samples: Vec::new(),
    };
    let played = run.play(&mut hosts, lasting, lines).await;
    played.with_context(|| format!("the log is in {}", Path::display(hosts.keep())))
}

impl Run<'_> {
    async fn play(
        &mut self,
        hosts: &mut Hosts,
        lasting: Duration,
        lines: &mut (dyn Write + Send),
    ) -> Result<Report> {
        self.changes.users.join(2).await?;
        let host = hosts.start().await?;
        // Some providers read their cloud many times before the first call, and do not repeat what
        // fails.
        self.changes.users.settle(PATIENCE).await?;
        let began = Instant::now();
        self.change(&host, lasting, lines).await?;
        self.changes.repair();
        let faults_end = Instant::now();
        self.changes.users.settle(PATIENCE).await?;
        let settled_in = faults_end.elapsed();
        self.changes.users.withdraw_all().await?;
        self.changes.users.delete_all().await?;
        self.changes.users.settle(PATIENCE).await?;

        let last = self.sample(&host, began.elapsed()).await?;
        growth::went_on(&self.samples)?;
        ensure!(
            generation(&host.scrape().await?) == 1.0,
            "the plugin was loaded again"
        );
        ensure!(
            last.traps == last.deadlines,
            "an instance was terminated, but not at a deadline: {last}"
        );
        let searched = secrets::shown_nowhere(
            host,
            hosts,
            &self.changes.users.cluster,
            &self.changes.users.site.secrets(),
        )
        .await?;
        self.changes.left_nothing().await?;
        let grown = growth::is_bounded(&self.samples)?;
        Ok(Report {
            lasted: lasting,
            settled_in,
            last,
            grown,
            searched,
        })
    }

    /// Changes the cluster, and takes samples meanwhile.
    async fn change(
        &mut self,
        host: &Host,
        lasting: Duration,
        lines: &mut (dyn Write + Send),
    ) -> Result<()> {
        let every = EVERY.min(lasting / SAMPLES);
        let (began, mut spoiled, mut sampled) = (Instant::now(), None, Instant::now());
        while began.elapsed() < lasting {
            if spoiled.is_none_or(|at: Instant| at.elapsed() >= SPELL) {
                self.changes.spoil();
                spoiled = Some(Instant::now());
            }
            self.changes.step().await?;
            self.steps += 1;
            self.changes.pause(PAUSE).await;
            if sampled.elapsed() >= every {
                sampled += every;
                let sample = self.sample(host, began.elapsed()).await?;
                writeln!(lines, "{sample}")?;
                self.samples.push(sample);
            }
        }
        Ok(())
    }

    async fn sample(&mut self, host: &Host, at: Duration) -> Result<Sample> {
        let proxy = self.changes.users.site.proxy();
        let calls = proxy.calls();
        proxy.forget();
        self.requests.0 += calls.len();
        self.requests.1 += calls.iter().filter(|call| !call.faults.is_empty()).count();
        Sample::of(host, at, self.steps, self.requests).await
    }
}
