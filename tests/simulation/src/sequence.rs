//! Sequences of random steps, determined by a seed.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{runtime, time::sleep};

use crate::{Step, World};

/// The number of random steps of a sequence, after its initial steps.
const STEPS: usize = 30;

/// Steps with the pauses after them.
pub type Sequence = Vec<(Step, Duration)>;

/// Returns the sequence for this seed: the steps that create a small cluster, then random steps.
#[must_use]
pub fn of(seed: u64) -> Sequence {
    with_steps(seed, STEPS)
}

/// Returns a sequence with this number of random steps after the initial ones.
#[must_use]
pub fn with_steps(seed: u64, count: usize) -> Sequence {
    let mut chance = StdRng::seed_from_u64(seed);
    let begin = [
        Step::Register {
            node: "n0",
            with_id: false,
        },
        Step::Register {
            node: "n1",
            with_id: true,
        },
        Step::Create("s0"),
    ];
    let steps: Vec<Step> = begin
        .into_iter()
        .chain((0..count).map(|_| Step::any(&mut chance)))
        .collect();
    steps
        .into_iter()
        .map(|step| (step, pause(&mut chance)))
        .collect()
}

/// Returns a random pause. Most are so short that the effects of steps overlap.
fn pause(chance: &mut StdRng) -> Duration {
    let longest = match chance.random_range(0..10) {
        0..5 => 50,
        5..8 => 1000,
        _ => 12_000,
    };
    Duration::from_millis(chance.random_range(0..longest))
}

/// Runs a sequence in its own world, on this thread.
///
/// # Errors
/// Returns the differences from the expected state at the end.
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

/// The results of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The time until the expected state was reached.
    pub settled_in: Duration,
    /// The number of failed calls of the cloud.
    pub mishaps: u64,
    /// The number of failed requests to the API server.
    pub faults: u64,
}

/// Removes steps as long as the sequence still fails without them.
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
