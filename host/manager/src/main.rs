//! The `skydock` binary: handles signals, parses the command line, runs it and reports errors.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use skydock::{Process, cli, telemetry};

fn main() -> ExitCode {
    // Before anything else: the compiler process limits its own resources, and its time is limited.
    if cli::is_compiler(std::env::args_os()) {
        return ExitCode::from(skydock_sandbox::compile_as_child());
    }

    let process = match Process::start() {
        Ok(process) => process,
        Err(error) => return telemetry::fail(&error),
    };

    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return stop.print(),
    };

    match process.run(|shutdown| skydock::run(cli, shutdown)) {
        Ok(code) => code,
        Err(error) => telemetry::fail(&error),
    }
}
