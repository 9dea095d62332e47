//! Joins questions that arrive at about the same time into one call of the plugin: CSI asks about
//! each volume alone, and clouds answer about hundreds at once.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use skydock_cloud::{Answers, CloudError, StorageError};
use tokio::sync::{Notify, oneshot};

use crate::{busy::Operation, failure::of_call};

/// Time for which the first question waits for others.
const WINDOW: Duration = Duration::from_millis(20);

/// A call with a list of questions.
type Call<Q, A> = dyn Fn(Vec<Q>) -> BoxFuture<'static, Result<Answers<A, StorageError>, CloudError>>
    + Send
    + Sync;

/// Questions for one function, which wait for each other.
pub(crate) struct Batch<Q, A> {
    waiting: Mutex<Vec<Waiting<Q, A>>>,
    full: Notify,
    /// Returns the maximum number of questions in a call.
    max: Box<dyn Fn() -> usize + Send + Sync>,
    call: Box<Call<Q, A>>,
}

struct Waiting<Q, A> {
    question: Q,
    answer: oneshot::Sender<Result<A, StorageError>>,
    /// Ends when the question is answered, also if nobody waits for the answer any more: until then,
    /// the plugin may be changing the object.
    operation: Option<Arc<Operation>>,
}

impl<Q: Clone + Send + 'static, A: Send + 'static> Batch<Q, A> {
    pub(crate) fn new(
        max: impl Fn() -> usize + Send + Sync + 'static,
        call: impl Fn(Vec<Q>) -> BoxFuture<'static, Result<Answers<A, StorageError>, CloudError>>
        + Send
        + Sync
        + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            full: Notify::new(),
            max: Box::new(max),
            call: Box::new(call),
        })
    }

    /// Asks a question together with others.
    ///
    /// # Errors
    /// That of its answer, or of the call.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: Q,
        operation: Option<Arc<Operation>>,
    ) -> Result<A, StorageError> {
        let (sender, answer) = oneshot::channel();
        let count = {
            let mut waiting = self.waiting.lock();
            waiting.push(Waiting {
                question,
                answer: sender,
                operation,
            });
            waiting.len()
        };

        if count == 1 {
            // A task of its own: callers may go away.
            tokio::spawn(Arc::clone(self).answer_all());
        } else if count >= (self.max)() {
            self.full.notify_one();
        }

        let ended = |_| CloudError::Unavailable("the call ended without an answer".to_owned());
        answer.await.map_err(ended)?
    }

    async fn answer_all(self: Arc<Self>) {
        tokio::select! {
            () = tokio::time::sleep(WINDOW) => {}
            () = self.full.notified() => {}
        }

        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        while !waiting.is_empty() {
            let rest = waiting.split_off((self.max)().clamp(1, waiting.len()));
            tokio::spawn(Arc::clone(&self).answer(waiting));
            waiting = rest;
        }
    }

    fn answer(self: Arc<Self>, mut waiting: Vec<Waiting<Q, A>>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let count = waiting.len();
            let questions: Vec<Q> = waiting.iter().map(|it| it.question.clone()).collect();
            let answers = match (self.call)(questions).await {
                Ok(answers) if answers.len() == count => answers,
                Ok(_) => failed(
                    count,
                    &CloudError::Internal("an answer is missing".to_owned()),
                ),
                // Of one question, perhaps, and the others are those of other users.
                Err(CloudError::Invalid(_)) if count > 1 => {
                    let rest = waiting.split_off(count / 2);
                    for half in [waiting, rest] {
                        tokio::spawn(Arc::clone(&self).answer(half));
                    }
                    return;
                }
                Err(error) => failed(count, &of_call(error)),
            };

            for (it, answer) in waiting.into_iter().zip(answers) {
                // Before the answer, so that the caller can begin another one.
                drop(it.operation);
                let _ = it.answer.send(answer);
            }
        })
    }
}

/// Returns the error of a call for each of its questions.
fn failed<A>(count: usize, error: &CloudError) -> Answers<A, StorageError> {
    let answer = || Err(StorageError::Cloud(error.clone()));
    std::iter::repeat_with(answer).take(count).collect()
}

#[cfg(test)]
mod tests;
