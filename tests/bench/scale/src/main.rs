//! `skydock-bench-scale`: measures Skydock with ten times the nodes, and ten times the services,
//! with a separate API server (`skydock-bench-scale-api`). The README of `tests/bench` describes
//! the method.

#![forbid(unsafe_code)]

mod cluster;
mod cost;
mod goals;
mod host;
mod report;
mod routes;
mod run;
mod scenario;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use skydock_bench::{Built, Machine, Progress};

use crate::host::Programs;
use crate::report::Report;
use crate::run::Run;
use crate::scenario::{Scenario, Size};

/// Measures what Skydock takes for more nodes and more services. Exits with 2 if a goal is missed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench scale")]
struct Args {
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000],
        value_parser = clap::value_parser!(u32).range(10..=130_000))]
    nodes: Vec<u32>,
    /// Numbers of services of type LoadBalancer, each with each number of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000],
        value_parser = clap::value_parser!(u32).range(1..=60_000))]
    services: Vec<u32>,
    /// Only these scenarios, and what they build upon.
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO")]
    only: Vec<Scenario>,
    /// How long one scenario may take; then it is given up, and the next begins.
    #[arg(long, default_value = "5m", value_parser = skydock_bench::duration)]
    limit: Duration,
    /// The plugin reads the nodes behind each load balancer, as most providers do: some 1.5 µs for
    /// each node and service.
    #[arg(long)]
    read_targets: bool,
    /// Small sizes that show that everything works: 1,000 and 10,000 nodes, 100 and 1,000 services.
    #[arg(long, conflicts_with_all = ["nodes", "services"])]
    quick: bool,
    /// The figures as JSON on stdout, instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    built: Built,
}

impl Args {
    fn sizes(&self) -> Vec<Size> {
        let (nodes, services) = if self.quick {
            (vec![1000, 10_000], vec![100, 1000])
        } else {
            (self.nodes.clone(), self.services.clone())
        };
        nodes
            .iter()
            .flat_map(|&nodes| {
                services
                    .iter()
                    .map(move |&services| Size { nodes, services })
            })
            .collect()
    }

    fn wants(&self, scenario: Scenario) -> bool {
        self.only.is_empty() || self.only.contains(&scenario)
    }

    /// Returns true for a complete run of full size, whose figures are published.
    fn is_whole(&self) -> bool {
        !self.quick
            && self.nodes == [10_000, 100_000]
            && self.services == [1000, 10_000]
            && self.only.is_empty()
            && !self.read_targets
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the benchmark. Returns whether all goals are met.
async fn run(args: Args) -> Result<bool> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let api = std::env::current_exe()?.with_file_name("skydock-bench-scale-api");
    let programs = Programs {
        skydock: args.built.skydock.clone(),
        plugin: args.built.plugin(),
        api,
        reads_targets: args.read_targets,
    };
    skydock_bench::all_built(
        [&programs.skydock, &programs.plugin, &programs.api],
        "scale",
    )?;
    let progress = Progress::default();
    let mut report = Report {
        machine: Machine::look(&args.built.skydock),
        runs: Vec::new(),
        goals: Vec::new(),
    };
    let saved = here.join("../../../target/bench/scale.json");
    for size in args.sizes() {
        let wants = |scenario| args.wants(scenario);
        let rows = Run::new(&programs, size, args.limit, &progress)
            .all(wants)
            .await;
        report.runs.push(rows.with_context(|| size.to_string())?);
        report.goals = goals::check(&report.runs);
        skydock_bench::save(&report, &saved)?;
    }
    drop(progress);
    if args.is_whole() {
        skydock_bench::update(&here.join("../README.md"), report::NAME, &report.section())?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.table()
    };
    writeln!(std::io::stdout(), "{text}").context("cannot write to stdout")?;
    Ok(report.goals.iter().all(|goal| goal.met))
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
        let sizes: Vec<_> = args
            .sizes()
            .iter()
            .map(|size| (size.nodes, size.services))
            .collect();
        assert_eq!(
            sizes,
            [
                (10_000, 1000),
                (10_000, 10_000),
                (100_000, 1000),
                (100_000, 10_000)
            ]
        );
        assert!(args.is_whole());
        for other in [&["--quick"][..], &["--nodes=500"], &["--only=races"]] {
            assert!(!parse(other).unwrap().is_whole(), "{other:?}");
        }
    }

    #[test]
    fn scenarios_are_chosen_by_name() {
        let args = parse(&["--only=races,routes"]).unwrap();
        assert!(args.wants(Scenario::Races) && !args.wants(Scenario::Rest));
        assert!(parse(&["--only=x"]).is_err());
    }
}
