//! One round of questions to the cloud about the topology of volumes, and the writes that follow.

use async_trait::async_trait;
use futures::{StreamExt, stream};
use skydock_cloud::{Answers, CloudError, StorageError, Volume};
use skydock_kube::queue::Priority;
use tokio_util::sync::CancellationToken;

use super::{VolumeEntry, VolumeLabelController, volume::HandMade};
use crate::batches::{Answered, Ask, BatchLimit};

/// Maximum number of PersistentVolumes of one batch that are written concurrently.
const WRITERS: usize = 16;

/// A question about the volume of a PersistentVolume.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) entry: VolumeEntry,
    pub(super) volume: HandMade,
}

/// The queries of one batch.
pub(super) struct Round<'a> {
    controller: &'a VolumeLabelController,
    stop: &'a CancellationToken,
}

impl<'a> Round<'a> {
    pub(super) fn new(controller: &'a VolumeLabelController, stop: &'a CancellationToken) -> Self {
        Self { controller, stop }
    }

    async fn follow(&self, answered: Answered<Question, Volume>) {
        let Answered {
            item: question,
            result,
            batch_limit,
        } = answered;
        let controller = self.controller;
        let key = question.entry.key();

        if batch_limit == BatchLimit::default() {
            controller.batch_limits.lock().remove(&key);
        } else {
            controller
                .batch_limits
                .lock()
                .insert(key.clone(), batch_limit);
        }

        let again = match result {
            None => {
                let (queue, pause) = (&controller.queue, &controller.pause);
                return pause.put_back(queue, &key, Priority::Change, self.stop);
            }
            Some(Ok(found)) => controller.add_missing(&question, &found).await,
            Some(Err(error)) => controller.follow_error(&question, &error),
        };

        // Without an error, `OnChange` resets the number of failures.
        again.schedule(&controller.queue, &key);
        controller.queue.done(&key);
    }
}

#[async_trait]
impl Ask for Round<'_> {
    type Item = Question;
    type Answer = Volume;

    async fn ask(&self, batch: &[Question]) -> Option<Result<Answers<Volume>, CloudError>> {
        let controller = self.controller;
        let call = async {
            let ids: Vec<_> = batch.iter().map(|it| it.volume.id.clone()).collect();
            let keys = batch.iter().map(|question| question.entry.key());
            controller.asked.record(keys);
            let answers = controller.context.provider.get_volumes(&ids).await;
            answers.map(|all| all.into_iter().map(plain).collect::<Answers<Volume>>())
        };
        controller.pause.call(self.stop, call).await
    }

    async fn handle(&self, answered: Vec<Answered<Question, Volume>>) {
        stream::iter(answered)
            .for_each_concurrent(WRITERS, |answered| self.follow(answered))
            .await;
    }
}

/// Returns the answer with an error that any call can have: only functions that change something
/// have others.
fn plain(answer: Result<Volume, StorageError>) -> Result<Volume, CloudError> {
    answer.map_err(|error| match error {
        StorageError::Cloud(error) => error,
        other => CloudError::Internal(other.to_string()),
    })
}
