//! The program for plugin developers: `skydock dev` runs the manager on an embedded control plane, `skydock plugin new` creates a
//! provider, `skydock plugin build` builds one, `skydock plugin test` checks one, and `skydock plugin bench` measures one.

#![forbid(unsafe_code)]

mod bench;
mod build;
mod cli;
mod kubeconfig;
mod log;
mod new;
mod run;
mod simcloud;
mod subject;
mod test;
#[cfg(test)]
mod tests;

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
};

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
            PluginTool::New => new::run(&new::NewArgs::parse_from(args)).map(|()| ExitCode::SUCCESS),
            PluginTool::Build => build::run(&build::BuildArgs::parse_from(args)).map(|()| ExitCode::SUCCESS),
            PluginTool::Test => check(test::TestArgs::parse_from(args)),
            PluginTool::Bench => measure(bench::BenchArgs::parse_from(args)).map(|()| ExitCode::SUCCESS),
        };
        return ended.unwrap_or_else(|error| telemetry::fail(&error));
    }
    let args = cli::DevArgs::parse();
    let ended = Process::start().and_then(|process| process.run(|shutdown| Box::pin(run::run(args, shutdown))));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => telemetry::fail(&error),
    }
}

fn measure(args: bench::BenchArgs) -> anyhow::Result<()> {
    Process::start()?.run(|shutdown| {
        Box::pin(async move {
            let measured = shutdown.run_until_cancelled(bench::run(args)).await;
            measured.unwrap_or_else(|| Err(anyhow::anyhow!("stopped before all calls were measured")))
        })
    })
}

/// Checks a plugin. Returns the exit code.
fn check(args: test::TestArgs) -> anyhow::Result<ExitCode> {
    let code = Arc::new(OnceLock::new());
    let result = Arc::clone(&code);
    Process::start()?.run(|shutdown| {
        Box::pin(async move {
            let checked = shutdown.run_until_cancelled(test::run(args)).await;
            let stopped =
                || Err(anyhow::anyhow!("stopped before the report; scenarios may have left something in the cloud"));
            // It is set once.
            let _ = result.set(checked.unwrap_or_else(stopped)?);
            Ok(())
        })
    })?;
    Ok(code.get().copied().unwrap_or(ExitCode::FAILURE))
}
