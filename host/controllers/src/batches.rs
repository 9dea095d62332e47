//! Queries the cloud in batches, such that an element that fails does not affect the others.
//!
//! A single element may make a whole call fail: the plugin traps because of it, or it takes so long
//! that no time is left for the others. Such a batch is split and retried at once, until the
//! elements that fail are alone. An element that failed alone is queried alone, in separate lanes,
//! until it is answered; after that, the size of its batches doubles with each answer.
//!
//! [`ask_all`] calls [`Ask::ask`] for each batch, and then, before it returns, [`Ask::handle`] of
//! the same [`Ask`] with the answers, or with the error of elements that are not retried.

pub(crate) mod asked;

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{BoxFuture, join_all};
use skydock_cloud::{Answers, CloudError};
use skydock_controller_base::calls::retry::RetryWhen;
use tokio::{sync::Semaphore, time::Instant};

/// A call that took this long failed because it ran out of time. Each half would cost as much time
/// again, so its elements are queried one by one.
const SLOW: Duration = Duration::from_secs(5);

/// After this many consecutive calls that failed as a whole, the cloud itself may be unavailable.
/// Then a single element is queried, and if that fails too, the batch is given up. After a few more
/// failures, the runtime would suspend calls to the plugin.
const STRIKES: u32 = 4;

/// Concurrent calls about parts of batches: if one is slow, the others still have a lane. With more
/// lanes, the part with the failing element would fail repeatedly while the good parts, queried at
/// the same time, are still in progress.
const PIECES: usize = 2;

/// Concurrent calls about single elements, some of which may take long.
const SINGLE: usize = 4;

/// How large a batch with this element may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchLimit {
    /// Maximum number of elements in the batch, including this one.
    pub(crate) size: usize,
    /// The element was queried alone and took long: no other element waits for it.
    pub(crate) slow: bool,
}

impl Default for BatchLimit {
    /// Allows batches as large as the provider accepts.
    fn default() -> Self {
        Self {
            size: usize::MAX,
            slow: false,
        }
    }
}

impl BatchLimit {
    /// Returns the size after the batch was answered by a provider that accepts at most `max`
    /// elements.
    #[must_use]
    fn answered(self, max: usize) -> Self {
        let size = self.size.saturating_mul(2);
        if size >= max {
            Self::default()
        } else {
            Self { size, slow: false }
        }
    }

    /// Returns the size after the batch failed as a whole.
    #[must_use]
    fn failed(self, failure: &Failure<'_>) -> Self {
        if failure.asks_for_time() {
            return self;
        }
        Self {
            size: self.size.min(failure.pieces()),
            slow: failure.size <= 1 && failure.is_slow(),
        }
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

    /// Returns true if no element is at fault: the cloud asks to wait, or another writer changed
    /// something at the same time.
    fn asks_for_time(&self) -> bool {
        matches!(
            RetryWhen::after(self.error),
            RetryWhen::After(_) | RetryWhen::Soon
        )
    }

    /// Returns the size of the batches into which this one is split.
    fn pieces(&self) -> usize {
        if self.is_slow() {
            1
        } else {
            (self.size / 2).max(1)
        }
    }

    /// Returns the size of the batches with which to retry at once; `None` if there is nothing to
    /// retry.
    fn retry_size(&self) -> Option<usize> {
        (self.size > 1 && !self.asks_for_time()).then(|| self.pieces())
    }

    /// Returns the error of each element. An error that would stop retries is replaced if it is
    /// about several elements, because it may not apply to each of them.
    fn of_each(&self) -> CloudError {
        match self.error {
            error @ (CloudError::Invalid(_) | CloudError::ImplementedElsewhere)
                if self.size > 1 =>
            {
                CloudError::Internal(format!(
                    "the call for {} elements was rejected as a whole: {error}",
                    self.size
                ))
            }
            error => error.clone(),
        }
    }
}

/// Limits the number of concurrent calls: a call waits for a place in the lane of its batch.
#[derive(Debug)]
pub(crate) struct Lanes {
    first: Semaphore,
    pieces: Semaphore,
    single: Semaphore,
    slow: Semaphore,
    /// Consecutive calls that failed as a whole.
    strikes: AtomicU32,
    /// Number of elements that were queried alone to check whether the cloud is available; selects
    /// a different element each time.
    probes: AtomicUsize,
}

impl Lanes {
    /// Creates lanes, `first` of which are for batches of full size. Parts of batches, single
    /// elements, and single elements that took long have separate lanes.
    pub(crate) fn new(first: usize) -> Self {
        Self {
            first: Semaphore::new(first),
            pieces: Semaphore::new(PIECES),
            single: Semaphore::new(SINGLE),
            slow: Semaphore::new(1),
            strikes: AtomicU32::new(0),
            probes: AtomicUsize::new(0),
        }
    }

