//! What Skydock's controllers rely on an API server to do, held against each plane: where the embedded one differs
//! from Kubernetes, one of these fails.

#![allow(
    clippy::indexing_slicing,
    reason = "what is indexed here is JSON of serde_json, where anything missing reads as null and is compared as such"
)]

mod api_contract {
    pub(crate) mod http;
    mod nodes;
    mod services;

    pub(crate) use nodes::SCENARIOS as NODES;
    pub(crate) use services::SCENARIOS as SERVICES;
}

use anyhow::{Result, ensure};
use api_contract::{NODES, SERVICES};
use skydock_planes::{EmbeddedPlane, Plane, RealPlane};

/// Runs every scenario, and tells all that failed.
async fn holds_on(plane: &dyn Plane) -> Result<()> {
    let mut failed = Vec::new();
    for (sentence, scenario) in NODES.iter().chain(SERVICES) {
        match scenario(plane).await {
            Ok(()) => tracing::info!("holds: {sentence}"),
            Err(error) => failed.push(format!("- {sentence}: {error:#}")),
        }
    }
    ensure!(failed.is_empty(), "on the {} plane this does not hold:\n{}", plane.name(), failed.join("\n"));
    Ok(())
}

fn log() {
    let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_test_writer().try_init();
}

#[tokio::test]
async fn the_contract_holds_on_the_embedded_control_plane() -> Result<()> {
    log();
    holds_on(&EmbeddedPlane::start().await?).await
}

#[tokio::test]
async fn the_contract_holds_on_a_real_control_plane() -> Result<()> {
    log();
    holds_on(&RealPlane::start().await?).await
}
