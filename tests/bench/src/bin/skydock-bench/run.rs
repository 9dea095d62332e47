//! Runs all scenarios for one side, on its own control plane.

use anyhow::{Context as _, Result};
use skydock_bench::{Progress, mebibytes, seconds};

use crate::cluster::Cluster;
use crate::fleet::{name, none_of};
use crate::measure::{Goal, Measurement};
use crate::scenario::{Figures, Scenario, Size};
use crate::side::{Manager, Place, Programs, Side};

/// Runs these scenarios in order. The first one is always [`Scenario::Nodes`].
pub(crate) async fn side(
    side: Side,
    programs: &Programs,
    scenarios: &[Scenario],
    size: &Size,
    progress: &Progress,
) -> Result<Vec<(Scenario, Figures)>> {
    let mut stage = Stage::set(side, programs, size, progress).await?;
    let mut all = Vec::new();
    for scenario in scenarios {
        progress.say(format!("{}: {}", side.name(), scenario.title(size)));
        let figures = match scenario {
            Scenario::Nodes => stage.nodes().await,
            Scenario::Steady => stage.steady().await,
            Scenario::Services => stage.services().await,
            Scenario::Restart => stage.restart().await,
            Scenario::Replace => stage.replace().await,
            Scenario::Turns => continue,
        };
        let last_words = || {
            stage
                .manager
                .as_ref()
                .map(|manager| manager.process.last_words())
                .unwrap_or_default()
        };
        let figures = figures.with_context(|| {
            format!(
                "{}, {}; {}",
                side.name(),
                scenario.title(size),
                last_words()
            )
        })?;
        progress.line(&format!(
            "{}: {}: {}",
            side.name(),
            scenario.title(size),
            told(&figures)
        ));
        all.push((*scenario, figures));
    }
    if let Some(mut manager) = stage.manager.take() {
        manager.process.stop().await?;
    }
    Ok(all)
}

/// Returns the result of a scenario as text.
fn told(figures: &Figures) -> String {
    let time = figures
        .seconds
        .map(|time| format!("{}, ", seconds(time)))
        .unwrap_or_default();
    format!(
        "{time}{} requests, {} calls to the cloud, {:.2} s of CPU, {}",
        figures.requests.requests,
        figures.calls(),
        figures.cpu_seconds,
        mebibytes(figures.peak_bytes)
    )
}

struct Stage<'a> {
    side: Side,
    programs: &'a Programs,
    place: Place,
    size: &'a Size,
    cluster: Cluster,
    progress: &'a Progress,
    names: Vec<String>,
    manager: Option<Manager>,
}

impl<'a> Stage<'a> {
    async fn set(
        side: Side,
        programs: &'a Programs,
        size: &'a Size,
        progress: &'a Progress,
    ) -> Result<Self> {
        progress.say(format!("{}: starting a control plane", side.name()));
        let cluster = Cluster::start().await?;
        let place = Place::of(&cluster, size);
        let names: Vec<_> = (0..size.nodes).map(|number| name("node", number)).collect();
        progress.say(format!(
            "{}: registering {} nodes",
            side.name(),
            names.len()
        ));
        cluster.fleet.create_nodes(&names).await?;
        Ok(Self {
            side,
            programs,
            place,
            size,
            cluster,
            progress,
            names,
            manager: None,
        })
    }

    async fn nodes(&mut self) -> Result<Figures> {
        let manager = self
            .manager
            .insert(Manager::start(self.side, self.programs, &self.place)?);
        let mut measurement = Measurement::of_started(manager, &mut self.cluster.log);
        let goal = Goal::default().nodes_written(&self.names);
        let figures = measurement
            .reach(goal, |left| self.progress.left(left))
            .await?;
        self.cluster.fleet.all_initialized(self.names.len()).await?;
        Ok(figures)
    }

    async fn steady(&mut self) -> Result<Figures> {
        let manager = self.manager.as_mut().context("no manager runs")?;
        let mut measurement = Measurement::of_running(manager, &mut self.cluster.log).await?;
        let figures = tokio::select! {
            figures = measurement.last(self.size.steady) => figures?,
            failed = self.cluster.fleet.heartbeats(&self.names) => { failed?; anyhow::bail!("the kubelets are silent") }
        };
        Ok(Figures {
            seconds: None,
            ..figures
        })
    }

    async fn services(&mut self) -> Result<Figures> {
        let names: Vec<_> = (0..self.size.services)
            .map(|number| name("service", number))
            .collect();
        let manager = self.manager.as_mut().context("no manager runs")?;
        let mut measurement = Measurement::of_running(manager, &mut self.cluster.log).await?;
        let goal = Goal::default().services_written(&names);
        let (figures, created) = tokio::join!(
            measurement.reach(goal, |left| self.progress.left(left)),
            self.cluster.fleet.create_services(&names)
        );
        created?;
        none_of(
            "services have no address",
            &self.cluster.fleet.services_without_address().await?,
        )?;
        figures
    }

    async fn restart(&mut self) -> Result<Figures> {
        self.manager
            .take()
            .context("no manager runs")?
            .process
            .stop()
            .await?;
        self.cluster.log.read()?;
        let manager = self
            .manager
            .insert(Manager::start(self.side, self.programs, &self.place)?);
        let mut measurement = Measurement::of_started(manager, &mut self.cluster.log);
        tokio::select! {
            figures = measurement.last(self.size.steady) => figures,
            failed = self.cluster.fleet.heartbeats(&self.names) => { failed?; anyhow::bail!("the kubelets are silent") }
        }
    }

    async fn replace(&mut self) -> Result<Figures> {
        let manager = self.manager.as_mut().context("no manager runs")?;
        let count = self.size.replaced();
        let gone: Vec<_> = self.names.drain(..count).collect();
        let new: Vec<_> = (0..count)
            .map(|number| name("node", self.size.nodes + number))
            .collect();
        let fleet = &self.cluster.fleet;
        fleet.remove_machines(&gone).await?;
        let mut measurement = Measurement::of_running(manager, &mut self.cluster.log).await?;
        let goal = Goal::default().nodes_deleted(&gone).nodes_written(&new);
        let (figures, silenced, created) = tokio::join!(
            measurement.reach(goal, |left| self.progress.left(left)),
            fleet.silence(&gone),
            fleet.create_nodes(&new)
        );
        silenced?;
        created?;
        self.names.extend(new);
        self.cluster.fleet.all_initialized(self.names.len()).await?;
        figures
    }
}
