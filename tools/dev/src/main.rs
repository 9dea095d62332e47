//! The program for plugin developers: `skydock dev` runs the manager on an embedded control plane,
//! `skydock plugin new` creates a provider, `skydock plugin build` builds one, `skydock plugin
//! test` checks one, and `skydock plugin bench` measures one.

#![forbid(unsafe_code)]

mod bench;
mod build;
mod cli;
mod cluster;
mod new;
mod subject;
mod test;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Parser as _;
use skydock::{Process, cli::PluginTool, telemetry};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    // Must come first: the child process that compiles plugins limits its own resources, and its
    // time is limited.
    if skydock::cli::is_compiler(std::env::args_os()) {
        return ExitCode::from(skydock_sandbox::compile_as_child());
    }
    run().unwrap_or_else(|error| telemetry::fail(&error))
}

/// Runs the tool that the command line selects. Returns the exit code.
fn run() -> anyhow::Result<ExitCode> {
    // The words before the last one select the tool.
    let args = std::env::args_os().skip(2);

    match PluginTool::selected(std::env::args_os()) {
        None => {
            let args = cli::DevArgs::parse();
            Process::start()?.run(|shutdown| Box::pin(cluster::run::run(args, shutdown)))?;
        }
        Some(PluginTool::New) => new::run(&new::NewArgs::parse_from(args))?,
        Some(PluginTool::Build) => build::run(&build::BuildArgs::parse_from(args))?,
        Some(PluginTool::Test) => {
            let args = test::TestArgs::parse_from(args);
            let stopped =
                "stopped before the report; scenarios may have left something in the cloud";
            return Process::start()?
                .run(|shutdown| Box::pin(or_stopped(shutdown, test::run(args), stopped)));
        }
        Some(PluginTool::Bench) => {
            let args = bench::BenchArgs::parse_from(args);
            let stopped = "stopped before all calls were measured";
            Process::start()?
                .run(|shutdown| Box::pin(or_stopped(shutdown, bench::run(args), stopped)))?;
        }
    }

    Ok(ExitCode::SUCCESS)
}

/// Runs a tool until a signal, which is an error.
async fn or_stopped<T>(
    shutdown: CancellationToken,
    tool: impl Future<Output = anyhow::Result<T>>,
    stopped: &'static str,
) -> anyhow::Result<T> {
    shutdown
        .run_until_cancelled(tool)
        .await
        .unwrap_or_else(|| Err(anyhow::anyhow!(stopped)))
}
