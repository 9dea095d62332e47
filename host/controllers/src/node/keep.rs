//! Keeps the addresses and labels of initialised nodes as the cloud says.

use std::sync::Arc;

use skydock_cloud::{CloudError, Instance};
use tokio::{sync::Semaphore, time::sleep};

use super::{NodeController, NodeEntry, apply, plan};
use crate::{api::ApiError, queue::Priority, retry::Again};

impl NodeController {
    /// Has all initialised nodes looked up, now and every period after. Never ends.
    pub(super) async fn keep(&self) {
        if !self.options.kept.addresses && !self.options.kept.labels {
            return std::future::pending().await;
        }
        loop {
            self.mark_due(false);
            sleep(self.options.period).await;
        }
    }

    /// All at once, so that they are asked about in full batches; with `anew`, those that the cloud had nothing to say about too.
    pub(super) fn mark_due(&self, anew: bool) {
        let info = self.shared.provider.info();
        let nodes = self.shared.nodes.list();
        let kept = nodes.iter().filter(|entry| plan::kept(&entry.view, &info)).map(|entry| Arc::clone(&entry.view));
        self.queue.add_all(self.due.mark(kept, anew), Priority::Recheck);
    }

    pub(super) async fn repair(&self, entry: &NodeEntry, instance: &Instance, asked: u64, turns: &Semaphore) {
        let _turn = turns.acquire().await;
        let plan = plan::repair(&entry.view, instance, self.options.kept);
        for refused in plan.labels.refused.iter().chain(&plan.annotations.refused) {
            tracing::debug!(node = entry.name(), "{refused}");
        }
        if let Some(refused) = &plan.refused {
            tracing::warn!(node = entry.name(), "addresses are left as they are: {refused}");
        }
        let result = apply::repair(&self.client, entry, &plan).await;
        if let Err(error) = &result {
            self.shared.api_error(entry.name(), error);
        }
        if matches!(result, Err(ApiError::Changed(_))) {
            Again::Soon.schedule(&self.queue, &entry.key());
        } else {
            self.next_period(entry, asked);
        }
    }

    /// The cloud could not say how an initialised node is: nothing is wrong with the node, and the next period comes anyway.
    pub(super) fn put_off(&self, entry: &NodeEntry, error: &CloudError, asked: u64) {
        self.shared.cloud_error(entry.name(), error);
        match Again::after(error) {
            Again::OnChange => {
                self.queue.forget(&entry.key());
                self.due.refuse(&entry.view, asked);
            }
            Again::BackOff => self.next_period(entry, asked),
            again @ (Again::After(_) | Again::Soon) => again.schedule(&self.queue, &entry.key()),
        }
    }

    fn next_period(&self, entry: &NodeEntry, asked: u64) {
        self.queue.forget(&entry.key());
        self.due.done(entry.name(), asked);
    }
}
