//! Services that change continuously while something is done to the host that must not be noticed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::ListParams};
use skydock_clusters::Plane;
use skydock_support::{Host, Scrape};
use tokio::{sync::watch, time::sleep};

use crate::{
    cluster::Cluster,
    hosts::Hosts,
    site::{Machine, Site},
    steps::expect::Wanted,
};

/// How long it may take to reach the expected state, and the additional time per Service: a real
/// Octavia on this machine works for seconds on each.
const PATIENCE: Duration = Duration::from_secs(180);
const PATIENCE_EACH: Duration = Duration::from_secs(10);
/// The ports of a Service, in the order of its changes.
const PORTS: [&[&str]; 4] = [
    &["TCP/80"],
    &["TCP/80", "TCP/443"],
    &["TCP/8443"],
    &["TCP/443", "TCP/8443"],
];

/// The amount of changes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The number of Services.
    pub services: usize,
    /// The interval between two changes.
    pub pace: Duration,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The number of Services that changed.
    pub services: usize,
    /// The number of changes.
    pub changes: usize,
    /// The number of requests to the cloud.
    pub requests: usize,
    /// The number of requests that the cloud rejected because of wrong credentials.
    pub rejected: usize,
    /// The duration.
    pub lasted: Duration,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            services,
            changes,
            requests,
            rejected,
            lasted,
        } = self;
        let seconds = lasted.as_secs_f64();
        write!(
            f,
            "{changes} changes of {services} Services in {seconds:.1} s: {requests} requests, {rejected} of them rejected"
        )
    }
}

/// Services that change.
pub struct Churn<'a> {
    site: &'a dyn Site,
    plane: &'a dyn Plane,
    /// The objects of the cluster.
    pub cluster: Cluster,
    wanted: Wanted,
    load: Load,
    /// Failures from before anything was done to the host, for example routes that were requested
    /// before their node had an address.
    before: Noticed,
}

/// Failures that can be noticed.
#[derive(Clone, Debug, Default)]
struct Noticed {
    warnings: BTreeSet<String>,
    /// The series of metrics with errors of controllers, and with failed calls of the plugin, and
    /// their values.
    failed: BTreeMap<String, u64>,
}

impl<'a> Churn<'a> {
    /// Creates the Services for these instances.
    pub fn new(
        site: &'a dyn Site,
        plane: &'a dyn Plane,
        machines: Vec<Machine>,
        load: Load,
    ) -> Self {
        let machines = machines
            .into_iter()
            .map(|machine| (machine, true))
            .collect();
        let wanted = Wanted {
            machines,
            ..Wanted::of(site)
        };
        Self {
            cluster: Cluster::new(plane.client()),
            site,
            plane,
            wanted,
            load,
            before: Noticed::default(),
        }
    }

    /// Creates the nodes of the instances and all Services, and waits for the expected state.
    ///
    /// # Errors
    /// Returns the differences from the expected state.
    pub async fn begin(&mut self, host: &Host) -> Result<()> {
        for (machine, _) in &self.wanted.machines {
            self.cluster.register(&machine.node).await?;
        }
        for number in 0..self.load.services {
            self.change(number).await?;
        }
        self.settle().await?;
        self.before = self.noticed(host).await?;
        Ok(())
    }