    /// Returns true if the cloud seems to be unavailable.
    fn cloud_unavailable(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) >= STRIKES
    }

    /// Returns the lane of a batch whose first element has this `batch_limit`, for a provider that
    /// accepts at most `max` elements.
    fn of(&self, batch_limit: BatchLimit, max: usize) -> &Semaphore {
        match batch_limit {
            BatchLimit { slow: true, .. } => &self.slow,
            BatchLimit { size, .. } if size >= max => &self.first,
            BatchLimit { size: 1, .. } => &self.single,
            BatchLimit { .. } => &self.pieces,
        }
    }
}

/// Result of a query about one element.
pub(crate) struct Answered<T, R> {
    pub(crate) item: T,
    /// The answer; `None` if the cloud was not queried.
    pub(crate) result: Option<Result<R, CloudError>>,
    /// How large the next batch with this element may be.
    pub(crate) batch_limit: BatchLimit,
}

/// Queries the cloud, and handles the answers.
#[async_trait]
pub(crate) trait Ask: Sync {
    /// Element that is queried.
    type Item: Clone + Send + Sync;
    /// The cloud's answer about one element.
    type Answer: Send;

    /// Queries a batch; returns `None` if no call is to be made at the moment.
    async fn ask(&self, batch: &[Self::Item]) -> Option<Result<Answers<Self::Answer>, CloudError>>;

    /// Handles the answers of one call.
    async fn handle(&self, answered: Vec<Answered<Self::Item, Self::Answer>>);
}

/// Queries all elements in batches of at most `max`. Returns when all answers have been handled.
pub(crate) async fn ask_all<A: Ask>(
    asker: &A,
    items: impl IntoIterator<Item = (A::Item, BatchLimit)>,
    max: usize,
    lanes: &Lanes,
) {
    let max = max.max(1);
    let query = Query { asker, lanes, max };
    let batches = in_batches(items, max).into_iter().map(|batch| {
        let batch = batch
            .into_iter()
            .map(|(item, batch_limit)| Element {
                item,
                before: batch_limit,
                batch_limit,
            })
            .collect();
        query.ask(batch, None)
    });

    join_all(batches).await;
}

/// Groups elements that may be in one batch.
fn in_batches<T>(
    items: impl IntoIterator<Item = (T, BatchLimit)>,
    max: usize,
) -> Vec<Vec<(T, BatchLimit)>> {
    let mut items: Vec<_> = items.into_iter().collect();

    // The sort is stable: largest batches first, and within a size in the order of arrival.
    items.sort_by_key(|(_, batch_limit)| {
        (
            batch_limit.slow,
            std::cmp::Reverse(batch_limit.size.min(max)),
        )
    });

    let mut batches: Vec<Vec<(T, BatchLimit)>> = Vec::new();
    for (item, batch_limit) in items {
        match batches.last_mut() {
            Some(batch)
                if batch
                    .first()
                    .is_some_and(|(_, first)| fits(*first, batch_limit, batch.len(), max)) =>
            {
                batch.push((item, batch_limit));
            }
            _ => batches.push(vec![(item, batch_limit)]),
        }
    }

    batches
}

/// Returns true if the element may be added to a batch of `count` elements whose first one is
/// `first`.
fn fits(first: BatchLimit, next: BatchLimit, count: usize, max: usize) -> bool {
    let size = first.size.min(max);
    size == next.size.min(max) && count < size
}

/// An element of the query.
#[derive(Clone)]
struct Element<T> {
    item: T,
    /// How large its batch could be before this query.
    before: BatchLimit,
    /// How large it can be after the answers so far.
    batch_limit: BatchLimit,
}

/// A query of all elements.
struct Query<'a, A> {
    asker: &'a A,
    lanes: &'a Lanes,
    max: usize,
}

