//! The process around controllers and plugins: flags, configuration, leader election, serving and
//! wiring.
//!
//! Without a subcommand, it is a cloud-controller-manager ([`ccm`]); [`inspect`] shows a plugin
//! without running a cluster.

#![forbid(unsafe_code)]

pub mod ccm;
pub mod cli;
mod commands;
pub mod config;
pub mod credentials;
pub mod egress;
pub mod file;
mod process;

pub use commands::{accepted, check, doctor, inspect, migrate, precompile};
pub use process::{blocking, report, signals, telemetry};

use std::{process::ExitCode, time::Duration};

use cli::{Cli, Command, ConfigCommand, PluginCommand};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// How long blocking work that is still running, for example reading files or compiling, can delay
/// the exit.
const ABANDON_AFTER: Duration = Duration::from_secs(1);

/// A process that handles SIGINT and SIGTERM.
pub struct Process {
    runtime: Runtime,
    shutdown: CancellationToken,
}

impl Process {
    /// Starts the runtime and the signal handlers.
    ///
    /// # Errors
    /// If threads or signal handlers cannot be created.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let shutdown = CancellationToken::new();
        // Handlers of signals need a runtime.
        runtime.block_on(async { signals::cancel_on_termination(shutdown.clone()) })?;
        Ok(Self { runtime, shutdown })
    }

    /// Runs the work until it ends on its own or because of a signal. Returns its result.
    pub fn run<W: Future>(self, work: impl FnOnce(CancellationToken) -> W) -> W::Output {
        let Self { runtime, shutdown } = self;
        let ended = runtime.block_on(work(shutdown));
        runtime.shutdown_timeout(ABANDON_AFTER);
        ended
    }
}

/// Runs the command in the command line, and returns its exit code.
///
/// # Errors
/// Those of the command.
pub async fn run(cli: Cli, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let done = match cli.command {
        None => {
            // The files that flags name may be on a volume that does not answer.
            let reading = blocking::blocking(async { config::Config::try_from(cli.ccm) });
            let Some(config) = shutdown.run_until_cancelled(reading).await else {
                return Ok(ExitCode::SUCCESS);
            };
            let config = config?;

            telemetry::init(config.log);
            config.notices.iter().for_each(config::Notice::log);
            Box::pin(ccm::run(config, shutdown)).await
        }
        Some(Command::Config {
            command: ConfigCommand::Check(args),
        }) => {
            let check = Box::pin(check::run(args));
            until(&shutdown, check, "the configuration was checked").await
        }
        Some(Command::Config {
            command: ConfigCommand::Schema,
        }) => file::print_schema(),
        Some(Command::Doctor(args)) => return Ok(examine(args, &shutdown).await),
        Some(Command::Migrate(args)) => {
            let migrate = Box::pin(migrate::run(args));
            until(&shutdown, migrate, "the manifest was migrated").await
        }
        Some(Command::Dev { arguments }) => {
            Err(commands::developers::for_developers("dev", arguments))
        }
        Some(Command::Plugin {
            command: PluginCommand::Tool(tool),
        }) => Err(commands::developers::tool(tool)),
        Some(Command::Plugin {
            command: PluginCommand::Precompile(args),
        }) => {
            let precompile = Box::pin(precompile::run(args));
            until(&shutdown, precompile, "the plugin was compiled").await
        }
        Some(Command::Plugin {
            command: PluginCommand::Replay(args),
        }) => {
            let replay = Box::pin(commands::replay::run(args));
            return until(&shutdown, replay, "all calls were repeated").await;
        }
        Some(Command::Plugin {
            command: PluginCommand::Accepted(args),
        }) => {
            let show = Box::pin(accepted::run(args));
            until(&shutdown, show, "the cluster answered").await
        }
        Some(Command::Plugin {
            command: PluginCommand::Inspect(args),
        }) => {
            let inspect = Box::pin(inspect::run(args));
            until(&shutdown, inspect, "the plugin was inspected").await
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs `skydock doctor`, whose exit code says whether anything is known.
async fn examine(args: cli::DoctorArgs, shutdown: &CancellationToken) -> ExitCode {
    let examined = shutdown
        .run_until_cancelled(Box::pin(doctor::run(args)))
        .await;
    let examined =
        examined.unwrap_or_else(|| Err(anyhow::anyhow!("stopped before the cluster was read")));
    examined.unwrap_or_else(|error| {
        telemetry::fail(&error);
        ExitCode::from(2)
    })
}

/// Runs a command until `shutdown`; `end` says what has not happened if it is stopped.
async fn until<T>(
    shutdown: &CancellationToken,
    command: impl Future<Output = anyhow::Result<T>>,
    end: &str,
) -> anyhow::Result<T> {
    let ended = shutdown.run_until_cancelled(command).await;
    ended.unwrap_or_else(|| Err(anyhow::anyhow!("stopped before {end}")))
}
