//! Measures routes below and above the limit, with only the route controller.

use std::time::Duration;

use anyhow::Result;
use skydock_bench::seconds;
use skydock_bench_scale::Order;
use tokio::time::sleep;

use crate::cost::Meter;
use crate::run::{Run, Stage};
use crate::scenario::Scenario;

/// The maximum number of routes in one answer that the host accepts (`Limits::routes` of the plugin
/// host).
pub(crate) const BOUND: u32 = 20_000;
/// Close to the limit. The operator must be warned at this number.
const CLOSE: u32 = BOUND / 100 * 95;
/// The interval between passes over all routes, and the number of passes that are measured.
const PERIOD: Duration = Duration::from_secs(10);
const PASSES: u32 = 3;
/// The event and the metric that warn before the limit is reached.
const EVENT: &str = "RoutesNearLimit";
const METRIC: &str = "skydock_routes_limit";
const FLAGS: [&str; 3] = [
    "--controllers=node-route-controller",
    "--cluster-cidr=10.0.0.0/8",
    "--route-check-period=10s",
];
/// How long the first pass may take, including writing its results.
const FIRST: Duration = Duration::from_secs(120);

impl Run<'_> {
    pub(crate) async fn routes(&mut self, stage: &mut Stage, too_many: bool) -> Result<()> {
        let there = u32::try_from(stage.cluster.stats().await?.nodes).unwrap_or(u32::MAX);
        let below = there.min(CLOSE);
        let first = self.first_pass(stage, Scenario::Routes, below).await?;
        let meter = Meter::start(Some(&stage.host.process), &stage.cluster.process)?;
        sleep(PERIOD * PASSES).await;
        let told = told(stage).await?;
        let mut note = match first {
            Some(time) => format!(
                "{below} routes, their nodes told so after {}",
                seconds(time)
            ),
            None => format!("{below} routes, their nodes not told"),
        };
        if below >= CLOSE {
            note.push_str(&format!(
                "; close to the bound, {}",
                told.as_deref().unwrap_or("and nobody is told")
            ));
        }
        self.done(
            stage,
            &meter,
            Scenario::Routes,
            PASSES,
            first.is_some(),
            note,
        )?;
        if too_many && there > BOUND {
            let meter = Meter::start(None, &stage.cluster.process)?;
            let first = self
                .first_pass(stage, Scenario::TooManyRoutes, there)
                .await?;
            let routed = stage.cluster.stats().await?.routed;
            let note = format!("{there} nodes, {routed} have their routes");
            self.done(
                stage,
                &meter,
                Scenario::TooManyRoutes,
                1,
                first.is_some() || told.is_some(),
                note,
            )?;
        }
        Ok(())
    }

    /// Starts Skydock with this number of routes in the cloud, and waits until the conditions of
    /// all nodes show their routes. Returns how long that took, or `None` if it took too long.
    async fn first_pass(
        &mut self,
        stage: &mut Stage,
        scenario: Scenario,
        routes: u32,
    ) -> Result<Option<f64>> {
        self.say_of(&scenario.title(self.size()));
        stage
            .cluster
            .order_each(0..routes, Order::GiveCidrs)
            .await?;
        stage.restart(self.programs(), routes, &FLAGS).await?;
        let meter = Meter::start(None, &stage.cluster.process)?;
        let routes = usize::try_from(routes).unwrap_or(usize::MAX);
        let reached = self
            .until_at_most(stage, FIRST, |stats| stats.routed >= routes)
            .await?;
        Ok(reached.then(|| meter.elapsed()))
    }
}

/// Returns the warnings about the number of routes, or `None` unless there are both the event and
/// the metric.
async fn told(stage: &Stage) -> Result<Option<String>> {
    let is_told = stage.cluster.stats().await?.events.contains_key(EVENT);
    let metric = stage.host.metrics(METRIC).await.into_iter().next();
    Ok(metric
        .filter(|_| is_told)
        .map(|metric| format!("told by the event {EVENT} and the metric {metric}")))
}
