//! Initializes one node with the cloud's answer.

use std::time::Duration;

use jiff::Timestamp;
use skydock_cloud::{Instance, reason};
use skydock_controller_base::{calls::retry::RetryWhen, objects::kinds::NodeKind};
use skydock_kube::{api::ApiError, informer::Entry};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    NodeController, NodeEntry, apply,
    plan::{
        initialize::{Initialization, Rejection, initialize},
        need::{Need, need},
    },
};

/// Why a node is not initialized yet.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    /// The cloud's answer is not sufficient.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The node could not be written.
    #[error(transparent)]
    Failed(#[from] ApiError),
    /// The cache does not contain the written addresses.
    #[error("the watch is behind")]
    Behind,
    /// The node was replaced, or someone else has initialized it in the meantime.
    #[error("there is nothing left to do")]
    Needless,
}

impl NodeController {
    /// Initializes a node: writes the addresses first, so that no Pods are scheduled to a node that
    /// cannot be reached, and then the rest.
    ///
    /// `writers` gives permits in order, so that the second patch of a node waits until all nodes
    /// of its batch have their addresses. This distance between the two patches saves the API
    /// server some 10 % of the time.
    pub(super) async fn initialize(
        &self,
        entry: NodeEntry,
        instance: &Instance,
        writers: &Semaphore,
    ) {
        if let Err(unfinished) = self.write_addresses(&entry, instance, writers).await {
            return self.unfinished(&entry, unfinished);
        }

        let latest = match self.write_rest(&entry, instance, writers).await {
            Ok(latest) => latest,
            Err(unfinished) => return self.unfinished(&entry, unfinished),
        };

        // The cache may still have the version with the taint. `sync.rs` skips it until the handler
        // in `node.rs` sees another one.
        self.memory.mark_initialized(&latest);
        self.memory.restored(latest.name(), Instant::now());
        // The last write removes the taint, so that both delays are the same.
        let age = age(&latest).as_secs_f64();
        self.metrics.taint_removal_delay.observe(age);
        self.metrics.initial_sync_delay.observe(age);

        self.context
            .normal(&latest, reason::SYNCED, "Node synced successfully");
        self.finish(&latest, Ok(()));
    }

    /// Returns what to write, and claims the provider ID for this node, unless another node has it.
    fn plan_and_claim(
        &self,
        entry: &NodeEntry,
        instance: &Instance,
    ) -> Result<Initialization, Rejection> {
        let mut plan = initialize(&entry.view, instance)?;
        let info = self.context.provider.info();
        plan.annotations
            .keep_room(&entry.view.annotations, |key| info.may_annotate(key));

        if let Some(id) = &plan.provider_id
            && let Some(other) =
                self.duplicates
                    .claim_provider_id(id, entry.name(), &self.context.nodes)
        {
            let id = id.clone();
            return Err(Rejection::TakenProviderId { id, other });
        }

        Ok(plan)
    }

    /// Writes the addresses, and waits until the cache contains them.
    async fn write_addresses(
        &self,
        entry: &NodeEntry,
        instance: &Instance,
        writers: &Semaphore,
    ) -> Result<(), Unfinished> {
        let permit = writers.acquire().await;
        let Some(wanted) = self.plan_and_claim(entry, instance)?.addresses else {
            return Ok(());
        };

        // Registered before the write, because the watch may be faster than the answer.
        let expectation = self.echo.expect(entry, &wanted);
        let written = apply::addresses(&self.client, entry, &wanted).await?;
        // Other nodes can be written while this one waits for the watch.
        drop(permit);

        let shows = |now: &NodeEntry| now.uid() == entry.uid() && now.view.addresses == wanted;

        // After a dry run, or if the addresses were there already, for example because someone else
        // has written them during the query, no version arrives.
        let is_known = written == entry.resource_version()
            || self
                .context
                .nodes
                .get(&entry.key())
                .as_ref()
                .is_some_and(shows);

        if is_known || expectation.shown().await {
            Ok(())
        } else {
            Err(Unfinished::Behind)
        }
    }

    /// Writes everything else. Returns the version of the node that was changed: the latest one,
    /// because others may have written the node while this waited for its permit.
    async fn write_rest(
        &self,
        entry: &NodeEntry,
        instance: &Instance,
        writers: &Semaphore,
    ) -> Result<NodeEntry, Unfinished> {
        let _permit = writers.acquire().await;
        let info = self.context.provider.info();
        let latest = self.context.nodes.get(&entry.key()).filter(|latest| {
            latest.uid() == entry.uid() && need(&latest.view, &info, false) == Need::Initialization
        });
        let latest = latest.ok_or(Unfinished::Needless)?;

        let plan = self.plan_and_claim(&latest, instance)?;
        let written = apply::initialize(&self.client, &latest, &plan).await?;

        for rejected in plan
            .labels
            .rejected
            .iter()
            .chain(&plan.annotations.rejected)
        {
            tracing::warn!(node = latest.name(), "{rejected}");
        }

        // Otherwise it was a dry run.
        if written != latest.resource_version() {
            tracing::info!(node = latest.name(), "initialized");
        }

        Ok(latest)
    }

    fn unfinished(&self, entry: &NodeEntry, why: Unfinished) {
        match why {
            Unfinished::Failed(error) => self.finish(entry, Err(error)),
            Unfinished::Behind => RetryWhen::Soon.schedule(&self.queue, &entry.key()),
            Unfinished::Needless => self.queue.forget(&entry.key()),
            Unfinished::Rejected(rejection) => {
                let message = format!("Node cannot be initialized: {rejection}");
                if self.memory.is_news(entry, &message, Instant::now()) {
                    tracing::warn!(node = entry.name(), "{rejection}");
                    self.context
                        .warning(entry, reason::FAILED_TO_INITIALIZE, message);
                }
                RetryWhen::BackOff.schedule(&self.queue, &entry.key());
            }
        }
    }
}

/// Returns the age of a node in whole seconds, as Kubernetes stores creation times.
fn age(entry: &Entry<NodeKind>) -> Duration {
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    Duration::from_secs(now.saturating_sub(entry.view.creation_timestamp))
}
