//! Asks the cloud in batches, so that no element is the hostage of another.
//!
//! One element may be why a call fails as a whole: the plugin traps over it, or it takes so long that the call has no time for
//! the others. Such a batch is cut and asked again at once, until what fails is alone. What failed alone stays alone, in a
//! lane of its own, until it is answered; then it goes in batches that double each time.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{BoxFuture, join_all};
use skydock_cloud::{Answers, CloudError};
use tokio::{sync::Semaphore, time::Instant};

use crate::{retry::Again, shared::complete};

/// A call that took this long failed because of its time. To cut it in halves would cost as much again for each half; so its
/// elements are asked about one by one.
const SLOW: Duration = Duration::from_secs(5);

/// After so many calls that failed as a whole, without an answer between, nothing more is cut: it is not one element. After one
/// more, the runtime would leave the plugin alone for a while.
const STRIKES: u32 = 4;

/// In how large a batch an element may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Most elements of the batch, itself included.
    pub(crate) size: usize,
    /// It was alone, and took long: nothing else is to wait for it.
    pub(crate) slow: bool,
}

impl Default for Fit {
    /// With as many as the provider takes.
    fn default() -> Self {
        Self { size: usize::MAX, slow: false }
    }
}

impl Fit {
    /// After its batch was answered, by a provider that takes at most `max`.
    #[must_use]
    fn answered(self, max: usize) -> Self {
        let size = self.size.saturating_mul(2);
        if size >= max { Self::default() } else { Self { size, slow: false } }
    }

    /// After a batch of this size failed as a whole.
    #[must_use]
    fn failed(self, failure: &Failure<'_>) -> Self {
        if failure.asks_for_time() {
            return self;
        }
        Self { size: self.size.min(failure.pieces()), slow: failure.size <= 1 && failure.is_slow() }
    }
}

/// A call that failed as a whole.
struct Failure<'a> {
    error: &'a CloudError,
    size: usize,
    took: Duration,
}

impl Failure<'_> {
    fn is_slow(&self) -> bool {
        self.took >= SLOW
    }

    /// True if the error is no one's fault: the cloud wants to be left alone, or a race was lost.
    fn asks_for_time(&self) -> bool {
        matches!(Again::after(self.error), Again::After(_) | Again::Soon)
    }

    /// The size of the batches it is to be cut into.
    fn pieces(&self) -> usize {
        if self.is_slow() { 1 } else { (self.size / 2).max(1) }
    }

    /// The size of the batches that are asked about at once instead, after so many failures in a row.
    fn cut(&self, strikes: u32) -> Option<usize> {
        let again = self.size > 1 && strikes < STRIKES && !self.asks_for_time();
        again.then(|| self.pieces())
    }

    /// The error of each element. What is said of many at once is not said of each: none is refused for good.
    fn of_each(&self) -> CloudError {
        match self.error {
            error @ (CloudError::Invalid(_) | CloudError::ImplementedElsewhere) if self.size > 1 => {
                CloudError::Internal(format!("{} were asked about at once, and the answer was: {error}", self.size))
            }
            error => error.clone(),
        }
    }
}

/// Calls about pieces of batches at the same time: one that is late leaves a lane to the others. With more lanes the bad piece
/// would fail again and again while the good ones, asked about at the same time, are still on their way.
const PIECES: usize = 2;
/// Calls about single elements at the same time, some of which may take long.
const SINGLE: usize = 4;

/// Calls that are made at the same time.
#[derive(Debug)]
pub(crate) struct Lanes {
    first: Semaphore,
    pieces: Semaphore,
    single: Semaphore,
    slow: Semaphore,
}

impl Lanes {
    /// So many for what is asked about as ever. What was cut has lanes of its own, and what took long alone has one.
    pub(crate) fn new(first: usize) -> Self {
        let lanes = Semaphore::new;
        Self { first: lanes(first), pieces: lanes(PIECES), single: lanes(SINGLE), slow: lanes(1) }
    }

    /// The lane of a batch that begins with this, where a provider takes at most `max`.
    fn of(&self, fit: Fit, max: usize) -> &Semaphore {
        match fit {
            Fit { slow: true, .. } => &self.slow,
            Fit { size, .. } if size >= max => &self.first,
            Fit { size: 1, .. } => &self.single,
            Fit { .. } => &self.pieces,
        }
    }
}

/// What has become of a question.
pub(crate) struct Answered<T, R> {
    /// About what.
    pub(crate) item: T,
    /// `None` if it was not asked.
    pub(crate) result: Option<Result<R, CloudError>>,
    /// In how large a batch it may go next time.
    pub(crate) fit: Fit,
}

