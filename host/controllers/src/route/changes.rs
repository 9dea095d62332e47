//! Requests changes of routes from the cloud, in batches and with limited concurrency.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use skydock_cloud::{Answers, CloudError, CloudProvider, NewRoute, Route};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::batches::complete;

/// Maximum number of routes in concurrent calls, as in upstream.
const IN_FLIGHT: u32 = 200;

/// Number of attempts after conflicts within one run, and the delay after the first, which grows by
/// the same amount each time. Upstream makes as many attempts, with the same average delay.
const CONFLICT_TRIES: u32 = 5;
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);

/// A route to create or to delete.
#[async_trait]
pub(super) trait Change: Clone + PartialEq + Send + Sync + 'static {
    /// Identifies the change among others of its kind.
    fn key(&self) -> String;

    /// Requests a batch of changes from the cloud.
    async fn ask(provider: &dyn CloudProvider, batch: &[Self]) -> Result<Answers<()>, CloudError>;
}

/// Identifies the creation of a route to this node and destination.
pub(super) fn key(target_node: &str, destination_cidr: &str) -> String {
    format!("{target_node} {destination_cidr}")
}

#[async_trait]
impl Change for NewRoute {
    fn key(&self) -> String {
        key(&self.target_node, &self.destination_cidr)
    }

    async fn ask(provider: &dyn CloudProvider, batch: &[Self]) -> Result<Answers<()>, CloudError> {
        provider.create_routes(batch).await
    }
}

#[async_trait]
impl Change for Route {
    fn key(&self) -> String {
        format!("{} {}", self.name, self.destination_cidr)
    }

    /// A route that does not exist counts as deleted.
    async fn ask(provider: &dyn CloudProvider, batch: &[Self]) -> Result<Answers<()>, CloudError> {
        let answers = provider.delete_routes(batch).await?;
        let gone = |answer| {
            if matches!(answer, Err(CloudError::NotFound(_))) {
                Ok(())
            } else {
                answer
            }
        };
        Ok(answers.into_iter().map(gone).collect())
    }
}

/// A change that can be requested.
pub(super) struct ReadyChange<T> {
    pub(super) change: T,
    /// Maximum size of its batch.
    pub(super) max_batch: usize,
}

/// Result of a change.
pub(super) struct Done<T> {
    pub(super) change: T,
    pub(super) result: Result<(), CloudError>,
    /// Duration, including attempts that ended in a conflict.
    pub(super) took: Duration,
    /// Size of the batch if it failed as a whole.
    pub(super) spoiled: Option<usize>,
}

/// Calls the cloud. Clones share the limit of concurrent calls.
#[derive(Clone)]
pub(super) struct RouteClient {
    provider: Arc<dyn CloudProvider>,
    in_flight: Arc<Semaphore>,
    stop: CancellationToken,
}

impl RouteClient {
    pub(super) fn new(provider: Arc<dyn CloudProvider>, stop: CancellationToken) -> Self {
        let permits = usize::try_from(IN_FLIGHT).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            provider,
            in_flight: Arc::new(Semaphore::new(permits)),
            stop,
        }
    }

    /// Divides changes into batches.
    pub(super) fn batches<T>(&self, changes: Vec<ReadyChange<T>>) -> Vec<Vec<T>> {
        batches(changes.into_iter(), self.provider.info().max_batch)
    }

    /// Requests a batch. Changes that had not been requested before the shutdown are missing in the
    /// result.
    pub(super) async fn batch<T: Change>(self, mut batch: Vec<T>) -> Vec<Done<T>> {
        let mut done = Vec::new();
        let count = u32::try_from(batch.len())
            .unwrap_or(IN_FLIGHT)
            .min(IN_FLIGHT);

        // The semaphore is never closed.
        let Ok(_permits) = self.in_flight.acquire_many(count).await else {
            return done;
        };

        let started = Instant::now();
        for attempt in 1..=CONFLICT_TRIES {
            if self.stop.is_cancelled() {
                break;
            }

            let size = batch.len();
            let (answers, spoiled) = match T::ask(&*self.provider, &batch).await {
                Ok(answers) => (complete(answers, size).collect(), None),
                Err(error) => (vec![Err(error); size], Some(size)),
            };
            let took = started.elapsed();

            let mut again = Vec::new();
            for (change, result) in batch.into_iter().zip(answers) {
                if attempt < CONFLICT_TRIES && matches!(result, Err(CloudError::Conflict(_))) {
                    again.push(change);
                } else {
                    done.push(Done {
                        change,
                        result,
                        took,
                        spoiled,
                    });
                }
            }

            batch = again;
            if batch.is_empty() {
                break;
            }
            tokio::select! {
                () = sleep(CONFLICT_PAUSE * attempt) => {}
                () = self.stop.cancelled() => {}
            }
        }

        done
    }
}

fn batches<T>(changes: impl Iterator<Item = ReadyChange<T>>, max: usize) -> Vec<Vec<T>> {
    let most = usize::try_from(IN_FLIGHT).map_or(max, |most| most.min(max));
    // Changes that may only be in small batches do not make those of the others smaller.
    let mut by_size: BTreeMap<usize, Vec<T>> = BTreeMap::new();

    for ReadyChange { change, max_batch } in changes {
        by_size
            .entry(max_batch.min(most).max(1))
            .or_default()
            .push(change);
    }

    let mut batches = Vec::new();
    for (size, changes) in by_size {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            batches.push(changes.by_ref().take(size).collect());
        }
    }

    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready<T>(change: T, max_batch: usize) -> ReadyChange<T> {
        ReadyChange { change, max_batch }
    }

    // Holds: R-11
    #[test]
    fn batches_are_limited_by_the_provider_and_the_flight_limit() {
        let sizes = |count: usize, limit, max| -> Vec<usize> {
            batches((0..count).map(|n| ready(n, limit)), max)
                .iter()
                .map(Vec::len)
                .collect()
        };
        assert_eq!(sizes(7, usize::MAX, 3), [3, 3, 1]);
        assert_eq!(sizes(450, usize::MAX, 1000), [200, 200, 50]);
        assert_eq!(sizes(3, 1, 100), [1, 1, 1]);
        assert_eq!(sizes(2, usize::MAX, 0), [1, 1]);
        assert!(sizes(0, usize::MAX, 3).is_empty());
    }

    // Holds: R-11
    #[test]
    fn routes_from_a_failed_batch_are_batched_separately() {
        let changes = [("good", 3), ("bad", 1), ("fine", 3), ("odd", 1)];
        assert_eq!(
            batches(
                changes.map(|(name, limit)| ready(name, limit)).into_iter(),
                3
            ),
            [vec!["bad"], vec!["odd"], vec!["good", "fine"]]
        );
    }
}
