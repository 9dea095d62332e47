//! Deletes nodes whose instance does not exist, unless they are too many.

use futures::{StreamExt, stream};
use skydock_kube::{api::ApiError, events::TELL_AGAIN};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    LifecycleController, NodeEntry, WRITERS, apply,
    brake::{Stopped, Verdict},
    plan,
};
use crate::constants::{ANNOTATION_ALLOW_DELETION, reason};

impl LifecycleController {
    /// Deletes the nodes that the last answers have condemned. If they are too many, only those are deleted that an operator
    /// has allowed, and those whose deletion was attempted before. All of them count, so that allowing a few does not release
    /// the others.
    ///
    /// It need not be known for every node that is not ready whether its instance exists: if the limit would not be exceeded
    /// even if none did, no more answers are waited for.
    pub(super) async fn delete_condemned(&self, stop: &CancellationToken) {
        let going = self.choose();
        stream::iter(&going)
            .for_each_concurrent(WRITERS, |entry| async move {
                if !stop.is_cancelled() {
                    self.delete(entry).await;
                }
            })
            .await;
    }

    /// Returns the nodes to delete now.
    fn choose(&self) -> Vec<NodeEntry> {
        let now = Instant::now();
        let nodes = self.shared.nodes.list();
        let mut memory = self.memory();
        let mut history = self.history();
        let deleted = history.within(self.options.brake.interval, now);
        let counted = |entry: &NodeEntry| deleted.contains(entry.uid());
        let (mut condemned, mut open) = (Vec::new(), 0);
        for entry in &nodes {
            match memory.get(entry.uid()) {
                Some(known) if known.condemned => condemned.push(entry),
                Some(known) if known.is_open() && !counted(entry) => open += 1,
                _ => {}
            }
        }
        let candidates = condemned.iter().filter(|entry| !counted(entry)).count();
        let others = nodes.iter().filter(|entry| !counted(entry)).count();
        let verdict = self.options.brake.judge_early(candidates, open, others, deleted.len());
        let goes =
            |entry: &NodeEntry| verdict == Verdict::Go || plan::deletion_is_allowed(&entry.view) || counted(entry);
        self.count_held(&verdict, condemned.iter().filter(|entry| !goes(entry)).count());
        let mut going = Vec::new();
        for entry in condemned {
            let known = memory.entry(entry.uid());
            if !known.doomed || (verdict == Verdict::Wait && !goes(entry)) {
                continue;
            }
            known.doomed = false;
            match &verdict {
                Verdict::Stop(stopped) if !goes(entry) => {
                    if known.told.is_none_or(|told| now.duration_since(told) >= TELL_AGAIN) {
                        known.told = Some(now);
                        self.tell_stopped(entry, stopped);
                    }
                }
                _ => {
                    known.going = true;
                    going.push(entry.clone());
                }
            }
        }
        going
    }

    fn count_held(&self, verdict: &Verdict, waiting: usize) {
        let held = if matches!(verdict, Verdict::Stop(_)) { i64::try_from(waiting).unwrap_or(i64::MAX) } else { 0 };
        let before = self.shared.metrics.lifecycle.deletions_held.set(held);
        match verdict {
            Verdict::Go if before > 0 => tracing::info!("deletion of nodes without instance resumed"),
            Verdict::Stop(stopped) if before != held => {
                tracing::warn!("deletion of nodes without instance stopped: {stopped}");
            }
            _ => {}
        }
    }

    fn tell_stopped(&self, entry: &NodeEntry, stopped: &Stopped) {
        let name = entry.name();
        let message = format!(
            "Node {name} is not deleted although its instance does not exist: {stopped}. To delete it anyway, run: \
             kubectl annotate node {name} {ANNOTATION_ALLOW_DELETION}=true"
        );
        self.shared.warning(entry, reason::NODE_DELETION_STOPPED, message);
    }

    async fn delete(&self, doomed: &NodeEntry) {
        let Some(entry) = self.still_in_question(doomed) else { return };
        let Some(_claim) = self.claim(&entry) else { return };
        // This may have waited for a long time: if the cloud has given another answer since, or the plugin was replaced, the
        // node is not deleted.
        if !self.memory().goes(entry.uid()) {
            return;
        }
        self.history().add(entry.uid(), Instant::now());
        let name = entry.name();
        // A dry run reports it once, and not as done.
        if self.said.is_none() {
            tracing::info!(node = name, "deleting node: its instance does not exist");
        }
        let message = format!("Deleting node {name} because it does not exist in the cloud provider");
        self.shared.normal(&entry, reason::DELETING_NODE, message);
        if let Err(error) = apply::delete(&self.client, &entry, self.said.as_deref()).await {
            self.shared.api_error(name, &error);
            if !matches!(error, ApiError::Changed(_)) {
                let message = format!("Failed deleting node {name}: {error}");
                self.shared.warning(&entry, reason::DELETING_NODE_FAILED, message);
            }
        }
    }
}