/// Who asks, and what follows.
#[async_trait]
pub(crate) trait Ask: Sync {
    /// What is asked about.
    type Item: Clone + Send + Sync;
    /// What the cloud says.
    type Answer: Send;

    /// Asks; `None` if that is not to be done now.
    async fn ask(&self, batch: &[Self::Item]) -> Option<Result<Answers<Self::Answer>, CloudError>>;

    /// Does what follows from the answers of one call.
    async fn settle(&self, answered: Vec<Answered<Self::Item, Self::Answer>>);
}

/// Asks about all these, in batches of at most `max`. Ends when what follows is done for each.
pub(crate) async fn ask_all<A: Ask>(
    asker: &A,
    items: impl IntoIterator<Item = (A::Item, Fit)>,
    max: usize,
    lanes: &Lanes,
) {
    let max = max.max(1);
    let round = Round { asker, lanes, max, strikes: AtomicU32::new(0) };
    join_all(in_batches(items, max).into_iter().map(|batch| round.ask(batch, None))).await;
}

/// Batches of elements that fit together.
fn in_batches<T>(items: impl IntoIterator<Item = (T, Fit)>, max: usize) -> Vec<Vec<(T, Fit)>> {
    let mut items: Vec<_> = items.into_iter().collect();
    // Stable: the largest batches first, each in the order in which they came.
    items.sort_by_key(|(_, fit)| (fit.slow, std::cmp::Reverse(fit.size.min(max))));
    let mut batches: Vec<Vec<(T, Fit)>> = Vec::new();
    for (item, fit) in items {
        match batches.last_mut() {
            Some(batch) if batch.first().is_some_and(|(_, first)| fits(*first, fit, batch.len(), max)) => {
                batch.push((item, fit));
            }
            _ => batches.push(vec![(item, fit)]),
        }
    }
    batches
}

/// True if an element may be added to so many that begin with this one.
fn fits(first: Fit, next: Fit, count: usize, max: usize) -> bool {
    let size = first.size.min(max);
    size == next.size.min(max) && count < size
}

struct Round<'a, A> {
    asker: &'a A,
    lanes: &'a Lanes,
    max: usize,
    /// Calls in a row that failed as a whole.
    strikes: AtomicU32,
}

impl<A: Ask> Round<'_, A> {
    /// Asks about a batch; `before` is the error of the one that it was cut from.
    fn ask(&self, batch: Vec<(A::Item, Fit)>, before: Option<CloudError>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let size = batch.len();
            let Some((_, first)) = batch.first() else { return };
            let lane = self.lanes.of(*first, self.max);
            // The other pieces of the same batch stand in line before those that this one may be cut into.
            tokio::task::yield_now().await;
            // It is never closed.
            let permit = lane.acquire().await.ok();
            if let Some(error) = before.filter(|_| self.strikes.load(Ordering::Relaxed) >= STRIKES) {
                return self.settle(batch, |fit| (Some(Err(error.clone())), fit)).await;
            }
            let items: Vec<A::Item> = batch.iter().map(|(item, _)| item.clone()).collect();
            let started = Instant::now();
            let answer = self.asker.ask(&items).await;
            drop((permit, items));
            match answer {
                None => self.settle(batch, |fit| (None, fit)).await,
                Some(Ok(answers)) => {
                    self.strikes.store(0, Ordering::Relaxed);
                    let mut answers = complete(answers, size);
                    self.settle(batch, |fit| (answers.next(), fit.answered(self.max))).await;
                }
                Some(Err(error)) => {
                    let failure = Failure { error: &error, size, took: started.elapsed() };
                    self.failed(batch, &failure).await;
                }
            }
        })
    }

    async fn failed(&self, batch: Vec<(A::Item, Fit)>, failure: &Failure<'_>) {
        let strikes = self.strikes.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let each = failure.of_each();
        let batch: Vec<_> = batch.into_iter().map(|(item, fit)| (item, fit.failed(failure))).collect();
        let Some(size) = failure.cut(strikes) else {
            return self.settle(batch, |fit| (Some(Err(each.clone())), fit)).await;
        };
        let pieces = batch.chunks(size);
        join_all(pieces.map(|piece| self.ask(piece.to_vec(), Some(each.clone())))).await;
    }

    async fn settle(
        &self,
        batch: Vec<(A::Item, Fit)>,
        mut answer: impl FnMut(Fit) -> (Option<Result<A::Answer, CloudError>>, Fit) + Send,
    ) {
        let answered = batch.into_iter().map(|(item, fit)| {
            let (result, fit) = answer(fit);
            Answered { item, result, fit }
        });
        let answered = answered.collect();
        self.asker.settle(answered).await;
    }
}

#[cfg(test)]
mod tests;
