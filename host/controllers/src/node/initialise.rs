//! Initialises one node with what the cloud has said of it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use skydock_cloud::{CloudError, Instance};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    NodeController, NodeEntry, apply,
    plan::{self, Need, Refusal},
};
use crate::{
    api::ApiError,
    constants::reason,
    informer::Entry,
    patience::minutes,
    retry::{self, Again},
};

/// Why a node is not initialised yet.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    /// With what the cloud has said, it cannot be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be written.
    #[error(transparent)]
    Failed(#[from] ApiError),
    /// The cache does not show the addresses that were written.
    #[error("the watch is behind")]
    Behind,
    /// Meanwhile it became another node, or somebody else has initialised it.
    #[error("there is nothing left to do")]
    Needless,
}

impl NodeController {
    /// Writes the addresses first, so that nothing is scheduled to a node that cannot be reached; then the rest.
    ///
    /// Turns are first come, first served: what is left of a node waits until all of its batch have their addresses. The API
    /// server takes some 10 % less time if the two patches of a node are that far apart.
    pub(super) async fn initialise(&self, entry: NodeEntry, instance: &Instance, turns: &Semaphore) {
        if let Err(unfinished) = self.write_addresses(&entry, instance, turns).await {
            return self.unfinished(&entry, unfinished);
        }
        let latest = match self.write_rest(&entry, instance, turns).await {
            Ok(latest) => latest,
            Err(unfinished) => return self.unfinished(&entry, unfinished),
        };
        self.memory.settle(&latest);
        let age = age(&latest).as_secs_f64();
        self.shared.metrics.taint_removal_delay.observe(age);
        self.shared.metrics.initial_node_sync_delay.observe(age);
        self.shared.normal(&latest, reason::SYNCED, "Node synced successfully");
        self.finish(&latest, Ok(()));
    }

    /// Ends when the cache shows them.
    async fn write_addresses(
        &self,
        entry: &NodeEntry,
        instance: &Instance,
        turns: &Semaphore,
    ) -> Result<(), Unfinished> {
        let turn = turns.acquire().await;
        let Some(wanted) = plan::initialise(&entry.view, instance)?.addresses else { return Ok(()) };
        let expectation = self.echo.expect(entry, &wanted);
        let written = apply::addresses(&self.client, entry, &wanted).await?;
        drop(turn);
        let shows = |now: &NodeEntry| now.uid() == entry.uid() && now.view.addresses == wanted;
        // Else it was a dry run, or somebody has written the same, perhaps while the cloud was asked.
        if written != entry.resource_version() && !self.shared.nodes.get(&entry.key()).as_ref().is_some_and(shows) {
            expectation.shown().await.ok_or(Unfinished::Behind)?;
        }
        Ok(())
    }

    /// Gives the version that was changed: the newest there is, for others have written the node while it waited for its turn.
    async fn write_rest(
        &self,
        asked: &NodeEntry,
        instance: &Instance,
        turns: &Semaphore,
    ) -> Result<NodeEntry, Unfinished> {
        let _turn = turns.acquire().await;
        let info = self.shared.provider.info();
        let latest =
            self.shared.nodes.get(&asked.key()).filter(|latest| {
                latest.uid() == asked.uid() && plan::need(&latest.view, &info) == Need::Initialisation
            });
        let latest = latest.ok_or(Unfinished::Needless)?;
        let plan = plan::initialise(&latest.view, instance)?;
        for refused in plan.labels.refused.iter().chain(&plan.annotations.refused) {
            tracing::warn!(node = latest.name(), "{refused}");
        }
        let written = apply::initialise(&self.client, &latest, &plan).await?;
        // Else it was a dry run.
        if written != latest.resource_version() {
            tracing::info!(node = latest.name(), "initialized");
        }
        Ok(latest)
    }

    fn unfinished(&self, entry: &NodeEntry, why: Unfinished) {
        match why {
            Unfinished::Failed(error) => self.finish(entry, Err(error)),
            Unfinished::Behind => Again::Soon.schedule(&self.queue, &entry.key()),
            Unfinished::Needless => self.queue.forget(&entry.key()),
            Unfinished::Refused(refusal) => {
                tracing::warn!(node = entry.name(), "{refusal}");
                let message = format!("Node cannot be initialized: {refusal}");
                self.shared.warning(entry, reason::FAILED_TO_INITIALIZE, message);
                self.queue.retry(entry.key());
            }
        }
    }

    pub(super) fn refuse(&self, entry: &NodeEntry, error: &CloudError) {
        self.shared.cloud_error(entry.name(), error);
        self.tell_if_long(entry, error);
        if retry::warns(error) {
            self.shared.warning(entry, reason::FAILED_TO_INITIALIZE, format!("Node cannot be initialized: {error}"));
        }
        match Again::after(error) {
            // Together with the others of its call.
            Again::BackOff => {}
            again => again.schedule(&self.queue, &entry.key()),
        }
    }

    /// Work that the cloud has begun and does not end is nothing that fails, so that nothing else tells of it.
    fn tell_if_long(&self, entry: &NodeEntry, error: &CloudError) {
        let long = self.shared.metrics.long_in_progress(self.shared.controller);
        if let Some(lasted) = self.memory.wait(entry.name(), error, &long, Instant::now()) {
            let lasted = minutes(lasted);
            let message = format!("The cloud has been at work on the machine for {lasted}, and goes on: {error}");
            self.shared.warning(entry, reason::STILL_IN_PROGRESS, message);
        }
    }

    pub(super) fn finish(&self, entry: &NodeEntry, result: Result<(), ApiError>) {
        let Err(error) = result else { return self.queue.forget(&entry.key()) };
        self.shared.api_error(entry.name(), &error);
        match error {
            ApiError::Gone(_) => self.queue.forget(&entry.key()),
            ApiError::Changed(_) => Again::Soon.schedule(&self.queue, &entry.key()),
            ApiError::Forbidden(..) | ApiError::Refused(..) | ApiError::Failed(..) => {
                self.shared.warning(entry, reason::FAILED_TO_INITIALIZE, format!("Node cannot be updated: {error}"));
                self.queue.retry(entry.key());
            }
        }
    }
}

/// Kubernetes keeps creation times to the second.
fn age(entry: &Entry<Node>) -> Duration {
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    Duration::from_secs(now.saturating_sub(entry.view.creation_timestamp))
}
