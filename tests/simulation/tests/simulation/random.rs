//! Random sequences of steps: at the end, the state is always as expected.
//!
//! `SKYDOCK_SEQUENCES=10000` runs more of them. `SKYDOCK_SEED=123` runs the one with this seed and
//! logs what happens.
#![allow(clippy::unwrap_used, clippy::panic)] // clippy's exceptions for test functions do not cover helpers

use std::{
    env,
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use skydock_simulation::sequence::{self, Report, Sequence};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// The number of sequences per run.
const SEQUENCES: u64 = 200;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a whole number, and is {text:?}")),
    )
}

fn steps(sequence: &Sequence) -> String {
    let mut text = String::new();
    for (step, pause) in sequence {
        writeln!(text, "    {step:?}, then {pause:?}").unwrap();
    }
    text
}

fn run(seed: u64) -> Result<Report, String> {
    let sequence = sequence::of(seed);
    sequence::run(seed, &sequence).map_err(|failure| {
        let shorter = sequence::shrink(seed, sequence.clone());
        format!(
            "{failure}\n  steps:\n{}  as few steps as fail:\n{}  again: SKYDOCK_SEED={seed} cargo test -p skydock-simulation --test simulation random::",
            steps(&sequence),
            steps(&shorter)
        )
    })
}

#[test]
fn random_faults_always_end_in_the_desired_state() {
    if let Some(seed) = number("SKYDOCK_SEED") {
        let filter: Targets = env::var("RUST_LOG")
            .unwrap_or_else(|_| "skydock=debug".into())
            .parse()
            .unwrap();
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_test_writer()
            .finish()
            .with(filter)
            .init();
        println!("steps:\n{}", steps(&sequence::of(seed)));
        let report =
            sequence::run(seed, &sequence::of(seed)).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{report:?}");
        return;
    }
    // It computes for half a minute, with a clock of its own; tests that run beside it wait by the
    // machine's.
    let _ = rustix::process::nice(19);
    let count = number("SKYDOCK_SEQUENCES").unwrap_or(SEQUENCES);
    let next = AtomicU64::new(0);
    let work = || {
        let mut reports = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return reports;
            }
            reports.push(run(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}")));
        }
    };
    let reports: Vec<Report> = thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let (mishaps, faults) = reports.iter().fold((0, 0), |(a, b), report| {
        (a + report.mishaps, b + report.faults)
    });
    let longest = reports
        .iter()
        .map(|report| report.settled_in)
        .max()
        .unwrap();
    println!(
        "{count} sequences met {mishaps} mishaps and {faults} faults; the slowest settled in {longest:?}"
    );
    assert!(
        mishaps > count && faults > count,
        "hardly anything went wrong: {mishaps} mishaps, {faults} faults"
    );
}
