//! What follows from the answers of one call: nodes are initialized, repaired or queued again.

use std::sync::atomic::Ordering;

use futures::{StreamExt, stream};
use skydock_cloud::{CloudError, Instance};
use skydock_controller_base::calls::retry::RetryWhen;

use super::Round;
use crate::{
    batches::Answered,
    node::{NodeEntry, first_priority, plan},
};

impl Round<'_> {
    /// Has the nodes initialized or repaired, as the cloud has answered about each.
    pub(super) async fn follow_answers(&self, answered: Vec<Answered<NodeEntry, Instance>>) {
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
                let (queue, priority) = (&self.controller.queue, first_priority(&entry));
                let pause = &self.controller.pause;
                pause.put_back(queue, entry.key(), priority, self.stop);
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

        // The permits of `writers` limit the writes.
        stream::iter(answers)
            .for_each_concurrent(None, |(entry, answer)| self.follow(entry, answer))
            .await;
    }

    async fn follow(&self, entry: NodeEntry, answer: Result<Instance, CloudError>) {
        let controller = self.controller;
        let key = entry.key();

        match (plan::uninitialized(&entry.view), answer) {
            (true, Ok(instance)) => controller.initialize(entry, &instance, &self.writers).await,
            (true, Err(error)) => controller.reject(&entry, &error),
            (false, Ok(instance)) => {
                controller
                    .repair(&entry, &instance, self.mark, &self.writers)
                    .await;
            }
            (false, Err(error)) => controller.postpone(&entry, &error, self.mark),
        }

        controller.queue.done(&key);
    }
}
