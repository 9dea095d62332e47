//! The program for plugin developers: `skydock dev` runs the manager on an embedded control plane, `skydock plugin new` creates a
//! provider,
//! and `skydock plugin build` builds one.

#![forbid(unsafe_code)]

mod build;
mod cli;
mod kubeconfig;
mod log;
mod new;
mod run;
mod simcloud;
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
    if let Some(tool) = PluginTool::selected(std::env::args_os()) {
        // The words before the last one select the tool.
        let args = std::env::args_os().skip(2);
        let ended = match tool {
            PluginTool::New => new::run(&new::NewArgs::parse_from(args)),
            PluginTool::Build => build::run(&build::BuildArgs::parse_from(args)),
        };
        return ended.map_or_else(|error| telemetry::fail(&error), |()| ExitCode::SUCCESS);
    }
    let args = cli::DevArgs::parse();
    let ended = Process::start().and_then(|process| process.run(|shutdown| Box::pin(run::run(args, shutdown))));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => telemetry::fail(&error),
    }
}
