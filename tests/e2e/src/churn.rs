//! Services that change and change, while something is done to the host that nobody may notice.

use std::{
    collections::BTreeSet,
    fmt::{self, Display},
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams};
use skydock_planes::Plane;
use skydock_story::{host::Host, metrics::Scrape};
use tokio::{sync::watch, time::sleep};

use crate::{cluster::Cluster, expect::Wanted, hosts::Hosts, site::Site};

/// How long all may take to be as it should be.
const PATIENCE: Duration = Duration::from_secs(300);
/// The ports of a Service, one after the other.
const PORTS: [&[&str]; 4] = [&["TCP/80"], &["TCP/80", "TCP/443"], &["TCP/8443"], &["TCP/443", "TCP/8443"]];

/// What was done, and what it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Services that changed.
    pub services: usize,
    /// How often one of them changed meanwhile.
    pub changes: usize,
    /// Requests to the cloud meanwhile.
    pub requests: usize,
    /// Those of them that the cloud refused for want of the right credentials.
    pub refused: usize,
    /// How long that lasted.
    pub lasted: Duration,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { services, changes, requests, refused, lasted } = self;
        let seconds = lasted.as_secs_f64();
        write!(
            f,
            "{changes} changes of {services} Services in {seconds:.1} s: {requests} requests, {refused} of them refused"
        )
    }
}

/// Services that change.
pub struct Churn<'a> {
    site: &'a mut dyn Site,
    plane: &'a dyn Plane,
    /// The cluster's objects.
    pub cluster: Cluster,
    wanted: Wanted,
    services: usize,
    pace: Duration,
}

impl<'a> Churn<'a> {
    /// So many Services, of which one changes at this pace.
    pub fn new(site: &'a mut dyn Site, plane: &'a dyn Plane, services: usize, pace: Duration) -> Self {
        let wanted = Wanted { labels: site.labels().to_vec(), ..Wanted::default() };
        Self { cluster: Cluster::new(plane.client()), site, plane, wanted, services, pace }
    }

    /// Two machines, and all Services, served by this host.
    ///
    /// # Errors
    /// What is not as it should be in the end.
    pub async fn begin(&mut self) -> Result<()> {
        for machine in self.site.add(2).await? {
            self.cluster.register(&machine.node).await?;
            self.wanted.machines.push((machine, true));
        }
        for number in 0..self.services {
            self.change(number).await?;
        }
        self.settle().await
    }

    /// Changes Services for as long as something else is done, and then waits until all is as it should be.
    ///
    /// # Errors
    /// That of what is done, or what is not as it should be in the end.
    pub async fn during<T>(&mut self, host: &Host, other: impl Future<Output = Result<T>>) -> Result<(T, Report)> {
        self.site.proxy().forget();
        let (done, ended) = watch::channel(false);
        let began = Instant::now();
        let other = async {
            let result = other.await;
            done.send_replace(true);
            result
        };
        let changing = async {
            let mut changes = 0;
            while !*ended.borrow() {
                self.change(changes).await?;
                changes += 1;
                sleep(self.pace).await;
            }
            Ok::<_, anyhow::Error>(changes)
        };
        let (other, changes) = tokio::try_join!(other, changing)?;
        self.settle().await?;
        let calls = self.site.proxy().calls();
        let refused = calls.iter().filter(|call| matches!(call.status, Some(401 | 403))).count();
        let (services, lasted) = (self.services, began.elapsed());
        // It answers: it is the process that it was.
        host.scrape().await?;
        Ok((other, Report { services, changes, requests: calls.len(), refused, lasted }))
    }

    /// Changes the ports of a Service, each in its turn.
    async fn change(&mut self, number: usize) -> Result<()> {
        let name = format!("web-{}", number % self.services);
        let round = number / self.services + number;
        let ports = PORTS.get(round % PORTS.len()).context("ports")?;
        self.cluster.serve(&name, ports, &self.site.annotations()).await?;
        let ports: BTreeSet<String> = ports.iter().map(|&port| port.to_owned()).collect();
        self.wanted.services.insert(name, ports);
        Ok(())
    }

    async fn settle(&self) -> Result<()> {
        self.wanted.seen(self.site, &self.cluster, PATIENCE).await
    }

    /// The warnings there are, in any namespace.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn warnings(&self) -> Result<Vec<String>> {
        let events: Api<Event> = Api::all(self.plane.client());
        let warnings = events.list(&ListParams::default()).await?.items.into_iter();
        let warnings = warnings.filter(|event| event.type_.as_deref() == Some("Warning"));
        let told = warnings.map(|event| {
            let of = event.involved_object.name.unwrap_or_default();
            format!("{of}: {}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
        });
        Ok(told.collect())
    }

    /// Nobody has noticed anything: no warning, no error of a controller, no call of the plugin that failed, and these generations.
    ///
    /// # Errors
    /// What somebody has noticed.
    pub async fn went_unnoticed(&self, host: &Host) -> Result<()> {
        let warnings = self.warnings().await?;
        ensure!(warnings.is_empty(), "{} warnings: {}", warnings.len(), warnings.join("\n"));
        let seen = host.scrape().await?;
        let failed = seen.sum("skydock_controller_errors_total", &[]);
        ensure!(failed == 0.0, "{failed} errors of controllers");
        let failed = failed_calls(&seen);
        ensure!(failed == 0.0, "{failed} calls of the plugin failed");
        Ok(())
    }

    /// What the plugin has certainly had in its memory.
    ///
    /// # Errors
    /// When there is no machine.
    pub fn known_to_the_guest(&self) -> Result<&str> {
        Ok(&self.wanted.machines.first().context("a machine")?.0.id)
    }
}

/// The number of the generation in service.
#[must_use]
pub fn generation(seen: &Scrape) -> f64 {
    seen.sum("skydock_plugin_generation", &[])
}

/// Calls that did not do what was asked. One that goes on in the cloud, and is asked again, has not failed.
fn failed_calls(seen: &Scrape) -> f64 {
    let of = |outcome| seen.sum("skydock_plugin_calls_total", &[("outcome", outcome)]);
    seen.sum("skydock_plugin_calls_total", &[]) - of("ok") - of("in-progress")
}

/// A number of an environment variable, or another one.
#[must_use]
pub fn number(variable: &str, or: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// Leaves logs and files where they are if something went wrong.
///
/// # Errors
/// The same, with the place.
pub fn told<T>(result: Result<T>, hosts: &mut Hosts) -> Result<T> {
    result.with_context(|| format!("the logs are in {}", hosts.keep().display()))
}
