//! The API server of the benchmark of scale: what Skydock asks of one, from memory, and fast enough that all that is measured is
//! Skydock. It checks what Skydock relies on (UIDs, versions, `test` operations), and nothing else.

#![forbid(unsafe_code)]

mod clock;
mod fleet;
mod http;
mod message;
mod patch;
mod plane;
mod shelf;
mod watch;
mod wire;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::plane::Plane;

/// Serves on a free port of loopback, of which it tells the address on stdout, until stdin is closed.
#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.context("cannot listen")?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| {
        // If it cannot be set, answers are slower.
        let _ = stream.set_nodelay(true);
    });
    let plane = Arc::new(Plane::default());
    std::thread::spawn(|| {
        // Whoever has started this holds the other end.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    axum::serve(listener, http::router(plane)).await.context("cannot serve")
}
