//! Asks the cloud in batches, so that no element is the hostage of another.
//!
//! One element may be why a call fails as a whole: the plugin traps over it, or it takes so long that the call has no time for
//! the others. Such a batch is cut and asked again at once, until what fails is alone. What failed alone stays alone, in a
//! lane of its own, until it is answered; then it goes in batches that double each time.

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
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

/// After so many calls that failed as a whole, without an answer between, the cloud itself may be away: one element is asked
/// about alone, and if that fails too, it is left at that. After a few more, the runtime would leave the plugin alone.
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

    /// The size of the batches that are asked about at once instead.
    fn cut(&self) -> Option<usize> {
        (self.size > 1 && !self.asks_for_time()).then(|| self.pieces())
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
    /// Calls in a row that failed as a whole.
    strikes: AtomicU32,
    /// Elements that were asked about to see whether the cloud is there: each time another one's turn.
    probes: AtomicUsize,
}

impl Lanes {
    /// So many for what is asked about as ever. What was cut has lanes of its own, and what took long alone has one.
    pub(crate) fn new(first: usize) -> Self {
        let lanes = Semaphore::new;
        Self {
            first: lanes(first),
            pieces: lanes(PIECES),
            single: lanes(SINGLE),
            slow: lanes(1),
            strikes: AtomicU32::new(0),
            probes: AtomicUsize::new(0),
        }
    }

    /// True if it seems that the cloud answers nobody.
    fn are_dead(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) >= STRIKES
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
    let round = Round { asker, lanes, max };
    let batches = in_batches(items, max).into_iter().map(|batch| {
        let batch = batch.into_iter().map(|(item, fit)| Element { item, before: fit, fit }).collect();
        round.ask(batch, None)
    });
    join_all(batches).await;
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

/// What is asked about.
#[derive(Clone)]
struct Element<T> {
    item: T,
    /// In how large a batch it could go at first, and can now.
    before: Fit,
    fit: Fit,
}

struct Round<'a, A> {
    asker: &'a A,
    lanes: &'a Lanes,
    max: usize,
}

impl<A: Ask> Round<'_, A> {
    /// Asks about a batch; `cut` is the error of the one that it was cut from.
    fn ask(&self, batch: Vec<Element<A::Item>>, cut: Option<CloudError>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let size = batch.len();
            let Some(first) = batch.first() else { return };
            let lane = self.lanes.of(first.fit, self.max);
            // The other pieces of the same batch stand in line before those that this one may be cut into.
            tokio::task::yield_now().await;
            // It is never closed.
            let permit = lane.acquire().await.ok();
            if let Some(error) = cut.filter(|_| self.lanes.are_dead()) {
                return self.give_up(batch, &error).await;
            }
            let started = Instant::now();
            let answer = self.call(&batch).await;
            drop(permit);
            match answer {
                None => self.settle(batch, |element| (None, element.before)).await,
                Some(Ok(answers)) => self.answered(batch, answers).await,
                Some(Err(error)) => {
                    let failure = Failure { error: &error, size, took: started.elapsed() };
                    self.failed(batch, &failure).await;
                }
            }
        })
    }

    /// Counts the calls in a row that fail as a whole. That what failed alone before does so again says nothing.
    async fn call(&self, batch: &[Element<A::Item>]) -> Option<Result<Answers<A::Answer>, CloudError>> {
        let items: Vec<A::Item> = batch.iter().map(|element| element.item.clone()).collect();
        let answer = self.asker.ask(&items).await;
        match &answer {
            Some(Ok(_)) => self.lanes.strikes.store(0, Ordering::Relaxed),
            Some(Err(_)) if batch.iter().any(|element| element.before.size > 1) => {
                self.lanes.strikes.fetch_add(1, Ordering::Relaxed);
            }
            Some(Err(_)) | None => {}
        }
        answer
    }

    async fn answered(&self, batch: Vec<Element<A::Item>>, answers: Answers<A::Answer>) {
        let mut answers = complete(answers, batch.len());
        self.settle(batch, |element| (answers.next(), element.fit.answered(self.max))).await;
    }

    async fn failed(&self, mut batch: Vec<Element<A::Item>>, failure: &Failure<'_>) {
        let each = failure.of_each();
        // What takes long alone is out of the others' way, whoever is to blame.
        let in_the_way = failure.size == 1 && failure.is_slow();
        if !in_the_way && self.lanes.are_dead() && !self.is_there(&mut batch).await {
            return self.give_up(batch, &each).await;
        }
        batch.iter_mut().for_each(|element| element.fit = element.fit.failed(failure));
        let Some(size) = failure.cut() else {
            return self.settle(batch, |element| (Some(Err(each.clone())), element.fit)).await;
        };
        join_all(batch.chunks(size).map(|piece| self.ask(piece.to_vec(), Some(each.clone())))).await;
    }

    /// Asks about one of several alone. If that is answered, it is settled.
    async fn is_there(&self, batch: &mut Vec<Element<A::Item>>) -> bool {
        if batch.len() < 2 {
            return false;
        }
        let turn = self.lanes.probes.fetch_add(1, Ordering::Relaxed) % batch.len();
        let probe = vec![batch.swap_remove(turn)];
        match self.call(&probe).await {
            Some(Ok(answers)) => {
                self.answered(probe, answers).await;
                true
            }
            _ => {
                batch.extend(probe);
                false
            }
        }
    }

    /// It is the cloud's fault, and no element's: next time they go as they went this time.
    async fn give_up(&self, batch: Vec<Element<A::Item>>, error: &CloudError) {
        self.settle(batch, |element| (Some(Err(error.clone())), element.before)).await;
    }

    async fn settle(
        &self,
        batch: Vec<Element<A::Item>>,
        mut answer: impl FnMut(&Element<A::Item>) -> (Option<Result<A::Answer, CloudError>>, Fit) + Send,
    ) {
        let answered = batch.into_iter().map(|element| {
            let (result, fit) = answer(&element);
            Answered { item: element.item, result, fit }
        });
        let answered = answered.collect();
        self.asker.settle(answered).await;
    }
}

#[cfg(test)]
mod tests;
