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

pub use commands::{accepted, check, inspect, migrate, precompile};
pub use process::{blocking, report, signals, telemetry};

use std::time::Duration;

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

/// Runs the command in the command line.
///
/// # Errors
/// Those of the command.
pub async fn run(cli: Cli, shutdown: CancellationToken) -> anyhow::Result<()> {
    match cli.command {
        None => {
            // The files that flags name may be on a volume that does not answer.
            let reading = blocking::blocking(async { config::Config::try_from(cli.ccm) });
            let Some(config) = shutdown.run_until_cancelled(reading).await else {
                return Ok(());
            };
            let config = config?;

            telemetry::init(config.log);
            config.notices.iter().for_each(config::Notice::log);
            Box::pin(ccm::run(config, shutdown)).await
        }
        Some(Command::Config {
            command: ConfigCommand::Check(args),
        }) => {
            let checked = shutdown
                .run_until_cancelled(Box::pin(check::run(args)))
                .await;
            checked.unwrap_or_else(|| {
                Err(anyhow::anyhow!(
                    "stopped before the configuration was checked"
                ))
            })
        }
        Some(Command::Config {
            command: ConfigCommand::Schema,
        }) => file::print_schema(),
        Some(Command::Migrate(args)) => {
            let migrated = shutdown
                .run_until_cancelled(Box::pin(migrate::run(args)))
                .await;
            migrated
                .unwrap_or_else(|| Err(anyhow::anyhow!("stopped before the manifest was migrated")))
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
            let compiled = shutdown
                .run_until_cancelled(Box::pin(precompile::run(args)))
                .await;
            compiled
                .unwrap_or_else(|| Err(anyhow::anyhow!("stopped before the plugin was compiled")))
        }
        Some(Command::Plugin {
            command: PluginCommand::Accepted(args),
        }) => {
            let shown = shutdown
                .run_until_cancelled(Box::pin(accepted::run(args)))
                .await;
            shown.unwrap_or_else(|| Err(anyhow::anyhow!("stopped before the cluster answered")))
        }
        Some(Command::Plugin {
            command: PluginCommand::Inspect(args),
        }) => {
            let inspected = shutdown
                .run_until_cancelled(Box::pin(inspect::run(args)))
                .await;
            inspected
                .unwrap_or_else(|| Err(anyhow::anyhow!("stopped before the plugin was inspected")))
        }
    }
}
