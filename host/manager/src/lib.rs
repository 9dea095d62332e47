//! The process around controllers and plugins: flags, configuration, leader election, serving and wiring.
//!
//! With no subcommand it is a cloud-controller-manager ([`ccm`]); [`dev`] puts the same manager next to an embedded
//! control plane; [`inspect`] looks at a plugin without running a cluster.

#![forbid(unsafe_code)]

pub mod blocking;
pub mod ccm;
pub mod cli;
pub mod clients;
pub mod config;
pub mod configuration;
pub mod credentials;
pub mod dev;
pub mod election;
pub mod inspect;
pub mod report;
pub mod service_accounts;
pub mod serving;
pub mod signals;
pub mod telemetry;

use std::time::Duration;

use cli::{Cli, Command, ConfigCommand, PluginCommand};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// How long files and compilers that are still being read or run hold up the exit.
const ABANDON_AFTER: Duration = Duration::from_secs(1);

/// A process that hears SIGINT and SIGTERM.
pub struct Process {
    runtime: Runtime,
    shutdown: CancellationToken,
}

impl Process {
    /// From here on signals are heard, whatever the process does.
    ///
    /// # Errors
    /// If there are no threads to hear them.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let shutdown = CancellationToken::new();
        runtime.block_on(async { signals::cancel_on_termination(shutdown.clone()) })?;
        Ok(Self { runtime, shutdown })
    }

    /// Runs what the command line asks for, until it ends by itself or by a signal.
    ///
    /// # Errors
    /// Whatever keeps it from running; one sentence, causes included, with `{:#}`.
    pub fn run(self, cli: Cli) -> anyhow::Result<()> {
        let Self { runtime, shutdown } = self;
        let ended = runtime.block_on(async {
            match cli.command {
                None => {
                    let reading = blocking::blocking(async { config::Config::try_from(cli.ccm) });
                    let Some(config) = shutdown.run_until_cancelled(reading).await else { return Ok(()) };
                    let config = config?;
                    telemetry::init(config.log);
                    Box::pin(ccm::run(config, shutdown)).await
                }
                Some(Command::Config { command: ConfigCommand::Check { file } }) => {
                    blocking::blocking(async move { configuration::check(&file) }).await
                }
                Some(Command::Config { command: ConfigCommand::Schema }) => configuration::print_schema(),
                Some(Command::Dev(args)) => Box::pin(dev::run(args, shutdown)).await,
                Some(Command::Plugin { command: PluginCommand::Inspect(args) }) => {
                    let inspected = shutdown.run_until_cancelled(Box::pin(inspect::run(args))).await;
                    inspected.unwrap_or_else(|| Err(anyhow::anyhow!("stopped before it was done")))
                }
            }
        });
        runtime.shutdown_timeout(ABANDON_AFTER);
        ended
    }
}
