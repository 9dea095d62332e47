//! Random sequences of steps on a real API server, with the built binary: whatever happens, in the end all is as it should be.
//!
//! `SKYDOCK_REAL_SEQUENCES=50` runs more of them, `SKYDOCK_SEED=123` the one of a seed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // a test: what clippy allows in test functions does not reach the helpers beside them

use std::{
    env,
    sync::atomic::{AtomicU64, Ordering},
};

use futures::future::join_all;
use skydock_chaos::{real, sequence};

/// Sequences of one run.
const SEQUENCES: u64 = 6;
/// Steps of each: more than on the embedded plane, since most of a run's time goes into starting its processes.
const STEPS: usize = 80;
/// At a time: each has an API server of its own.
const AT_ONCE: usize = 3;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, and is {text:?}")))
}

async fn run(seed: u64) -> real::Report {
    let sequence = sequence::with_steps(seed, STEPS);
    match real::run(seed, &sequence).await {
        Ok(report) => {
            println!("seed {seed}: {report:?}");
            report
        }
        Err(error) => panic!(
            "{error:?}\n  steps:\n{sequence:#?}\n  again: SKYDOCK_SEED={seed} cargo test -p skydock-chaos --test real_chaos"
        ),
    }
}

// Holds: OPS-02, OPS-08
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_one_host_works_and_all_ends_well() {
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
    let reports: Vec<_> = join_all((0..AT_ONCE).map(|_| work())).await.into_iter().flatten().collect();
    let sum = |figure: fn(&real::Report) -> u64| reports.iter().map(figure).sum::<u64>();
    let faults = sum(|report| report.faults);
    let writes = sum(|report| u64::try_from(report.writes).unwrap());
    let leaders = sum(|report| u64::try_from(report.leaders).unwrap());
    println!("{count} sequences met {faults} faults; {writes} writes, {leaders} changes of leader");
    assert!(faults > count && writes > count && leaders > 0, "hardly anything happened");
}
