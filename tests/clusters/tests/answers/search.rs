//! Runs the sequences of seeds and reports the differences with sequences that are as short as
//! possible.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Result, anyhow};
use futures::TryStreamExt as _;
use proptest::{
    strategy::{Strategy as _, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::{
    compare::{Found, Planes, compare},
    generate,
    known::KNOWN,
    request::Request,
};

/// The number of parallel sequences. They mostly wait for watches.
const AT_ONCE: usize = 8;
/// The maximum number of steps to shorten a sequence.
const SHRINKS: usize = 300;
/// The maximum number of differences that are reported in full.
const TOLD: usize = 12;

type Tree = Box<dyn ValueTree<Value = Vec<Request>>>;

/// Returns the sequence of a seed, which can be shortened.
fn tree(seed: u64) -> Result<Tree> {
    let mut bytes = [0; 32];
    bytes
        .iter_mut()
        .zip(seed.to_le_bytes())
        .for_each(|(byte, of_seed)| *byte = of_seed);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = generate::sequence(seed).boxed().new_tree(&mut runner);
    tree.map_err(|reason| anyhow!("no sequence: {reason}"))
}

/// The results.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The number of accepted differences by index in the table.
    pub(crate) known: BTreeMap<usize, usize>,
    /// The other differences by signature, with a description of the first one and all seeds.
    pub(crate) unknown: BTreeMap<String, (String, Vec<u64>)>,
    pub(crate) requests: usize,
}

/// Runs the sequences of these seeds.
pub(crate) async fn run(planes: &Planes, seeds: Vec<u64>) -> Result<Report> {
    let report = Arc::new(Mutex::new(Report::default()));
    futures::stream::iter(seeds.into_iter().map(Ok))
        .try_for_each_concurrent(AT_ONCE, |seed| {
            let report = Arc::clone(&report);
            async move { one(planes, seed, &report).await }
        })
        .await?;
    let report = Arc::try_unwrap(report).map_err(|_| anyhow!("a sequence still runs"))?;
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

async fn one(planes: &Planes, seed: u64, report: &Mutex<Report>) -> Result<()> {
    let mut tree = tree(seed)?;
    let requests = tree.current();
    let found = compare(planes, &requests).await?;
    let lock = || report.lock().unwrap_or_else(PoisonError::into_inner);
    lock().requests += requests.len();
    let Some(found) = found else { return Ok(()) };
    if let Some(known) = known(&requests, &found) {
        *lock().known.entry(known).or_default() += 1;
        return Ok(());
    }
    let signature = signature(&requests, &found);
    let first = {
        let mut report = lock();
        let told = report.unknown.len() < TOLD;
        let entry = report.unknown.entry(signature.clone()).or_default();
        entry.1.push(seed);
        told && entry.1.len() == 1
    };
    if first {
        let (requests, found) = shorten(planes, &mut tree, &signature, (requests, found)).await?;
        lock().unknown.entry(signature).or_default().0 = tell(&requests, &found);
    }
    Ok(())
}

fn known(requests: &[Request], found: &Found) -> Option<usize> {
    let request = requests.get(found.index)?;
    KNOWN.iter().position(|known| (known.is)(request, found))
}

/// Returns method, resource and path of the first difference. Two sequences with the same signature
/// most likely have the same cause.
fn signature(requests: &[Request], found: &Found) -> String {
    let request = requests.get(found.index);
    let (method, plural) = request.map_or(("", String::new()), |request| {
        (request.method, request.object().0)
    });
    let path = found.differences.first().map_or("", |(path, ..)| path);
    format!("{method} {plural} {:?} {path}", found.statuses())
}

/// Removes everything from a sequence that is not required for the same difference.
async fn shorten(
    planes: &Planes,
    tree: &mut Tree,
    signature: &str,
    mut best: (Vec<Request>, Found),
) -> Result<(Vec<Request>, Found)> {
    let mut simpler = tree.simplify();
    for _ in 0..SHRINKS {
        if !simpler {
            break;
        }
        let requests = tree.current();
        let found = compare(planes, &requests).await?;
        simpler = match found.filter(|found| self::signature(&requests, found) == signature) {
            Some(found) => {
                best = (requests, found);
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    Ok(best)
}

fn tell(requests: &[Request], found: &Found) -> String {
    let mut text = String::new();
    for request in requests.iter().take(found.index + 1) {
        let _ = writeln!(text, "  {request}");
    }
    text + &found.to_string()
}

impl Report {
    /// Returns the unexpected results, or an empty text if there are none.
    pub(crate) fn failures(&self) -> String {
        let mut text = String::new();
        for (signature, (told, seeds)) in &self.unknown {
            let _ = writeln!(text, "{signature}: seeds {seeds:?}\n{told}");
        }
        text
    }
}
