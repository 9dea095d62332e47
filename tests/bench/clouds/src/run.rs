//! Runs all stages for one side, on its own control plane and cloud environment.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;
use skydock_bench::{Process, Progress, mebibytes, seconds};
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::{Balancer, Machine, View};

use crate::calm::Calm;
use crate::cluster::Fleet;
use crate::manager::{Manager, Programs};
use crate::picture;
use crate::place::{Cloud, Place};
use crate::scenario::{Figures, Kind, Side, Size, Stage};

/// How long a stage may take. Most take seconds.
const PATIENCE: Duration = Duration::from_secs(900);
/// The ports of every Service before and after the change.
const PORTS: [&str; 1] = ["TCP/80"];
const MORE_PORTS: [&str; 2] = ["TCP/80", "TCP/443"];

/// The results of a side.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) figures: BTreeMap<Stage, Figures>,
    /// Descriptions of cluster and cloud after [`Stage::Services`] and after [`Stage::Change`].
    pub(crate) pictures: BTreeMap<Stage, Value>,
    /// Differences between the resources in the cloud at the end and at the beginning.
    pub(crate) left: Vec<String>,
}

/// Runs all stages and writes calls and logs to the directory.
pub(crate) async fn side(
    kind: Kind,
    side: Side,
    programs: &Programs,
    size: &Size,
    traces: &Path,
    progress: &Progress,
) -> Result<Outcome> {
    progress.say(format!(
        "{}, {}: starting a cloud, a control plane and {} machines",
        kind.name(),
        side.name(),
        size.nodes
    ));
    let (plane, cloud) = (
        RealPlane::start_without_controllers().await?,
        Cloud::start(kind).await?,
    );
    let mut place = cloud.place(side).await?;
    let mut before = holdings(&place).await?;
    let machines = place
        .add(size.nodes)
        .await?
        .into_iter()
        .zip(1..)
        .map(|(machine, number)| (number, machine))
        .collect();
    place.site().proxy().set_latency(size.latency);
    let (folder, kubeconfig) = (plane.folder(), plane.kubeconfig_path());
    let manager = match programs.plugin_of(side) {
        None => Manager::peer(&programs.peer, &place, folder, kubeconfig)?,
        Some(plugin) => Manager::skydock(&programs.skydock, plugin, &place, folder, kubeconfig)?,
    };
    let fleet = Fleet::new(plane.client());
    let names = (1..=size.services)
        .map(|number| format!("service-{number}"))
        .collect();
    let mut run = Run {
        place,
        fleet,
        manager,
        process: None,
        size,
        machines,
        services: names,
        ports: &PORTS,
        leader: None,
    };
    let (mut figures, mut pictures, mut trace) = (BTreeMap::new(), BTreeMap::new(), String::new());
    for stage in Stage::ALL {
        let title = format!("{}, {}: {}", kind.name(), side.name(), stage.title(size));
        progress.say(title.clone());
        let last_words = |run: &Run<'_>| {
            run.process
                .as_ref()
                .map(Process::last_words)
                .unwrap_or_default()
        };
        let found = run
            .stage(stage)
            .await
            .with_context(|| format!("{title}; {}", last_words(&run)))?;
        progress.line(&format!("{title}: {}", told(&found)));
        run.trace(stage, &mut trace);
        figures.insert(stage, found);
        if matches!(stage, Stage::Services | Stage::Change) {
            pictures.insert(
                stage,
                picture::take(&run.fleet, &run.place, &run.machines).await?,
            );
        }
    }
    if let Some(mut process) = run.process.take() {
        process.stop().await?;
    }
    // For analysis of where the time is spent.
    fs::create_dir_all(traces)?;
    let name = format!("{}-{}", kind.name(), side.name());
    fs::write(traces.join(format!("{name}.calls")), trace)?;
    fs::copy(run.manager.log(), traces.join(format!("{name}.log")))?;
    for (stage, picture) in &pictures {
        fs::write(
            traces.join(format!("{name}-{}.json", stage.word())),
            serde_json::to_vec_pretty(picture)?,
        )?;
    }
    let after = holdings(&run.place).await?;
    let mut left = Vec::new();
    for (kind, count) in after {
        match before.remove(kind) {
            Some(was) if was == count => {}
            was => left.push(format!(
                "{kind}: {count}, before {}",
                was.unwrap_or_default()
            )),
        }
    }
    Ok(Outcome {
        figures,
        pictures,
        left,
    })
}

