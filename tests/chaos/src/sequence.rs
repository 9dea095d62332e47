//! Sequences of random steps, each from one seed.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{runtime, time::sleep};

use crate::{Step, World};

/// Steps of one sequence, beside those that it begins with.
const STEPS: usize = 30;

/// Steps and the pauses after them.
pub type Sequence = Vec<(Step, Duration)>;

/// The sequence of this seed: a small cluster, and then anything.
#[must_use]
pub fn of(seed: u64) -> Sequence {
    with_steps(seed, STEPS)
}

/// A sequence of so many steps, beside those that it begins with.
#[must_use]
pub fn with_steps(seed: u64, count: usize) -> Sequence {
    let mut chance = StdRng::seed_from_u64(seed);
    let begin = [
        Step::Register { node: "n0", with_id: false },
        Step::Register { node: "n1", with_id: true },
        Step::Create("s0"),
    ];
    let steps: Vec<Step> = begin.into_iter().chain((0..count).map(|_| Step::any(&mut chance))).collect();
    steps.into_iter().map(|step| (step, pause(&mut chance))).collect()
}

/// Mostly so short that things meet on their way.
fn pause(chance: &mut StdRng) -> Duration {
    let longest = match chance.random_range(0..10) {
        0..5 => 50,
        5..8 => 1000,
        _ => 12_000,
    };
    Duration::from_millis(chance.random_range(0..longest))
}

/// Runs a sequence in a world of its own, on this thread.
///
/// # Errors
/// What is not as it should be at the end.
pub fn run(seed: u64, sequence: &[(Step, Duration)]) -> Result<Report, String> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut world = World::new(seed).await?;
        for (step, pause) in sequence {
            world.step(step).await?;
            sleep(*pause).await;
        }
        let took = world.settle().await?;
        Ok(Report {
            settled_in: took,
            mishaps: world.cloud().met().values().sum(),
            faults: world.plane().faults().met().values().sum(),
        })
    })
}

/// What a sequence has met.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// How long it took until all was as it should be.
    pub settled_in: Duration,
    /// Calls of the cloud that went wrong.
    pub mishaps: u64,
    /// Requests to the API server that went wrong.
    pub faults: u64,
}

/// Leaves steps out as long as the sequence fails without them.
#[must_use]
pub fn shrink(seed: u64, mut sequence: Sequence) -> Sequence {
    let mut size = sequence.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at + size <= sequence.len() {
            let mut shorter = sequence.clone();
            shorter.drain(at..at + size);
            if run(seed, &shorter).is_err() {
                sequence = shorter;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    sequence
}
