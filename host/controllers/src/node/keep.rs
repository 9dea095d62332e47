//! Keeps addresses and labels of initialized nodes up to date.

pub(super) mod due;

use std::sync::Arc;

use skydock_cloud::{CloudError, Instance, reason};
use skydock_controller_base::calls::retry::RetryWhen;
use skydock_kube::queue::Priority;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use super::{
    NodeController, NodeEntry, apply,
    memory::Warning,
    plan::{self, repair::Repair},
};

impl NodeController {
    /// Makes all initialized nodes due, now and after every period. Never returns.
    pub(super) async fn keep(&self) {
        if !self.options.reconciled.addresses && !self.options.reconciled.labels {
            // `run` ends as soon as one of its parts does.
            return std::future::pending().await;
        }

        loop {
            self.mark_due(false);
            sleep(self.options.period).await;
        }
    }

    /// Makes all initialized nodes due at once, so that they are queried in full batches. With
    /// `all`, this includes those for which the cloud had no answer.
    pub(super) fn mark_due(&self, all: bool) {
        let info = self.context.provider.info();
        let nodes = self.context.nodes.list();
        let reconciled = nodes
            .iter()
            .filter(|entry| plan::is_reconciled(&entry.view, &info))
            .map(|entry| Arc::clone(&entry.view));

        self.queue
            .add_all(self.due.mark(reconciled, all), Priority::Recheck);
    }

    /// Returns what to write to update an initialized node, and logs what is ignored of the answer.
    pub(super) fn plan_repair(&self, entry: &NodeEntry, instance: &Instance) -> Repair {
        let mut plan = plan::repair::repair(&entry.view, instance, self.options.reconciled);
        let info = self.context.provider.info();
        plan.annotations
            .keep_room(&entry.view.annotations, |key| info.may_annotate(key));

        for rejected in plan
            .labels
            .rejected
            .iter()
            .chain(&plan.annotations.rejected)
        {
            // Each period finds the same; the initialization has logged it as a warning.
            tracing::debug!(node = entry.name(), "{rejected}");
        }

        if let Some(rejected) = &plan.rejected {
            tracing::warn!(node = entry.name(), "addresses are not updated: {rejected}");
        }

        plan
    }

    /// Writes this plan.
    pub(super) async fn repair(
        &self,
        entry: &NodeEntry,
        plan: &Repair,
        mark: u64,
        writers: &Semaphore,
    ) {
        let _permit = writers.acquire().await;
        let result = apply::repair(&self.client, entry, plan).await;
        if let Err(error) = &result {
            self.context.api_error(entry.name(), error);
        }

        // What the next attempt would fix is retried; everything else waits for the next period.
        match result.map_err(|error| RetryWhen::after_write(&error)) {
            Err(again @ RetryWhen::Soon) => again.schedule(&self.queue, &entry.key()),
            _ => self.next_period(entry, mark),
        }
    }

    /// Handles an error about an initialized node: the node is not changed, and is due again in the
    /// next period at the latest.
    pub(super) fn postpone(&self, entry: &NodeEntry, error: &CloudError, mark: u64) {
        self.note_cloud_error(entry, error);
        if matches!(error, CloudError::NotFound(_)) && entry.view.ready {
            self.report_unknown(entry, error);
        }

        match RetryWhen::after(error) {
            RetryWhen::OnChange => {
                self.queue.forget(&entry.key());
                self.due.skip_until_change(&entry.view, mark);
            }
            RetryWhen::BackOff => self.next_period(entry, mark),
            again @ (RetryWhen::After(_) | RetryWhen::Soon) => {
                again.schedule(&self.queue, &entry.key());
            }
        }
    }

    /// Reports that the cloud does not know the instance of a node that is ready. If the instance is
    /// gone, the node will be deleted when it is not ready any more; until then, its addresses may be
    /// those of nobody.
    fn report_unknown(&self, entry: &NodeEntry, error: &CloudError) {
        let waits = self.memory.warn(entry, Warning::Unknown, Instant::now());
        if waits.is_none() {
            let id = entry.view.provider_id.as_deref().unwrap_or_default();
            let name = entry.name();
            let message = format!(
                "The cloud does not know instance {id} of this ready node ({error}), so its addresses and labels are not updated. If \
                 the machine was replaced, run: kubectl delete node {name}"
            );
            self.context
                .warning(entry, reason::INSTANCE_NOT_FOUND, message);
        }
    }

    /// There is nothing to do for an initialized node until the next period.
    pub(super) fn next_period(&self, entry: &NodeEntry, mark: u64) {
        self.queue.forget(&entry.key());
        self.due.done(entry.name(), mark);
    }
}
