//! The program for plugin developers: `skydock dev` runs the manager on an embedded control plane, `skydock plugin new` creates a
//! provider, `skydock plugin test` checks one.

#![forbid(unsafe_code)]

mod cli;
mod kubeconfig;
mod log;
mod new;
mod run;
mod test;
#[cfg(test)]
mod tests;

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use clap::Parser as _;
use skydock::{Process, telemetry};

fn main() -> ExitCode {
    // Must come first: the child process that compiles plugins limits its own resources, and its time is limited.
    if skydock::cli::is_compiler(std::env::args_os()) {
        return ExitCode::from(skydock_plugin::compile_as_child());
    }
    if skydock::cli::is_new_plugin(std::env::args_os()) {
        // The words before the last one select this command.
        let args = new::NewArgs::parse_from(std::env::args_os().skip(2));
        return new::run(&args).map_or_else(|error| telemetry::fail(&error), |()| ExitCode::SUCCESS);
    }
    if skydock::cli::is_test_plugin(std::env::args_os()) {
        let args = test::TestArgs::parse_from(std::env::args_os().skip(2));
        let code = Arc::new(OnceLock::new());
        let result = Arc::clone(&code);
        let ended = Process::start().and_then(|process| {
            process.run(|_| {
                Box::pin(async move {
                    // It is set once.
                    let _ = result.set(test::run(args).await?);
                    Ok(())
                })
            })
        });
        return match ended {
            Ok(()) => code.get().copied().unwrap_or(ExitCode::FAILURE),
            Err(error) => telemetry::fail(&error),
        };
    }
    let args = cli::DevArgs::parse();
    let ended = Process::start().and_then(|process| process.run(|shutdown| Box::pin(run::run(args, shutdown))));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => telemetry::fail(&error),
    }
}
