//! SIGINT and SIGTERM request a graceful shutdown; a second signal ends the process immediately.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels the token at the first SIGINT or SIGTERM, and exits with 130 at the second.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn cancel_on_termination(shutdown: CancellationToken) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;

    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };

        next().await;
        tracing::info!("shutting down: waiting for running calls");
        shutdown.cancel();

        next().await;
        // 128 and the number of SIGINT, as in shells.
        std::process::exit(130);
    });
    Ok(())
}
