//! Sends the same sequence to both planes and compares all answers.

use std::{
    fmt,
    sync::{
        PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use kube::Client;
use serde_json::Value;

use super::{
    normal::{Normal, differences, is_by_the_way},
    request::Request,
    send::{self, Content, Run},
};

/// How long watches that have fewer events than those of the other plane may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long both must have no new events until they are done.
const SILENCE: Duration = Duration::from_millis(60);

/// The two planes.
#[derive(Clone)]
pub(crate) struct Planes {
    pub(crate) embedded: Client,
    pub(crate) real: Client,
}

/// The first answers that differ.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The index of the request.
    pub(crate) index: usize,
    pub(crate) embedded: Value,
    pub(crate) real: Value,
    /// The differences: path, value of the embedded plane, value of the real plane.
    pub(crate) differences: Vec<(String, Value, Value)>,
    /// The messages, which are not compared.
    messages: [String; 2],
}

impl Found {
    pub(crate) fn statuses(&self) -> (u64, u64) {
        let status = |value: &Value| value["status"].as_u64().unwrap_or_default();
        (status(&self.embedded), status(&self.real))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (embedded, real) = self.statuses();
        writeln!(out, "    embedded: {embedded} {}", self.messages[0])?;
        writeln!(out, "    real:     {real} {}", self.messages[1])?;
        for (path, embedded, real) in self.differences.iter().take(12) {
            writeln!(
                out,
                "      {path}\n        embedded: {embedded}\n        real:     {real}"
            )?;
        }
        Ok(())
    }
}

/// Sends the sequence to both planes and returns the first difference.
pub(crate) async fn compare(planes: &Planes, requests: &[Request]) -> Result<Option<Found>> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let namespace = format!("s{number}");
    let (embedded, real) = tokio::try_join!(
        send::run(&planes.embedded, &namespace, number, requests),
        send::run(&planes.real, &namespace, number, requests),
    )?;
    settle(&embedded, &real).await;
    let (mut of_embedded, mut of_real) = (Normal::new(&embedded), Normal::new(&real));
    let mut first = None;
    for (index, request) in requests.iter().enumerate() {
        let (Some(a), Some(b)) = (embedded.answers.get(index), real.answers.get(index)) else {
            continue;
        };
        let messages = [a, b].map(|answer| {
            answer.value()["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        });
        let (a, b) = (of_embedded.answer(request, a), of_real.answer(request, b));
        let mut found = Vec::new();
        differences("", &a, &b, &mut found);
        if !found.is_empty() {
            first = Some(Found {
                index,
                embedded: a,
                real: b,
                differences: found,
                messages,
            });
            break;
        }
    }
    send::tidy(&planes.embedded, &namespace, embedded).await?;
    send::tidy(&planes.real, &namespace, real).await?;
    Ok(first)
}

/// Waits until the watches of both planes have the same number of events and no new ones.
async fn settle(one: &Run, other: &Run) {
    let began = Instant::now();
    let (mut last, mut since) = ((0, 0), Instant::now());
    loop {
        let now = (seen(one), seen(other));
        if now != last {
            (last, since) = (now, Instant::now());
        }
        let watches = one
            .answers
            .iter()
            .any(|answer| matches!(answer.body, Content::Events(_)));
        let silent = since.elapsed() > SILENCE && now.0 == now.1;
        if !watches || silent || began.elapsed() > PATIENCE {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the number of compared events, plus the number of ended watches.
fn seen(run: &Run) -> usize {
    let of = |content: &Content| match content {
        Content::Whole(_) => 0,
        Content::Events(events) => {
            let events = events.lock().unwrap_or_else(PoisonError::into_inner);
            events
                .lines
                .iter()
                .filter(|line| !is_by_the_way(line))
                .count()
                + usize::from(events.over)
        }
    };
    run.answers.iter().map(|answer| of(&answer.body)).sum()
}
