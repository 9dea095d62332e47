//! Sends random sequences of requests to two planes, whose answers must be the same.
//!
//! `SKYDOCK_SEQUENCES=5000` sends more of them. `SKYDOCK_SEED=123` sends the one with this seed.

#![allow(
    clippy::indexing_slicing,
    reason = "what is indexed here is JSON of serde_json, where anything missing reads as null and is compared as such"
)]
#![allow(
    clippy::print_stdout,
    reason = "cargo shows what a test prints only if it fails, or if it is asked to"
)]

mod compare;
mod generate;
mod kinds;
mod known;
mod memory;
mod normal;
mod request;
mod search;
mod send;

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use kube::Client;

use self::{compare::Planes, known::KNOWN};

/// Returns a number from an environment variable.
fn number(name: &str) -> Result<Option<u64>> {
    let Ok(text) = std::env::var(name) else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .with_context(|| format!("{name} must be a whole number, and is {text:?}"))
}

/// Sends `count` sequences to both planes. With `differ`, the listed differences must occur.
pub(crate) async fn are_alike(
    embedded: Client,
    real: Client,
    count: u64,
    differ: bool,
) -> Result<()> {
    let planes = Planes { embedded, real };
    let began = Instant::now();
    let one = number("SKYDOCK_SEED")?;
    let count = number("SKYDOCK_SEQUENCES")?.unwrap_or(count);
    let seeds = one.map_or_else(|| (0..count).collect(), |seed| vec![seed]);
    let many = seeds.len();
    let report = search::run(&planes, seeds).await?;
    let (requests, seconds) = (report.requests, began.elapsed().as_secs());
    println!(
        "{many} sequences of {requests} requests in {seconds} s; known differences: {:?}",
        report.known
    );
    let failures = report.failures();
    ensure!(failures.is_empty(), "the planes differ:\n{failures}");
    if one.is_none() && differ {
        for (index, known) in KNOWN.iter().enumerate() {
            let reason = known.reason;
            ensure!(
                report.known.contains_key(&index),
                "this difference is no longer met, take it off the table: {reason}"
            );
        }
    }
    Ok(())
}
