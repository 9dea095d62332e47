//! One round of questions about nodes: has the cloud describe a batch, pairs the answers with the
//! nodes, and has them initialized or repaired. `batches.rs` calls it for each batch.

mod describe;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use skydock_cloud::{Answers, CloudError, Instance};
use skydock_controller_base::calls::retry::RetryWhen;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{NodeController, NodeEntry, WRITERS, added, plan};
use crate::batches::{Answered, Ask};

/// Maximum time for which nodes are gathered while a query is in progress, so that fewer calls are
/// about more nodes.
const LONGEST_HOLD: Duration = Duration::from_millis(250);

/// The queries of one batch.
pub(super) struct Round<'a> {
    controller: &'a NodeController,
    stop: &'a CancellationToken,
    /// Number of marks of due nodes when this round started.
    marks: u64,
    /// Limits concurrent writes.
    writers: Semaphore,
    /// A query has failed and is retried with back-off.
    failed: AtomicBool,
}

impl<'a> Round<'a> {
    pub(super) fn new(controller: &'a NodeController, stop: &'a CancellationToken) -> Self {
        let marks = controller.due.marks();
        Self {
            controller,
            stop,
            marks,
            writers: Semaphore::new(WRITERS),
            failed: AtomicBool::new(false),
        }
    }

    async fn follow(&self, entry: NodeEntry, answer: Result<Instance, CloudError>) {
        let controller = self.controller;
        let key = entry.key();

        match (plan::uninitialized(&entry.view), answer) {
            (true, Ok(instance)) => controller.initialize(entry, &instance, &self.writers).await,
            (true, Err(error)) => controller.reject(&entry, &error),
            (false, Ok(instance)) => {
                controller
                    .repair(&entry, &instance, self.marks, &self.writers)
                    .await;
            }
            (false, Err(error)) => controller.postpone(&entry, &error, self.marks),
        }

        controller.queue.done(&key);
    }

    /// Queues a node again that was not queried: when the cloud may be called again, unless this
    /// process is shutting down.
    fn put_back(&self, entry: &NodeEntry) {
        let queue = &self.controller.queue;
        if !self.stop.is_cancelled() {
            queue.add_after(
                entry.key(),
                self.controller.pause.left().unwrap_or_default(),
                added(entry),
            );
        }

        queue.done(&entry.key());
    }
}

#[async_trait]
impl Ask for Round<'_> {
    type Item = NodeEntry;
    type Answer = Instance;

    async fn ask(&self, batch: &[NodeEntry]) -> Option<Result<Answers<Instance>, CloudError>> {
        if self.stop.is_cancelled() || self.controller.pause.left().is_some() {
            return None;
        }

        let nodes: Vec<_> = batch.iter().map(|entry| Arc::clone(&entry.view)).collect();
        self.controller.queue.hold(LONGEST_HOLD);
        let answers = tokio::select! {
            // No consequences are to be started after the shutdown.
            () = self.stop.cancelled() => return None,
            answers = describe::describe(&*self.controller.context.provider, &nodes) => answers,
        };
        self.controller.queue.release();

        if let Err(error) = &answers {
            self.controller.pause.after(error);
        }
        Some(answers)
    }

    async fn settle(&self, answered: Vec<Answered<NodeEntry, Instance>>) {
        let mut answers = Vec::new();
        let mut failed = Vec::new();

        for Answered {
            item: entry,
            result,
            batch_limit,
        } in answered
        {
            self.controller
                .memory
                .set_batch_limit(entry.name(), batch_limit);

            let Some(answer) = result else {
                self.put_back(&entry);
                continue;
            };

            let backs_off = answer
                .as_ref()
                .is_err_and(|error| RetryWhen::after(error) == RetryWhen::BackOff);
            if backs_off && plan::uninitialized(&entry.view) {
                failed.push(entry.key());
            }
            answers.push((entry, answer));
        }

        if !failed.is_empty() {
            // However many nodes it was about, this counts as one failure.
            let takes_token = !self.failed.swap(true, Ordering::Relaxed);
            self.controller.queue.retry_together(failed, takes_token);
        }

        // The turns of the round limit the writes.
        stream::iter(answers)
            .for_each_concurrent(None, |(entry, answer)| self.follow(entry, answer))
            .await;
    }
}