impl<A: Ask> Query<'_, A> {
    /// Queries a batch. `split` is the error of the batch that it was split from.
    fn ask(&self, batch: Vec<Element<A::Item>>, split: Option<CloudError>) -> BoxFuture<'_, ()> {
        // Boxed, because it calls itself for the parts of a batch.
        Box::pin(async move {
            let size = batch.len();
            let Some(first) = batch.first() else { return };
            let lane = self.lanes.of(first.batch_limit, self.max);

            // Lets the other parts of the same batch get in line before the parts into which this
            // one may be split.
            tokio::task::yield_now().await;
            // The semaphore is never closed.
            let Ok(permit) = lane.acquire().await else {
                return self.not_asked(batch).await;
            };

            // Other calls may have failed while this one waited.
            if let Some(error) = split.filter(|_| self.lanes.cloud_unavailable()) {
                return self.give_up(batch, &error).await;
            }

            let started = Instant::now();
            let answer = self.call(&batch).await;
            // Others can be called while the answers are handled.
            drop(permit);

            match answer {
                None => self.not_asked(batch).await,
                Some(Ok(answers)) => self.answered(batch, answers).await,
                Some(Err(error)) => {
                    let failure = Failure {
                        error: &error,
                        size,
                        took: started.elapsed(),
                    };
                    self.failed(batch, &failure).await;
                }
            }
        })
    }

    /// Makes a call, and counts consecutive calls that fail as a whole. Failures of elements that
    /// failed alone in earlier rounds are not counted: they are expected.
    async fn call(
        &self,
        batch: &[Element<A::Item>],
    ) -> Option<Result<Answers<A::Answer>, CloudError>> {
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
        self.hand_out(batch, |element| Answered {
            item: element.item,
            result: answers.next(),
            batch_limit: element.batch_limit.answered(self.max),
        })
        .await;
    }

    async fn failed(&self, mut batch: Vec<Element<A::Item>>, failure: &Failure<'_>) {
        let each = failure.of_each();

        // A single element that takes long is moved out of the way of the others, whatever the
        // reason for its failure.
        let in_the_way = failure.size == 1 && failure.is_slow();
        if !in_the_way && self.lanes.cloud_unavailable() && !self.answers_one(&mut batch).await {
            return self.give_up(batch, &each).await;
        }

        batch
            .iter_mut()
            .for_each(|element| element.batch_limit = element.batch_limit.failed(failure));

        let Some(size) = failure.retry_size() else {
            return self
                .hand_out(batch, |element| Answered {
                    item: element.item,
                    result: Some(Err(each.clone())),
                    batch_limit: element.batch_limit,
                })
                .await;
        };

        join_all(
            batch
                .chunks(size)
                .map(|piece| self.ask(piece.to_vec(), Some(each.clone()))),
        )
        .await;
    }

    /// Queries one of several elements alone, and returns true if it is answered: then it is
    /// handled and removed from the batch.
    async fn answers_one(&self, batch: &mut Vec<Element<A::Item>>) -> bool {
        if batch.len() < 2 {
            return false;
        }

        let index = self.lanes.probes.fetch_add(1, Ordering::Relaxed) % batch.len();
        let probe = vec![batch.swap_remove(index)];

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

    /// Handles the error of an unavailable cloud. The sizes of batches are not changed, because no
    /// element is at fault.
    async fn give_up(&self, batch: Vec<Element<A::Item>>, error: &CloudError) {
        self.hand_out(batch, |element| Answered {
            item: element.item,
            result: Some(Err(error.clone())),
            batch_limit: element.before,
        })
        .await;
    }

    /// Hands out that a batch was not queried.
    async fn not_asked(&self, batch: Vec<Element<A::Item>>) {
        self.hand_out(batch, |element| Answered {
            item: element.item,
            result: None,
            batch_limit: element.before,
        })
        .await;
    }

    /// Has the asker handle the answer of each element.
    async fn hand_out(
        &self,
        batch: Vec<Element<A::Item>>,
        answer: impl FnMut(Element<A::Item>) -> Answered<A::Item, A::Answer> + Send,
    ) {
        let answered = batch.into_iter().map(answer).collect();
        self.asker.handle(answered).await;
    }
}

/// Returns one answer for each question, even if a provider returns too few or too many.
pub(crate) fn complete<T>(
    answers: Vec<Result<T, CloudError>>,
    questions: usize,
) -> impl Iterator<Item = Result<T, CloudError>> {
    let missing = || {
        Err(CloudError::Internal(
            "the provider returned fewer answers than requested".to_owned(),
        ))
    };

    answers
        .into_iter()
        .chain(std::iter::repeat_with(missing))
        .take(questions)
}

#[cfg(test)]
mod tests;
