//! Queries the cloud about nodes that are not ready, and records the answers.

use std::sync::Arc;

use async_trait::async_trait;
use skydock_cloud::{Answers, CloudError, Node, Presence, reason};
use skydock_controller_base::calls::{progress::minutes, retry::SOON};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    LifecycleController, LifecycleOptions, NodeEntry, Tainting,
    plan::{self, Act},
};
use crate::batches::{Answered, Ask};

/// One query about one node.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) entry: NodeEntry,
    /// Identifies the answer: the same node may be queried again before an old answer arrives.
    pub(super) number: u64,
}

/// The queries of one pass.
pub(super) struct Round<'a> {
    controller: &'a LifecycleController,
    stop: &'a CancellationToken,
}

impl<'a> Round<'a> {
    pub(super) fn new(controller: &'a LifecycleController, stop: &'a CancellationToken) -> Self {
        Self { controller, stop }
    }

    /// Queries a batch. After a conflict in the cloud, it is queried once more within moments.
    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        let provider = &self.controller.context.provider;
        let lost =
            |answer: &Result<Presence, CloudError>| matches!(answer, Err(CloudError::Conflict(_)));

        let answers = match provider.check(nodes).await {
            Err(CloudError::Conflict(_)) => {
                sleep(SOON).await;
                return provider.check(nodes).await;
            }
            Ok(answers) if answers.iter().any(lost) => answers,
            other => return other,
        };

        sleep(SOON).await;
        let again: Vec<_> = nodes
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| lost(answer))
            .map(|(node, _)| Arc::clone(node))
            .collect();

        // If the second attempt fails as a whole, the answers about the other nodes are kept.
        let second = provider.check(&again).await;
        if let Err(error) = &second {
            self.controller.pause.after(error);
        }
        let mut second = second.unwrap_or_default().into_iter();

        Ok(answers
            .into_iter()
            .map(|answer| {
                if lost(&answer) {
                    second.next().unwrap_or(answer)
                } else {
                    answer
                }
            })
            .collect())
    }

    /// Records an answer and returns its consequence for the current state of the node.
    fn record(&self, answered: Answered<Question, Presence>) -> Option<(NodeEntry, Presence, Act)> {
        let Answered {
            item: Question {
                entry: asked,
                number,
            },
            result,
            batch_limit,
        } = answered;

        let controller = self.controller;
        let mut memory = controller.memory.lock();

        // Otherwise the answer is from the previous plugin, or about a node that was ready in the
        // meantime.
        memory.answered(asked.uid(), number)?.batch_limit = batch_limit;
        let result = result?;

        // The answer may have taken long: it is about a node that was not ready then.
        let Some(entry) = controller.still_in_question(&asked) else {
            memory.forget(asked.uid());
            return None;
        };

        let now = Instant::now();
        let known = memory.entry(entry.uid());
        let LifecycleOptions {
            period,
            out_of_service_taint,
            ..
        } = controller.options;

        match result {
            Ok(presence) => {
                let series = known.answer(presence, now + period, now);
                let act = plan::decide(&entry.view, series, now, period, out_of_service_taint);
                if act == Act::Delete {
                    known.mark_for_deletion(entry.object.deletion_timestamp.is_some());
                }
                Some((entry, presence, act))
            }
            Err(error) => {
                known.error(&error, &asked.view, period, now);
                let context = &controller.context;
                let lasted = known.progress.track(
                    &error,
                    &context.metrics.long_in_progress(context.controller),
                    now,
                );

                context.cloud_error(entry.name(), &error);
                if let Some(lasted) = lasted.map(minutes) {
                    let message = format!(
                        "The cloud has not reported for {lasted} whether the instance exists, so the node is kept: {error}"
                    );
                    context.warning(&entry, reason::STILL_IN_PROGRESS, message);
                }
                None
            }
        }
    }
}

#[async_trait]
impl Ask for Round<'_> {
    type Item = Question;
    type Answer = Presence;

    async fn ask(&self, batch: &[Question]) -> Option<Result<Answers<Presence>, CloudError>> {
        let call = async {
            let nodes: Vec<_> = batch
                .iter()
                .map(|question| Arc::clone(&question.entry.view))
                .collect();
            self.check(&nodes).await
        };
        self.controller.pause.call(self.stop, call).await
    }

    async fn handle(&self, answered: Vec<Answered<Question, Presence>>) {
        let mut changed = Vec::new();
        let mut marked = false;

        for (entry, presence, act) in answered
            .into_iter()
            .filter_map(|answered| self.record(answered))
        {
            match act {
                Act::Delete => marked = true,
                Act::Confirm => {
                    tracing::info!(
                        node = entry.name(),
                        "the cloud reports that the instance does not exist; checking again before the node is deleted"
                    );
                }
                Act::Taint(changes) if !changes.is_empty() => {
                    changed.push(Tainting {
                        entry,
                        changes,
                        presence: Some(presence),
                    });
                }
                Act::Taint(_) => {}
            }
        }

        if self.stop.is_cancelled() {
            return;
        }

        let delete = async {
            if marked {
                self.controller.delete_marked(self.stop).await;
            }
        };
        tokio::join!(self.controller.taint(changed), delete);
    }
}
