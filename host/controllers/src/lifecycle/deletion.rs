//! Deletes nodes whose machine is gone, unless they are too many.

use futures::{StreamExt, stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    LifecycleController, NodeEntry, WRITERS, apply,
    brake::{Stopped, Verdict},
    plan,
};
use crate::{
    api::ApiError,
    constants::{ANNOTATION_ALLOW_DELETION, reason},
    events::TELL_AGAIN,
};

impl LifecycleController {
    /// Deletes those that the last answers have condemned, unless they are too many: then only those that an operator has
    /// allowed, and those that it was tried with before. All count alike, so that to allow a few does not let the rest go with
    /// them.
    ///
    /// It need not be known of each node that is not ready whether its machine is gone: as long as they would not be too many
    /// if all were, no answer is waited for.
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

    /// Who is to be deleted now.
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
        let before = self.shared.metrics.node_deletions_held.set(held);
        match verdict {
            Verdict::Go if before > 0 => tracing::info!("nodes whose machine is gone are deleted again"),
            Verdict::Stop(stopped) if before != held => {
                tracing::warn!("nodes whose machine is gone are not deleted: {stopped}");
            }
            _ => {}
        }
    }

    fn tell_stopped(&self, entry: &NodeEntry, stopped: &Stopped) {
        let name = entry.name();
        let message = format!(
            "Node {name} is not deleted, although its machine does not exist: {stopped}. If that is right, allow it \
             with: kubectl annotate node {name} {ANNOTATION_ALLOW_DELETION}=true"
        );
        self.shared.warning(entry, reason::NODE_DELETION_STOPPED, message);
    }

    async fn delete(&self, doomed: &NodeEntry) {
        let Some(entry) = self.still_in_question(doomed) else { return };
        let Some(_claim) = self.claim(&entry) else { return };
        // It may have stood in line for long: what the cloud has said since, or that another plugin is to say it, counts.
        if !self.memory().goes(entry.uid()) {
            return;
        }
        self.history().add(entry.uid(), Instant::now());
        let name = entry.name();
        // Of a dry run it is said once, and not that it is done.
        if self.said.is_none() {
            tracing::info!(node = name, "deleting: the machine is gone");
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