    /// Changes Services while `other` runs, and then waits for the expected state.
    ///
    /// # Errors
    /// Returns the error of `other`, or the differences from the expected state.
    pub async fn during<T>(
        &mut self,
        host: &Host,
        other: impl Future<Output = Result<T>>,
    ) -> Result<(T, Report)> {
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
                sleep(self.load.pace).await;
            }
            Ok::<_, anyhow::Error>(changes)
        };
        let (other, changes) = tokio::try_join!(other, changing)?;
        self.settle().await?;
        let calls = self.site.proxy().calls();
        let rejected = calls
            .iter()
            .filter(|call| matches!(call.status, Some(401 | 403)))
            .count();
        let (services, lasted) = (self.load.services, began.elapsed());
        // An answer shows that the process was not restarted.
        host.scrape().await?;
        Ok((
            other,
            Report {
                services,
                changes,
                requests: calls.len(),
                rejected,
                lasted,
            },
        ))
    }

    /// Changes the ports of the Service whose turn it is.
    async fn change(&mut self, number: usize) -> Result<()> {
        let (name, ports) = turn(number, self.load.services);
        self.cluster
            .serve(&name, ports, &self.site.annotations())
            .await?;
        let ports: BTreeSet<String> = ports.iter().map(|&port| port.to_owned()).collect();
        self.wanted.services.insert(name, ports);
        Ok(())
    }

    async fn settle(&self) -> Result<()> {
        let services = u32::try_from(self.wanted.services.len())?;
        self.wanted
            .seen(
                self.site,
                &self.cluster,
                PATIENCE + PATIENCE_EACH * services,
            )
            .await
    }

    async fn noticed(&self, host: &Host) -> Result<Noticed> {
        let events: Api<Event> = Api::all(self.plane.client());
        let warnings = events.list(&ListParams::default()).await?.items.into_iter();
        let warnings = warnings
            .filter(|event| event.type_.as_deref() == Some("Warning"))
            .map(|event| {
                let (of, reason) = (
                    event.involved_object.name.unwrap_or_default(),
                    event.reason.unwrap_or_default(),
                );
                format!(
                    "{of}: {reason}: {} ({} times)",
                    event.message.unwrap_or_default(),
                    event.count.unwrap_or(1)
                )
            });
        let mut seen = Noticed {
            warnings: warnings.collect(),
            failed: BTreeMap::new(),
        };
        for line in host
            .scrape()
            .await?
            .text()
            .lines()
            .filter(|line| is_failure(line))
        {
            let (series, count) = line.rsplit_once(' ').context("a series")?;
            seen.failed.insert(series.to_owned(), count.parse()?);
        }
        Ok(seen)
    }

    /// Checks that nothing was noticed: no warning, no error of a controller, and no failed call of
    /// the plugin.
    ///
    /// # Errors
    /// Returns everything that was noticed.
    pub async fn went_unnoticed(&self, host: &Host) -> Result<()> {
        let after = self.noticed(host).await?;
        let warnings = after
            .warnings
            .difference(&self.before.warnings)
            .map(String::clone);
        let more = |(series, count): &(&String, &u64)| {
            self.before
                .failed
                .get(*series)
                .is_none_or(|old| old < *count)
        };
        let failed = after
            .failed
            .iter()
            .filter(more)
            .map(|(series, count)| format!("{series} {count}"));
        let all: Vec<_> = warnings.chain(failed).collect();
        ensure!(all.is_empty(), "{}", all.join("\n"));
        Ok(())
    }

    /// Returns the ID and the address of an instance. The plugin has one of them in its memory if
    /// the instance is behind a load balancer.
    ///
    /// # Errors
    /// Fails if there is no instance.
    pub fn known_to_the_guest(&self) -> Result<[&str; 2]> {
        let (machine, _) = self.wanted.machines.first().context("a machine")?;
        Ok([&machine.id, &machine.address])
    }
}

/// Returns the Service whose turn it is and its ports, which differ from its previous ones.
fn turn(number: usize, services: usize) -> (String, &'static [&'static str]) {
    let (round, service) = (number / services.max(1), number % services.max(1));
    let ports = PORTS
        .iter()
        .copied()
        .cycle()
        .nth((round + service) % PORTS.len())
        .unwrap_or_default();
    (format!("web-{service}"), ports)
}

/// Returns the number of the plugin generation in service.
#[must_use]
pub fn generation(seen: &Scrape) -> f64 {
    seen.sum("skydock_plugin_generation", &[])
}

/// Returns whether a line of the metrics counts a failure. A call that is in progress and is
/// retried is not a failure.
fn is_failure(line: &str) -> bool {
    let is = |name: &str| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    let went_well = ["ok", "in_progress"]
        .iter()
        .any(|outcome| line.contains(&format!("outcome=\"{outcome}\"")));
    let nothing = line.ends_with(" 0");
    !nothing
        && (is("skydock_controller_errors_total")
            || (is("skydock_plugin_calls_total") && !went_well))
}

/// Returns the number in an environment variable, or a default.
#[must_use]
pub fn number(variable: &str, or: usize) -> usize {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(or)
}

/// Keeps logs and files if the result is an error.
///
/// # Errors
/// Returns the same error with the location of the logs.
pub fn told<T>(result: Result<T>, hosts: &mut Hosts) -> Result<T> {
    result.with_context(|| format!("the logs are in {}", hosts.keep().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_of_a_service_changes_it() {
        for services in 1..60 {
            for number in 0..services * 9 {
                let (before, after) = (turn(number, services), turn(number + services, services));
                assert_eq!(before.0, after.0);
                assert_ne!(before.1, after.1, "turn {number} of {services} Services");
            }
        }
    }

    #[test]
    fn failure_metrics_are_recognized() {
        let table = [
            (
                "skydock_controller_errors_total{controller=\"service\",kind=\"denied\"} 1",
                true,
            ),
            (
                "skydock_controller_errors_total{controller=\"service\",kind=\"denied\"} 0",
                false,
            ),
            ("skydock_plugin_calls_total{outcome=\"ok\"} 7", false),
            (
                "skydock_plugin_calls_total{outcome=\"in_progress\"} 7",
                false,
            ),
            ("skydock_plugin_calls_total{outcome=\"denied\"} 7", true),
            ("# HELP skydock_plugin_calls_total Calls", false),
        ];
        for (line, failure) in table {
            assert_eq!(is_failure(line), failure, "{line}");
        }
    }
}