/// Returns the number of resources by kind, without those of instances, whose number does not
/// change.
async fn holdings(place: &Place<'_>) -> Result<BTreeMap<&'static str, usize>> {
    let all = place.site().holdings().await?;
    let of_machines = ["servers", "ports"];
    let of_clusters = all
        .into_iter()
        .filter(|(kind, _)| !of_machines.contains(kind));
    Ok(of_clusters
        .map(|(kind, things)| (kind, things.len()))
        .collect())
}

fn told(figures: &Figures) -> String {
    let time = |what: &str, time: Option<f64>| {
        time.map(|time| format!("{what}{}, ", seconds(time)))
            .unwrap_or_default()
    };
    format!(
        "{}{}{} calls, {:.2} s of CPU, {}, {} of it anonymous",
        time("", figures.seconds),
        time("last call after ", figures.seconds_of_calls),
        figures.all_calls(),
        figures.cpu_seconds,
        mebibytes(figures.peak_bytes),
        mebibytes(figures.peak_anonymous_bytes)
    )
}

struct Run<'a> {
    place: Place<'a>,
    fleet: Fleet,
    manager: Manager,
    process: Option<Process>,
    size: &'a Size,
    /// The instances with their numbers.
    machines: Vec<(usize, Machine)>,
    /// All Services of the run, and their ports.
    services: Vec<String>,
    ports: &'static [&'static str],
    leader: Option<String>,
}

