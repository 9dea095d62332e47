//! One round of questions to the cloud about nodes with requests.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use skydock_cloud::{Answers, CloudError, Instance};
use skydock_controller_base::calls::retry::RetryWhen;
use skydock_kube::queue::Priority;
use tokio_util::sync::CancellationToken;

use super::{CertificateController, NodeEntry, plan};
use crate::batches::{Answered, Ask, BatchLimit};

/// Maximum number of nodes of one batch whose requests are approved concurrently.
const WRITERS: usize = 16;

/// The queries of one batch.
pub(super) struct Round<'a> {
    controller: &'a CertificateController,
    stop: &'a CancellationToken,
}

impl<'a> Round<'a> {
    pub(super) fn new(controller: &'a CertificateController, stop: &'a CancellationToken) -> Self {
        Self { controller, stop }
    }

    async fn follow(&self, answered: Answered<NodeEntry, Instance>) {
        let Answered {
            item: node,
            result,
            batch_limit,
        } = answered;
        let controller = self.controller;
        let key = node.key();

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
            Some(Ok(instance)) => controller.decide(&node, &instance).await,
            Some(Err(error)) => Some(controller.follow_error(&node, error)),
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
    type Item = NodeEntry;
    type Answer = Instance;

    async fn ask(&self, batch: &[NodeEntry]) -> Option<Result<Answers<Instance>, CloudError>> {
        let controller = self.controller;
        if self.stop.is_cancelled() || controller.pause.left().is_some() {
            return None;
        }

        let nodes: Vec<_> = batch
            .iter()
            .map(|entry| Arc::new(plan::question(&entry.view)))
            .collect();
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

    async fn handle(&self, answered: Vec<Answered<NodeEntry, Instance>>) {
        stream::iter(answered)
            .for_each_concurrent(WRITERS, |answered| self.follow(answered))
            .await;
    }
}
