//! The behavior of an API server that Skydock's controllers rely on, tested with each plane. If the
//! embedded plane differs from Kubernetes, one of these tests fails.

#![allow(
    clippy::indexing_slicing,
    reason = "what is indexed here is JSON of serde_json, where anything missing reads as null and is compared as such"
)]

pub(crate) mod http;
mod nodes;
mod services;

use anyhow::{Result, ensure};
use skydock_clusters::Plane;

/// Runs all scenarios and reports all failures.
pub(crate) async fn holds_on(plane: &dyn Plane) -> Result<()> {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_test_writer()
        .try_init();
    let mut failed = Vec::new();
    for (sentence, scenario) in nodes::SCENARIOS.iter().chain(services::SCENARIOS) {
        match scenario(plane).await {
            Ok(()) => tracing::info!("holds: {sentence}"),
            Err(error) => failed.push(format!("- {sentence}: {error:#}")),
        }
    }
    ensure!(
        failed.is_empty(),
        "on the {} plane this does not hold:\n{}",
        plane.name(),
        failed.join("\n")
    );
    Ok(())
}
