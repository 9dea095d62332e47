//! Deletes nodes whose instance does not exist, unless they are too many.

use std::sync::{Arc, atomic::Ordering};

use futures::{StreamExt, stream};
use skydock_cloud::{Node, Presence, reason};
use skydock_controller_base::objects::constants::ANNOTATION_ALLOW_DELETION;
use skydock_kube::api::ApiError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    LifecycleController, NodeEntry, WRITERS, apply,
    brake::DeletionDecision,
    choice::{self, Choice},
};

/// Maximum number of ready nodes that the cloud is asked about before nodes are deleted.
const SAMPLE: usize = 20;

/// The same for providers that take few nodes in one call.
const SMALL_SAMPLE: usize = 5;

impl LifecycleController {
    /// Deletes the nodes that the last answers have marked, unless they are too many.
    pub(super) async fn delete_marked(&self, stop: &CancellationToken) {
        // No node is in question, as mostly.
        if self.memory.lock().is_empty() && self.metrics.deletions_held.get() == 0 {
            return;
        }

        // The cloud is asked about ready nodes only then, because this costs calls.
        if self.would_delete() {
            let ready_but_absent = tokio::select! {
                () = stop.cancelled() => return,
                ready_but_absent = self.ready_but_absent() => ready_but_absent,
            };

            let Some(ready_but_absent) = ready_but_absent else {
                tracing::warn!(
                    "no node is deleted now: the cloud reports instances as gone, but does not answer about those of ready nodes"
                );
                return;
            };
            self.ready_but_absent
                .store(ready_but_absent, Ordering::SeqCst);
        }

        let ready_but_absent = self.ready_but_absent.load(Ordering::SeqCst);
        let released = self.choose(ready_but_absent);

        stream::iter(&released)
            .for_each_concurrent(WRITERS, |entry| async move {
                if !stop.is_cancelled() {
                    self.delete(entry).await;
                }
            })
            .await;
    }

    /// Returns the nodes that count for the limit: those that are or may be this provider's, and one
    /// of the others. However many those are, they do not make its share larger; but its only node
    /// is not the only one of the cluster.
    fn counted(&self) -> Vec<NodeEntry> {
        let info = self.context.provider.info();
        let mut others = 0;
        let mut nodes = self.context.nodes.list();

        nodes.retain(|entry| {
            let id = entry.view.provider_id.as_ref();
            let may_be_own = id.is_none_or(|id| info.owns(id));
            others += usize::from(!may_be_own);
            may_be_own || others == 1
        });

        nodes
    }

    fn would_delete(&self) -> bool {
        let brake = &self.options.brake;
        let nodes = self.counted();
        let memory = self.memory.lock();
        let mut history = self.history.lock();
        let deleted = history.within(brake.interval, Instant::now());
        choice::would_delete(&nodes, &deleted, brake, &memory)
    }

    /// Returns how many ready nodes have instances that the cloud does not know either, by asking
    /// about some of them: these nodes run, so such answers are wrong, or will condemn them soon.
    /// Returns `None` if it answers about none of them.
    async fn ready_but_absent(&self) -> Option<usize> {
        let info = self.context.provider.info();
        let owns = |node: &Node| node.provider_id.as_ref().is_some_and(|id| info.owns(id));
        let mut ready = self.context.nodes.list();
        ready.retain(|entry| entry.view.ready && owns(&entry.view));
        if ready.is_empty() {
            return Some(0);
        }

        let batch = info.max_batch.max(1);
        // A provider that takes one node in a call is asked several times, so that not one node
        // decides.
        let most = SAMPLE.min(batch.max(SMALL_SAMPLE));
        let step = ready.len().div_ceil(most).max(1);
        let sample: Vec<Arc<Node>> = ready
            .iter()
            .step_by(step)
            .map(|entry| Arc::clone(&entry.view))
            .collect();

        let mut answers = Vec::new();
        for nodes in sample.chunks(batch) {
            let answered = self.context.provider.check(nodes).await;
            // An error is no answer, and counts neither way.
            answers.extend(answered.into_iter().flatten().flatten());
        }

        // A cloud that does not answer does not confirm a deletion.
        if answers.is_empty() {
            return None;
        }

        let absent = answers.iter().filter(|it| **it == Presence::Absent).count();
        Some(absent.saturating_mul(ready.len()) / answers.len())
    }

    /// Returns the nodes to delete now, and reports those that are held.
    fn choose(&self, ready_but_absent: usize) -> Vec<NodeEntry> {
        let now = Instant::now();
        let brake = &self.options.brake;
        let nodes = self.counted();
        let mut memory = self.memory.lock();
        let mut history = self.history.lock();

        let choice = choice::choose(
            &nodes,
            &history.within(brake.interval, now),
            ready_but_absent,
            brake,
            &mut memory,
            now,
        );

        self.count_held(&choice);
        if let DeletionDecision::Hold(exceeded) = &choice.decision {
            let ready = match ready_but_absent {
                0 => String::new(),
                some => format!(
                    "; these include about {some} ready nodes whose instances the cloud does not know either"
                ),
            };
            let why = format!("{exceeded}{ready}");
            choice
                .reported
                .iter()
                .for_each(|entry| self.report_held(entry, &why));
        }

        choice.released
    }

    fn count_held(&self, choice: &Choice) {
        let held = i64::try_from(choice.held).unwrap_or(i64::MAX);
        let before = self.metrics.deletions_held.set(held);

        match &choice.decision {
            DeletionDecision::Delete if before > 0 => tracing::info!("node deletions resumed"),
            DeletionDecision::Hold(exceeded) if before != held => {
                tracing::warn!(
                    "node deletions stopped: {exceeded}; see the events NodeDeletionStopped"
                );
            }
            _ => {}
        }
    }

    fn report_held(&self, entry: &NodeEntry, why: &str) {
        let name = entry.name();
        let message = format!(
            "Node {name} is not deleted although the cloud reports that its instance does not exist: {why}. If the instance does \
             exist, fix the cloud or its credentials; to delete the node anyway, run: kubectl annotate node {name} {ANNOTATION_ALLOW_DELETION}=true"
        );
        self.context
            .warning(entry, reason::NODE_DELETION_STOPPED, message);
    }

    async fn delete(&self, undecided: &NodeEntry) {
        let Some(entry) = self.still_in_question(undecided) else {
            return;
        };
        let Some(_claim) = self.claim(&entry) else {
            return;
        };

        // This may have waited for a long time: if the cloud has given another answer since, or the
        // plugin was replaced, the node is not deleted.
        if !self.memory.lock().take_released(entry.uid()) {
            return;
        }

        // Counted before the request, whose answer may be lost.
        self.history.lock().add(entry.uid(), Instant::now());

        let name = entry.name();
        // A dry run reports it once, and not as done.
        if self.dry_run_log.is_none() {
            tracing::info!(node = name, "deleting node: its instance does not exist");
        }

        let message =
            format!("Deleting node {name} because it does not exist in the cloud provider");
        self.context.normal(&entry, reason::DELETING_NODE, message);

        if let Err(error) = apply::delete(&self.client, &entry, self.dry_run_log.as_deref()).await {
            self.context.api_error(name, &error);
            if !matches!(error, ApiError::Changed(_)) {
                let message = format!("Failed deleting node {name}: {error}");
                self.context
                    .warning(&entry, reason::DELETING_NODE_FAILED, message);
            }
        }
    }
}
