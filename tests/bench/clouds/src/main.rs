//! `skydock-bench-clouds`: compares Skydock and its plugins with the official cloud controller
//! managers, and with their providers as plugins, one after the other on the same kind of control
//! plane and the same cloud. `README.md` describes the method.

#![forbid(unsafe_code)]

mod calm;
mod cluster;
mod differences;
mod manager;
mod picture;
mod place;
mod report;
mod run;
mod scenario;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use skydock_bench::{Built, Machine, Progress};

use crate::manager::Programs;
use crate::report::{OnCloud, Report};
use crate::scenario::{Kind, Side, Size};

/// Measures Skydock beside the official cloud controller managers of OpenStack and AWS, on the same
/// control plane and the same cloud: with its own plugins, and with the providers of these managers
/// as plugins.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench clouds")]
struct Args {
    /// Only this cloud.
    #[arg(long, value_enum)]
    cloud: Option<Kind>,
    /// Only this side. Its figures are printed as they are measured, and nothing is compared.
    #[arg(long, value_enum, conflicts_with_all = ["runs", "json"])]
    side: Option<Side>,
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(2..=220))]
    nodes: u16,
    /// Services of type LoadBalancer.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=100))]
    services: u16,
    /// How long both are watched at rest.
    #[arg(long, default_value = "5m", value_parser = skydock_bench::duration)]
    rest: Duration,
    /// How long a call to the cloud takes.
    #[arg(long, default_value = "50ms", value_parser = skydock_bench::duration)]
    latency: Duration,
    /// How often all is run; the figures are the medians.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    runs: u8,
    /// A small run that shows that everything works: 6 nodes, 3 services, 20 s at rest.
    #[arg(long, conflicts_with_all = ["nodes", "services", "rest"])]
    quick: bool,
    /// The figures as JSON on stdout, instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    built: Built,
}

impl Args {
    fn size(&self) -> Size {
        let (nodes, services, rest) = if self.quick {
            (6, 3, Duration::from_secs(20))
        } else {
            (self.nodes, self.services, self.rest)
        };
        Size {
            nodes: nodes.into(),
            services: services.into(),
            rest,
            latency: self.latency,
        }
    }

    fn clouds(&self) -> Vec<Kind> {
        self.cloud
            .map_or_else(|| vec![Kind::Openstack, Kind::Aws], |kind| vec![kind])
    }

    /// Returns the sides of a run. The last one runs on a machine that has been busy for a while,
    /// so the order alternates.
    fn sides(&self, run: u8) -> Vec<Side> {
        match self.side {
            Some(side) => vec![side],
            None if run.is_multiple_of(2) => Side::ALL.to_vec(),
            None => Side::ALL.into_iter().rev().collect(),
        }
    }

    /// Returns true for a complete run of full size, whose figures are published.
    fn is_whole(&self) -> bool {
        let Size {
            nodes,
            services,
            rest,
            latency,
        } = self.size();
        let is_full = nodes >= 60 && services >= 15 && rest >= Duration::from_secs(300);
        is_full && latency == Duration::from_millis(50) && self.cloud.is_none()
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let ended = tokio::select! {
        ended = run(&args) => ended,
        // Started processes end with this process only if their values are dropped.
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        // As in the benchmark of scale: the run succeeded, but a goal was missed.
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the benchmark. Returns true if all goals are met and all differences are accepted.
async fn run(args: &Args) -> Result<bool> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = here.join("../../../target/bench");
    let size = args.size();
    let progress = Progress::default();
    let mut clouds = Vec::new();
    for kind in args.clouds() {
        progress.say(format!("{}: building the peer", kind.name()));
        let peer = place::peer(kind).await?;
        let plugin = args
            .built
            .plugin()
            .with_file_name(format!("{}.wasm", kind.name()));
        let go_plugin = plugin
            .with_file_name("go")
            .join(format!("{}.wasm", kind.name()));
        let programs = Programs {
            skydock: args.built.skydock.clone(),
            plugin,
            go_plugin,
            peer,
        };
        let plugins = args
            .sides(0)
            .into_iter()
            .filter_map(|side| programs.plugin_of(side));
        skydock_bench::all_built(plugins.chain([programs.skydock.as_path()]), "clouds")?;
        let mut cloud = OnCloud::new(kind, &programs.peer);
        for number in 0..args.runs {
            for side in args.sides(number) {
                let outcome = run::side(
                    kind,
                    side,
                    &programs,
                    &size,
                    &target.join("clouds"),
                    &progress,
                )
                .await?;
                cloud.add(side, outcome);
            }
        }
        clouds.push(cloud);
    }
    drop(progress);
    if args.side.is_some() {
        return Ok(true);
    }
    let report = Report::new(Machine::look(&args.built.skydock), size, args.runs, clouds);
    skydock_bench::save(&report, &target.join("clouds.json"))?;
    if args.is_whole() {
        report.update(&here.join("README.md"))?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.text()
    };
    writeln!(std::io::stdout(), "{text}").context("cannot write to stdout")?;
    Ok(report.is_good())
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
            (size.nodes, size.services, size.rest),
            (60, 15, Duration::from_secs(300))
        );
        assert!(args.is_whole() && args.clouds().len() == 2);
        for other in ["--quick", "--cloud=aws", "--nodes=10", "--latency=1ms"] {
            assert!(!parse(&[other]).unwrap().is_whole(), "{other}");
        }
    }

    #[test]
    fn a_quick_run_has_a_fixed_size() {
        assert_eq!(parse(&["--quick"]).unwrap().size().nodes, 6);
        assert!(parse(&["--quick", "--nodes=5"]).is_err());
    }
}
