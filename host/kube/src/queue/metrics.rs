//! Metrics of work queues.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

type FloatGauge = Gauge<f64, AtomicU64>;
type ByName<M> = Family<[(&'static str, String); 1], M>;
type Histograms = Family<[(&'static str, String); 1], Histogram, fn() -> Histogram>;

/// The metrics of all work queues, with client-go's names, labels and buckets. Clones share them.
#[derive(Clone)]
pub struct WorkqueueMetrics {
    depth: ByName<Gauge>,
    adds: ByName<Counter>,
    retries: ByName<Counter>,
    queue_duration: Histograms,
    work_duration: Histograms,
    unfinished_work: ByName<FloatGauge>,
    longest_running: ByName<FloatGauge>,
}

/// The metrics of one work queue.
#[derive(Clone)]
pub struct QueueMetrics {
    pub(super) depth: Gauge,
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
    pub(super) unfinished_work: FloatGauge,
    pub(super) longest_running: FloatGauge,
}

fn durations() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 10))
}

impl WorkqueueMetrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(durations),
            work_duration: Family::new_with_constructor(durations),
            unfinished_work: Family::default(),
            longest_running: Family::default(),
        };
        let m = &metrics;

        registry.register("workqueue_depth", "Items waiting", m.depth.clone());
        registry.register("workqueue_adds", "Items added", m.adds.clone());
        registry.register(
            "workqueue_retries",
            "Items added to be retried later",
            m.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "Seconds an item waited in the queue",
            m.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Seconds to process an item",
            m.work_duration.clone(),
        );
        registry.register(
            "workqueue_unfinished_work_seconds",
            "Seconds of work in progress, summed over all items",
            m.unfinished_work.clone(),
        );
        registry.register(
            "workqueue_longest_running_processor_seconds",
            "Seconds of the longest-running item in progress",
            m.longest_running.clone(),
        );

        metrics
    }

    /// The metrics of the queue of this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let labels = [("name", name.to_owned())];
        QueueMetrics {
            depth: self.depth.get_or_create_owned(&labels),
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
            unfinished_work: self.unfinished_work.get_or_create_owned(&labels),
            longest_running: self.longest_running.get_or_create_owned(&labels),
        }
    }
}