impl Run<'_> {
    /// Writes each call of a stage: when it started (relative to the first call), how long it took,
    /// what it was, and how it ended.
    fn trace(&self, stage: Stage, trace: &mut String) {
        let calls = self.place.site().proxy().calls();
        let first = calls.iter().map(|call| call.at).min().unwrap_or_default();
        for call in calls {
            let at = call.at.saturating_sub(first).as_secs_f64();
            let (took, status) = (call.took.as_secs_f64(), call.status.unwrap_or_default());
            let _ = writeln!(
                trace,
                "{} {at:.3} {took:.3} {status} {} {}",
                stage.word(),
                call.operation,
                call.path
            );
        }
    }

    async fn stage(&mut self, stage: Stage) -> Result<Figures> {
        let (gone, new) = match stage {
            Stage::Nodes => (
                Vec::new(),
                self.machines
                    .iter()
                    .map(|(_, machine)| machine.clone())
                    .collect(),
            ),
            Stage::Replace => self.exchange().await?,
            _ => (Vec::new(), Vec::new()),
        };
        match stage {
            Stage::Services => self.ports = &PORTS,
            Stage::Change => self.ports = &MORE_PORTS,
            _ => {}
        }
        self.place.site().proxy().forget();
        let began = Instant::now();
        let (mut process, cpu) = match (stage, self.process.take()) {
            (Stage::Start | Stage::Restart, before) => {
                if let Some(mut before) = before {
                    before.stop().await?;
                }
                let process = self
                    .manager
                    .start(&self.fleet, self.leader.as_deref())
                    .await?;
                self.leader = self.fleet.leader().await?;
                (process, Duration::ZERO)
            }
            (_, process) => {
                let process = process.context("nothing runs")?;
                process.forget_peak()?;
                let cpu = process.cpu()?;
                (process, cpu)
            }
        };
        let played = self.played(stage, &gone, &new, &mut process).await;
        let process = self.process.insert(process);
        let (reached, last) = played?;
        let since = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
        Ok(Figures {
            seconds: reached.map(since),
            seconds_of_calls: last.map(since).filter(|_| stage != Stage::Rest),
            calls: self.place.site().proxy().counts(),
            cpu_seconds: process.cpu()?.saturating_sub(cpu).as_secs_f64(),
            peak_bytes: process.peak()?,
            peak_anonymous_bytes: process.peak_anonymous(),
        })
    }

    /// Returns the instances to remove and their replacements.
    async fn exchange(&mut self) -> Result<(Vec<Machine>, Vec<Machine>)> {
        let new = self.place.add(self.size.replaced()).await?;
        let gone: Vec<Machine> = self
            .machines
            .drain(..new.len())
            .map(|(_, machine)| machine)
            .collect();
        let next = self
            .machines
            .last()
            .map_or(self.size.nodes, |(number, _)| *number)
            + 1;
        self.machines.extend((next..).zip(new.iter().cloned()));
        for machine in &gone {
            self.place.site().delete(machine).await?;
        }
        Ok((gone, new))
    }

    /// Performs the stage. Returns when the cluster reached the expected state, and when the last
    /// call was answered.
    async fn played(
        &self,
        stage: Stage,
        gone: &[Machine],
        new: &[Machine],
        process: &mut Process,
    ) -> Result<(Option<Instant>, Option<Instant>)> {
        if stage == Stage::Rest {
            tokio::time::sleep(self.size.rest).await;
            return process.check().map(|()| (None, None));
        }
        let mut calm = Calm::new(self.place.site().proxy());
        let done = Cell::new(false);
        let act = async {
            let reached = self.act(stage, gone, new).await;
            done.set(true);
            reached
        };
        let (reached, calmed) = tokio::join!(act, calm.comes(process, &done, PATIENCE));
        let reached = reached?;
        calmed?;
        while let Some(wrong) = self.wrong(stage).await? {
            calm.comes(process, &done, PATIENCE).await.context(wrong)?;
        }
        Ok((reached, calm.last))
    }

    async fn act(
        &self,
        stage: Stage,
        gone: &[Machine],
        new: &[Machine],
    ) -> Result<Option<Instant>> {
        let (fleet, annotations) = (&self.fleet, self.place.site().annotations());
        let names = |machines: &[Machine]| {
            machines
                .iter()
                .map(|machine| machine.node.clone())
                .collect::<Vec<_>>()
        };
        let (gone, new) = (names(gone), names(new));
        let nodes: Vec<String> = self
            .machines
            .iter()
            .map(|(_, machine)| machine.node.clone())
            .collect();
        match stage {
            Stage::Start | Stage::Restart => Ok(Some(Instant::now())),
            Stage::Rest => Ok(None),
            Stage::Nodes | Stage::Replace => {
                let (reached, silenced, registered) = tokio::join!(
                    fleet.nodes_are(&nodes, PATIENCE),
                    fleet.silence(&gone),
                    fleet.register(&new)
                );
                silenced?;
                registered?;
                reached.map(Some)
            }
            Stage::Services => {
                let (reached, served) = tokio::join!(
                    fleet.services_are(&self.services, PATIENCE),
                    fleet.serve(&self.services, self.ports, &annotations)
                );
                served?;
                reached.map(Some)
            }
            Stage::Change => fleet
                .serve(&self.services, self.ports, &annotations)
                .await
                .map(|()| None),
            Stage::Delete => {
                let (reached, withdrawn) = tokio::join!(
                    fleet.services_are(&[], PATIENCE),
                    fleet.withdraw(&self.services)
                );
                withdrawn?;
                reached.map(Some)
            }
        }
    }

    /// Returns what in the cloud does not have the expected state yet.
    async fn wrong(&self, stage: Stage) -> Result<Option<String>> {
        let services = if stage <= Stage::Nodes || stage == Stage::Delete {
            0
        } else {
            self.services.len()
        };
        if services == 0 && stage != Stage::Delete {
            return Ok(None);
        }
        // Resources that are being deleted may disappear between two requests of the view.
        let view = match self.place.site().view().await {
            Ok(view) => view,
            Err(error) => return Ok(Some(format!("{error:#}"))),
        };
        let machines: BTreeSet<String> = self
            .machines
            .iter()
            .map(|(_, machine)| machine.id.clone())
            .collect();
        Ok(wrong(&view, services, self.ports, &machines))
    }
}

fn wrong(
    view: &View,
    services: usize,
    ports: &[&str],
    machines: &BTreeSet<String>,
) -> Option<String> {
    if view.balancers.len() != services {
        return Some(format!(
            "{} load balancers for {services} services",
            view.balancers.len()
        ));
    }
    let is_right = |balancer: &Balancer| {
        balancer.works
            && balancer.ports.len() == ports.len()
            && balancer
                .ports
                .iter()
                .all(|(port, behind)| ports.contains(&port.as_str()) && behind == machines)
    };
    let wrong = view.balancers.iter().find(|balancer| !is_right(balancer))?;
    Some(format!("{wrong:?}, and not {ports:?} with {machines:?}"))
}
