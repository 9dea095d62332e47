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
                let (queue, pause) = (&controller.queue, &controller.pause);
                return pause.put_back(queue, &key, Priority::Change, self.stop);
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
        let call = async {
            let nodes: Vec<_> = batch
                .iter()
                .map(|question| Arc::new(plan::question(&question.node.view)))
                .collect();
            let keys = batch.iter().map(|question| question.node.key());
            controller.asked.record(keys);
            controller.context.provider.describe(&nodes).await
        };
        controller.pause.call(self.stop, call).await
    }

    async fn handle(&self, answered: Vec<Answered<Question, Instance>>) {
        let at = Instant::now();
        stream::iter(answered)
            .for_each_concurrent(WRITERS, |answered| self.follow(answered, at))
            .await;
    }
}
