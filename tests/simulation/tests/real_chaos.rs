//! Random sequences of steps on a real API server with the built binary: at the end, the state is
//! always as expected.
//!
//! `SKYDOCK_REAL_SEQUENCES=50` runs more of them. `SKYDOCK_SEED=123` runs the one with this seed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // clippy's exceptions for test functions do not cover helpers

use std::{
    env,
    sync::atomic::{AtomicU64, Ordering},
};

use futures::future::join_all;
use skydock_simulation::{real, sequence};

/// The number of sequences per run.
const SEQUENCES: u64 = 3;
/// The number of steps of each sequence. It is higher than on the embedded plane, because starting
/// the processes takes most of the time.
const STEPS: usize = 80;
/// The number of parallel sequences, each with its own API server.
const AT_ONCE: usize = 3;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a whole number, and is {text:?}")),
    )
}

async fn run(seed: u64) -> real::Report {
    let sequence = sequence::with_steps(seed, STEPS);
    match real::run(seed, &sequence).await {
        Ok(report) => {
            println!("seed {seed}: {report:?}");
            report
        }
        Err(error) => panic!(
            "{error:?}\n  steps:\n{sequence:#?}\n  again: SKYDOCK_SEED={seed} cargo test -p skydock-simulation --test real_chaos"
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_end_well_with_a_single_leader() {
    if let Some(seed) = number("SKYDOCK_SEED") {
        run(seed).await;
        return;
    }
    let count = number("SKYDOCK_REAL_SEQUENCES").unwrap_or(SEQUENCES);
    let next = AtomicU64::new(0);
    let work = async || {
        let mut reports = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return reports;
            }
            reports.push(run(seed).await);
        }
    };
    let reports: Vec<_> = join_all((0..AT_ONCE).map(|_| work()))
        .await
        .into_iter()
        .flatten()
        .collect();
    let sum = |figure: fn(&real::Report) -> u64| reports.iter().map(figure).sum::<u64>();
    let faults = sum(|report| report.faults);
    let writes = sum(|report| u64::try_from(report.writes).unwrap());
    let leaders = sum(|report| u64::try_from(report.leaders).unwrap());
    println!("{count} sequences met {faults} faults; {writes} writes, {leaders} changes of leader");
    assert!(
        faults > count && writes > count && leaders > 0,
        "hardly anything happened"
    );
}
