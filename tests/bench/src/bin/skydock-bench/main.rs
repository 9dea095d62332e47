//! `skydock-bench`: compares Skydock with Kubernetes' own cloud controller framework, one after the
//! other on the same kind of control plane (etcd and kube-apiserver) with the same cloud.
//! `README.md` describes the method.

#![forbid(unsafe_code)]

mod audit;
mod cloud;
mod cluster;
mod fleet;
mod measure;
mod report;
mod run;
mod scenario;
mod side;
mod turns;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use skydock_bench::{Built, Machine, Progress};

use crate::report::{Report, Row};
use crate::scenario::{Scenario, Size};
use crate::side::{Programs, Side};

/// Measures Skydock beside Kubernetes' own cloud controller framework, on the same control plane
/// and with the same cloud.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench controllers")]
struct Args {
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u16).range(1..=30_000))]
    nodes: u16,
    /// Services of type LoadBalancer.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=5000))]
    services: u16,
    /// How long the steady state, and the time after a restart, is watched.
    #[arg(long, default_value = "5m", value_parser = skydock_bench::duration)]
    steady: Duration,
    /// How long a call to the cloud takes.
    #[arg(long, default_value = "50ms", value_parser = skydock_bench::duration)]
    latency: Duration,
    /// Only these scenarios, and what they build upon.
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO")]
    only: Vec<Scenario>,
    /// A small run that shows that everything works: 200 nodes, 20 services, 5 s.
    #[arg(long, conflicts_with_all = ["nodes", "services", "steady"])]
    quick: bool,
    /// The figures as JSON on stdout, instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    built: Built,
}

impl Args {
    fn size(&self) -> Size {
        let (nodes, services, steady) = if self.quick {
            (200, 20, Duration::from_secs(5))
        } else {
            (self.nodes, self.services, self.steady)
        };
        Size {
            nodes: nodes.into(),
            services: services.into(),
            steady,
            latency: self.latency,
        }
    }

    /// Returns true for a complete run of full size, whose figures are published.
    fn is_whole(&self) -> bool {
        let Size {
            nodes,
            services,
            steady,
            latency,
        } = self.size();
        let is_full = nodes >= 5000 && services >= 1000 && steady >= Duration::from_secs(300);
        is_full && latency == Duration::from_millis(50) && self.only.is_empty()
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = bench.join("../../target");
    let wanted = if args.only.is_empty() {
        Scenario::ALL.to_vec()
    } else {
        args.only.clone()
    };
    let (size, plan) = (args.size(), scenario::plan(&wanted));
    let progress = Progress::default();
    progress.line(&format!(
        "about {}",
        skydock_bench::seconds(scenario::expected(&plan, &size).as_secs_f64())
    ));
    progress.say("building the peer".to_owned());
    let peer = skydock_clusters::go_binary(&bench.join("peer"), "bench-peer").await?;
    let programs = Programs {
        skydock: args.built.skydock.clone(),
        plugin: args.built.plugin(),
        peer,
    };
    skydock_bench::all_built([&programs.skydock, &programs.plugin], "controllers")?;
    let is_wanted = |scenario: &Scenario| wanted.contains(scenario);
    let on_a_cluster: Vec<_> = plan
        .iter()
        .copied()
        .filter(|scenario| *scenario != Scenario::Turns)
        .collect();
    let mut scenarios = Vec::new();
    if !on_a_cluster.is_empty() {
        let upstream =
            run::side(Side::Upstream, &programs, &on_a_cluster, &size, &progress).await?;
        let skydock = run::side(Side::Skydock, &programs, &on_a_cluster, &size, &progress).await?;
        for ((scenario, upstream), (_, skydock)) in upstream.into_iter().zip(skydock) {
            if is_wanted(&scenario) {
                scenarios.push(Row {
                    scenario,
                    upstream,
                    skydock,
                });
            }
        }
    }
    let turns = if is_wanted(&Scenario::Turns) {
        Some(turns::turns(&programs, &size, &progress).await?)
    } else {
        None
    };
    drop(progress);
    let report = Report {
        machine: Machine::look(&args.built.skydock),
        size,
        scenarios,
        turns,
    };
    skydock_bench::save(&report, &target.join("bench/controllers.json"))?;
    if args.is_whole() {
        report.update(&bench.join("README.md"))?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.table()
    };
    writeln!(std::io::stdout(), "{text}").context("cannot write to stdout")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["x", "--skydock=s", "--plugins=p"].iter().chain(arguments))
    }

    #[test]
    fn only_the_default_run_is_whole() {
        let args = parse(&[]).unwrap();
        let size = args.size();
        assert_eq!(
            (size.nodes, size.services, size.steady),
            (5000, 1000, Duration::from_secs(300))
        );
        assert!(args.is_whole());
        assert!(!parse(&["--quick"]).unwrap().is_whole());
        assert!(!parse(&["--only=a"]).unwrap().is_whole());
        assert!(!parse(&["--nodes=500"]).unwrap().is_whole());
    }

    #[test]
    fn scenarios_are_chosen_by_letter_or_name() {
        assert_eq!(
            parse(&["--only", "a,services"]).unwrap().only,
            [Scenario::Nodes, Scenario::Services]
        );
        assert!(parse(&["--only", "g"]).is_err());
    }

    #[test]
    fn a_quick_run_has_a_fixed_size() {
        assert_eq!(parse(&["--quick"]).unwrap().size().nodes, 200);
        assert!(parse(&["--quick", "--nodes=5"]).is_err());
    }
}
