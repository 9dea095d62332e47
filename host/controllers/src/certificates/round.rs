//! One round of questions to the cloud about nodes with requests.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use skydock_cloud::{Answers, CloudError, Instance};
use skydock_controller_base::calls::retry::RetryWhen;
use skydock_kube::queue::Priority;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{CertificateController, NodeEntry, plan};
use crate::batches::{Answered, Ask, BatchLimit};

/// Maximum number of nodes of one batch whose requests are approved concurrently.
const WRITERS: usize = 16;

/// A question about a node.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) node: NodeEntry,
    /// UIDs of the requests that the answer decides.
    pub(super) requests: Arc<[String]>,
}

impl Question {
    /// Returns true if the answer decides the request with this UID.
    pub(super) fn is_about(&self, request: &str) -> bool {
        self.requests.iter().any(|uid| uid == request)
    }
}

/// The queries of one batch.
pub(super) struct Round<'a> {
    controller: &'a CertificateController,
    stop: &'a CancellationToken,
}

impl<'a> Round<'a> {
    pub(super) fn new(controller: &'a CertificateController, stop: &'a CancellationToken) -> Self {
        Self { controller, stop }
    }

    /// Follows an answer of this time.
    async fn follow(&self, answered: Answered<Question, Instance>, at: Instant) {
        let Answered {
            item: question,
            result,
            batch_limit,
        } = answered;
        let controller = self.controller;
        let key = question.node.key();

        if batch_limit == BatchLimit::default() {
            controller.batch_limits.lock().remove(&key);
        } else {
            controller
                .batch_limits
                .lock()
                .insert(key.clone(), batch_limit);
        }

        let again = match result {
            None => {
                if !self.stop.is_cancelled() {
                    let delay = controller.pause.left().unwrap_or_default();
                    controller
                        .queue
                        .add_after(key.clone(), delay, Priority::Change);
                }
                controller.queue.done(&key);
                return;
            }
            Some(Ok(instance)) => controller.decide(&question, &instance, at, self.stop).await,
            Some(Err(error)) => Some(controller.follow_error(&question.node, error)),
        };

        // Without an error, `OnChange` resets the number of failures.
        again
            .unwrap_or(RetryWhen::OnChange)
            .schedule(&controller.queue, &key);
        controller.queue.done(&key);
    }
}

#[async_trait]
impl Ask for Round<'_> {
    type Item = Question;
    type Answer = Instance;

    async fn ask(&self, batch: &[Question]) -> Option<Result<Answers<Instance>, CloudError>> {
        let controller = self.controller;
        if self.stop.is_cancelled() || controller.pause.left().is_some() {
            return None;
        }

        let nodes: Vec<_> = batch
            .iter()
            .map(|question| Arc::new(plan::question(&question.node.view)))
            .collect();
        controller
            .asked
            .record(batch.iter().map(|it| it.node.key()));

        let answers = tokio::select! {
            // Nothing is approved after the shutdown.
            () = self.stop.cancelled() => return None,
            answers = controller.context.provider.describe(&nodes) => answers,
        };

        if let Err(error) = &answers {
            controller.pause.after(error);
        }
        Some(answers)
    }

    async fn handle(&self, answered: Vec<Answered<Question, Instance>>) {
        let at = Instant::now();
        stream::iter(answered)
            .for_each_concurrent(WRITERS, |answered| self.follow(answered, at))
            .await;
    }
}
