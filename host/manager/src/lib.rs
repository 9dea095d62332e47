//! The process around controllers and plugins: flags, configuration, leader election, serving and wiring.
//!
//! With no subcommand it is a cloud-controller-manager ([`ccm`]); [`dev`] puts the same manager next to an embedded
//! control plane; [`inspect`] looks at a plugin without running a cluster.

#![forbid(unsafe_code)]

pub mod ccm;
pub mod cli;
pub mod clients;
pub mod config;
pub mod credentials;
pub mod dev;
pub mod election;
pub mod inspect;
pub mod report;
pub mod service_accounts;
pub mod serving;
pub mod signals;
pub mod telemetry;

use cli::{Cli, Command, PluginCommand};
use tokio_util::sync::CancellationToken;

/// Runs what the command line asks for, until it ends by itself or by SIGINT or SIGTERM.
///
/// # Errors
/// Whatever keeps it from running; one sentence, causes included, with `{:#}`.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        signals::cancel_on_termination(shutdown.clone())?;
        match cli.command {
            None => {
                let config = config::Config::try_from(cli.ccm)?;
                telemetry::init(config.log);
                Box::pin(ccm::run(config, shutdown)).await
            }
            Some(Command::Dev(args)) => Box::pin(dev::run(args, shutdown)).await,
            Some(Command::Plugin { command: PluginCommand::Inspect(args) }) => inspect::run(args).await,
        }
    });
    // A blocked compile or file read must not hold up the exit.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    ended
}
