//! `skydock dev`: runs the manager on an embedded control plane, for plugin developers.

#![forbid(unsafe_code)]

mod cli;
mod kubeconfig;
mod log;
mod run;

use std::process::ExitCode;

use clap::Parser as _;
use skydock::{Process, telemetry};

fn main() -> ExitCode {
    // Must come first: the child process that compiles plugins limits its own resources, and its time is limited.
    if skydock::cli::is_compiler(std::env::args_os()) {
        return ExitCode::from(skydock_plugin::compile_as_child());
    }
    let args = cli::DevArgs::parse();
    let ended = Process::start().and_then(|process| process.run(|shutdown| Box::pin(run::run(args, shutdown))));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => telemetry::fail(&error),
    }
}
