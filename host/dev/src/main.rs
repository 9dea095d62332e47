//! The program for plugin developers: `skydock dev` runs the manager on an embedded control plane, `skydock plugin new` creates a
//! provider, `skydock plugin build` builds one, `skydock plugin test` checks one, and `skydock plugin replay` repeats recorded calls.

#![forbid(unsafe_code)]

mod build;
mod cli;
mod kubeconfig;
mod log;
mod new;
mod replay;
mod run;
mod simcloud;
mod test;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Parser as _;
use skydock::{Process, cli::PluginTool, telemetry};

fn main() -> ExitCode {
    // Must come first: the child process that compiles plugins limits its own resources, and its time is limited.
    if skydock::cli::is_compiler(std::env::args_os()) {
        return ExitCode::from(skydock_plugin::compile_as_child());
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
            Process::start()?.run(|shutdown| Box::pin(run::run(args, shutdown)))?;
        }
        Some(PluginTool::New) => new::run(&new::NewArgs::parse_from(args))?,
        Some(PluginTool::Build) => build::run(&build::BuildArgs::parse_from(args))?,
        Some(PluginTool::Test) => {
            let args = test::TestArgs::parse_from(args);
            return Process::start()?.run(|_| Box::pin(test::run(args)));
        }
        Some(PluginTool::Replay) => {
            let args = replay::ReplayArgs::parse_from(args);
            return Process::start()?.run(|_| Box::pin(replay::run(args)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
