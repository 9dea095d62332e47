//! Workers, which take items from a queue.

use std::{
    future::{pending, ready},
    hash::Hash,
};

use futures::{StreamExt as _, future::join, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

use super::{Priority, Queue};

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Runs workers until the token is cancelled and the current work is finished. Each takes an
    /// item, works on it, and marks it as done.
    pub async fn run_workers<F: Future<Output = ()>>(
        &self,
        workers: usize,
        shutdown: &CancellationToken,
        work: impl Fn(K, Priority) -> F,
    ) {
        let worker = |_| async {
            while let Some((key, priority)) = self.take().await {
                work(key.clone(), priority).await;
                self.done(&key);
            }
        };
        self.run_until(shutdown, all((0..workers).map(worker)))
            .await;
    }

    /// Like [`Queue::run_workers`], but each worker takes a batch of at most `max` items, and
    /// `work` marks each item as done. If there are several workers, the first one only takes
    /// changes, because re-checks may occupy all others.
    pub async fn run_batch_workers<F: Future<Output = ()>>(
        &self,
        workers: usize,
        shutdown: &CancellationToken,
        max: impl Fn() -> usize,
        work: impl Fn(Vec<K>) -> F,
    ) {
        let max = &max;
        let work = &work;

        let worker = |number| async move {
            let for_changes = number == 0 && workers > 1;
            loop {
                let batch = if for_changes {
                    self.take_changes(max()).await
                } else {
                    self.take_batch(max()).await
                };

                let Some(batch) = batch else { return };
                work(batch.into_iter().map(|(key, _)| key).collect()).await;
            }
        };

        // The first worker is polled before the others, so that it takes a change whenever it can
        // and leaves them free.
        let others = all((1..workers).map(worker));
        self.run_until(shutdown, join(worker(0), others)).await;
    }

    /// Runs work that takes from this queue. When the token is cancelled, the queue is closed, and
    /// the work has to end.
    pub async fn run_until(&self, shutdown: &CancellationToken, work: impl Future) {
        let close = async {
            shutdown.cancelled().await;
            self.close();
            // Does not end the work, which has to end on its own.
            pending::<()>().await;
        };

        tokio::select! {
            _ = work => {}
            () = close => {}
            () = self.observe() => {}
        }
    }
}

/// Runs the workers until all of them end. Only those that are woken are polled.
async fn all(workers: impl Iterator<Item = impl Future>) {
    workers
        .collect::<FuturesUnordered<_>>()
        .for_each(|_| ready(()))
        .await;
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::queue::{Limiter, WorkqueueMetrics};

    fn queue() -> Queue<u8> {
        let metrics =
            WorkqueueMetrics::register(&mut prometheus_client::registry::Registry::default());
        Queue::new(Limiter::NODES, metrics.queue("test"))
    }

    #[tokio::test(start_paused = true)]
    async fn workers_finish_their_items_at_the_shutdown_and_take_no_more() {
        let queue = queue();
        let shutdown = CancellationToken::new();
        let worked = Mutex::new(Vec::new());
        queue.add_all(1..=3, Priority::Change);
        let work = |key, _| {
            let worked = &worked;
            async move {
                sleep(Duration::from_secs(2)).await;
                worked.lock().unwrap().push(key);
            }
        };
        let stop = async {
            sleep(Duration::from_secs(1)).await;
            shutdown.cancel();
        };
        tokio::join!(queue.run_workers(2, &shutdown, work), stop);
        assert_eq!(*worked.lock().unwrap(), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_can_be_taken_again_after_its_work() {
        let queue = queue();
        let shutdown = CancellationToken::new();
        let worked = Mutex::new(0);
        queue.add(1, Priority::Change);
        let work = |key, _| {
            let queue = &queue;
            let worked = &worked;
            async move {
                *worked.lock().unwrap() += 1;
                queue.add(key, Priority::Change);
                sleep(Duration::from_secs(1)).await;
            }
        };
        let running = queue.run_workers(4, &shutdown, work);

        assert!(
            timeout(Duration::from_millis(9_500), running)
                .await
                .is_err()
        );
        assert_eq!(*worked.lock().unwrap(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_of_several_workers_takes_only_changes() {
        for (workers, expected) in [(1, vec![3]), (2, vec![3, 1]), (3, vec![3, 3, 1])] {
            let (queue, shutdown, batches) =
                (queue(), CancellationToken::new(), Mutex::new(Vec::new()));
            queue.add_all(1..=6, Priority::Recheck);
            let work = |batch: Vec<u8>| {
                batches.lock().unwrap().push(batch.len());
                pending()
            };
            let change = async {
                sleep(Duration::from_secs(1)).await;
                queue.add(7, Priority::Change);
            };
            let running = async {
                tokio::join!(
                    queue.run_batch_workers(workers, &shutdown, || 3, work),
                    change
                )
            };
            assert!(timeout(Duration::from_secs(2), running).await.is_err());
            assert_eq!(*batches.lock().unwrap(), expected, "{workers} workers");
        }
    }

    /// Other workers are woken before the first one has finished its batch.
    #[tokio::test(start_paused = true)]
    async fn changes_after_a_batch_leave_a_worker_for_re_checks() {
        for workers in [2, 4, 40] {
            let (queue, shutdown, begun) = (
                Arc::new(queue()),
                CancellationToken::new(),
                Mutex::new(Vec::new()),
            );
            let start = Instant::now();
            let work = |batch: Vec<u8>| {
                begun
                    .lock()
                    .unwrap()
                    .push((batch.clone(), start.elapsed().as_secs()));
                let queue = Arc::clone(&queue);
                // As the node controller does: on a task of its own, which marks the items as done.
                let working = tokio::spawn(async move {
                    sleep(Duration::from_secs(if batch == [1] { 1 } else { 100 })).await;
                    batch.iter().for_each(|key| queue.done(key));
                });
                async { working.await.unwrap() }
            };
            let items = async {
                queue.add(1, Priority::Change);
                sleep(Duration::from_secs(5)).await;
                for key in 1..workers {
                    queue.add(10 + key, Priority::Change);
                    sleep(Duration::from_secs(1)).await;
                }
                queue.add(50, Priority::Recheck);
            };
            let count = usize::from(workers);
            let running = async {
                tokio::join!(queue.run_batch_workers(count, &shutdown, || 1, work), items)
            };
            assert!(timeout(Duration::from_secs(50), running).await.is_err());
            let begun = begun.into_inner().unwrap();
            assert_eq!(
                begun.last(),
                Some(&(vec![50], u64::from(workers) + 4)),
                "{workers} workers: {begun:?}"
            );
        }
    }
}
