//! What follows from the answers of one call: nodes are initialized, repaired or queued again.

use std::sync::atomic::Ordering;

use futures::future::{join, join_all};
use skydock_cloud::Instance;
use skydock_controller_base::calls::retry::RetryWhen;

use super::Round;
use crate::{
    batches::Answered,
    node::{
        NodeEntry, first_priority,
        plan::{self, repair::Repair},
    },
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
                pause.put_back(queue, &entry.key(), priority, self.stop);
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

        let mut initializations = Vec::new();
        let mut repairs = Vec::new();
        for (entry, answer) in answers {
            match (plan::uninitialized(&entry.view), answer) {
                (true, Ok(instance)) => {
                    initializations.push((entry, instance));
                    continue;
                }
                (true, Err(error)) => self.controller.reject(&entry, &error),
                (false, Ok(instance)) => {
                    let plan = self.controller.plan_repair(&entry, &instance);
                    if !plan.is_empty() {
                        repairs.push((entry, plan));
                        continue;
                    }
                    self.controller.next_period(&entry, self.mark);
                }
                (false, Err(error)) => self.controller.postpone(&entry, &error, self.mark),
            }

            self.controller.queue.done(&entry.key());
        }

        // The permits of `writers` limit the writes.
        let initializing = initializations
            .into_iter()
            .map(|(entry, instance)| self.initialize(entry, instance));
        let repairing = repairs
            .into_iter()
            .map(|(entry, plan)| self.repair(entry, plan));
        join(join_all(initializing), join_all(repairing)).await;
    }

    async fn initialize(&self, entry: NodeEntry, instance: Instance) {
        let key = entry.key();
        self.controller
            .initialize(entry, &instance, &self.writers)
            .await;
        self.controller.queue.done(&key);
    }

    async fn repair(&self, entry: NodeEntry, plan: Repair) {
        self.controller
            .repair(&entry, &plan, self.mark, &self.writers)
            .await;
        self.controller.queue.done(&entry.key());
    }
}
