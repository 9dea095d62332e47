//! The `skydock` binary: parse, run, say how it ended.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match skydock::cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return stop.print(),
    };
    match skydock::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => skydock::telemetry::fail(&error),
    }
}
