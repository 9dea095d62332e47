//! Reports what failed for a node, and when it is retried.

use skydock_cloud::{CloudError, reason};
use skydock_controller_base::calls::{
    progress::minutes,
    retry::{self, RetryWhen},
};
use skydock_kube::api::ApiError;
use tokio::time::Instant;

use super::{NodeController, NodeEntry, plan::uninitialized};

impl NodeController {
    /// Reports the cloud's error about a node that waits for its initialization, and retries unless
    /// the node is retried with the others of the same call.
    pub(super) fn reject(&self, entry: &NodeEntry, error: &CloudError) {
        let news = self.note_cloud_error(entry, error);
        self.report_if_long(entry, error);

        if news && retry::warns(error) {
            self.context.warning(
                entry,
                reason::FAILED_TO_INITIALIZE,
                format!("Node cannot be initialized: {error}"),
            );
        }

        match RetryWhen::after(error) {
            // They are retried together with the others of the same call.
            RetryWhen::BackOff => {}
            again => again.schedule(&self.queue, &entry.key()),
        }
    }

    /// Counts an error of the cloud about a node, and logs it unless that was done lately. Returns
    /// true if it is news.
    pub(super) fn note_cloud_error(&self, entry: &NodeEntry, error: &CloudError) -> bool {
        // What is retried only after a change is about something else each time.
        let news = RetryWhen::after(error) == RetryWhen::OnChange
            || !retry::counts(error)
            || self
                .memory
                .is_news(entry, &error.to_string(), Instant::now());

        if news {
            self.context.cloud_error(entry.name(), error);
        } else {
            let context = &self.context;
            context.metrics.error(context.controller, error.kind());
            tracing::debug!(node = entry.name(), "again: {error}");
        }
        news
    }

    /// Reports an operation that has been in progress for a long time: it is not an error, so
    /// nothing else reports it.
    fn report_if_long(&self, entry: &NodeEntry, error: &CloudError) {
        let long = self
            .context
            .metrics
            .long_in_progress(self.context.controller);
        if let Some(lasted) = self
            .memory
            .note_progress(entry.name(), error, &long, Instant::now())
        {
            let lasted = minutes(lasted);
            let message =
                format!("An operation on the instance has not finished after {lasted}: {error}");
            self.context
                .warning(entry, reason::STILL_IN_PROGRESS, message);
        }
    }

    /// Ends the work on a node after its last write. A write that failed is retried; it gets an
    /// event only if the node waits for its initialization.
    pub(super) fn finish(&self, entry: &NodeEntry, result: Result<(), ApiError>) {
        let Err(error) = result else {
            return self.queue.forget(&entry.key());
        };

        // What is retried within moments is not worth an event.
        let again = RetryWhen::after_write(&error);
        let message = format!("Node cannot be updated: {error}");
        if again != RetryWhen::BackOff {
            self.context.api_error(entry.name(), &error);
        } else if self.memory.is_news(entry, &message, Instant::now()) {
            self.context.api_error(entry.name(), &error);
            if uninitialized(&entry.view) {
                self.context
                    .warning(entry, reason::FAILED_TO_INITIALIZE, message);
            }
        } else {
            let context = &self.context;
            context.metrics.error(context.controller, "kubernetes");
            tracing::debug!(node = entry.name(), "again: {error}");
        }

        again.schedule(&self.queue, &entry.key());
    }
}
