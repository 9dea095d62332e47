//! One round of questions about nodes. `batches.rs` calls `ask` for each batch, which has the cloud
//! describe it (`describe.rs`), and then `handle` with the answers, which initializes or updates
//! each node (`answers.rs`).

mod answers;
mod describe;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use async_trait::async_trait;
use skydock_cloud::{Answers, CloudError, Instance};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{NodeController, NodeEntry, WRITERS};
use crate::batches::{Answered, Ask};

/// Maximum time for which nodes are gathered while a query is in progress, so that fewer calls are
/// about more nodes.
const LONGEST_HOLD: Duration = Duration::from_millis(250);

/// The queries of one batch.
pub(super) struct Round<'a> {
    controller: &'a NodeController,
    stop: &'a CancellationToken,
    /// Last mark of due nodes when this round started.
    mark: u64,
    /// Limits concurrent writes.
    writers: Semaphore,
    /// A query has failed and is retried with back-off.
    failed: AtomicBool,
}

impl<'a> Round<'a> {
    pub(super) fn new(controller: &'a NodeController, stop: &'a CancellationToken) -> Self {
        let mark = controller.due.last_mark();
        Self {
            controller,
            stop,
            mark,
            writers: Semaphore::new(WRITERS),
            failed: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl Ask for Round<'_> {
    type Item = NodeEntry;
    type Answer = Instance;

    async fn ask(&self, batch: &[NodeEntry]) -> Option<Result<Answers<Instance>, CloudError>> {
        let controller = self.controller;
        let call = async {
            let nodes: Vec<_> = batch.iter().map(|entry| Arc::clone(&entry.view)).collect();
            controller.queue.hold(LONGEST_HOLD);
            let answers = describe::describe(&*controller.context.provider, &nodes).await;
            controller.queue.release();
            answers
        };
        controller.pause.call(self.stop, call).await
    }

    async fn handle(&self, answered: Vec<Answered<NodeEntry, Instance>>) {
        self.follow_answers(answered).await;
    }
}
