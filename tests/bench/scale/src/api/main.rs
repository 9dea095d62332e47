//! The API server for the benchmark of scale. It implements in memory what Skydock uses, and is
//! fast enough that the benchmark measures only Skydock. It checks what Skydock relies on (UIDs,
//! versions, `test` operations), and nothing else.

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

/// Serves on a free loopback port, whose address it prints to stdout, until stdin is closed.
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
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .context("cannot listen")?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| {
        // Errors are ignored, because answers are then only slower.
        let _ = stream.set_nodelay(true);
    });
    let plane = Arc::new(Plane::default());
    std::thread::spawn(|| {
        // The process that started this one holds the other end.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    axum::serve(listener, http::router(plane))
        .await
        .context("cannot serve")
}
