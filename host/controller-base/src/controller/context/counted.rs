//! Gauges that are counted when they are read: one number, or one for each value of `state`.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

/// The label of states.
const STATE: &str = "state";

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// One number.
    One(u64),
    /// A number for each state.
    States(Vec<(&'static str, u64)>),
}

type Count = Box<dyn Fn() -> Counted + Send + Sync>;

/// How to count; not known before a controller is created, so that a standby counts nothing.
/// Clones share it.
#[derive(Clone, Default)]
pub struct Counts(Arc<Mutex<Option<Count>>>);

impl Counts {
    /// From now on, counts so.
    pub fn set(&self, count: impl Fn() -> Counted + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(count));
    }

    /// Counts those in this state; `None` if that is not known.
    #[must_use]
    pub fn in_state(&self, state: &str) -> Option<u64> {
        let Counted::States(states) = self.0.lock().as_ref()?() else {
            return None;
        };
        let mut states = states.into_iter();
        Some(states.find(|(name, _)| *name == state)?.1)
    }
}

/// A gauge that is counted when it is read.
pub struct CountedGauge {
    name: &'static str,
    help: &'static str,
    counts: Counts,
}

impl CountedGauge {
    /// Returns the gauge, to be registered.
    #[must_use]
    pub fn new(name: &'static str, help: &'static str, counts: Counts) -> Self {
        Self { name, help, counts }
    }
}

impl fmt::Debug for CountedGauge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Collector for CountedGauge {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counted = match &*self.counts.0.lock() {
            Some(count) => count(),
            None => return Ok(()),
        };

        let mut gauge = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        match counted {
            Counted::One(value) => ConstGauge::new(value).encode(gauge),
            Counted::States(states) => states.iter().try_for_each(|(state, value)| {
                let labels = [(STATE, *state)];
                ConstGauge::new(*value).encode(gauge.encode_family(&labels)?)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    #[test]
    fn a_gauge_has_values_once_it_is_known_how_to_count() {
        let mut registry = Registry::default();
        let [one, several] = [Counts::default(), Counts::default()];
        for (name, counts) in [("a", &one), ("b", &several)] {
            let gauge = CountedGauge::new(name, "Help", counts.clone());
            registry.register_collector(Box::new(gauge));
        }
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        assert_eq!(text(), "# EOF\n");

        one.set(|| Counted::One(3));
        several.set(|| Counted::States(vec![("x", 1), ("y", 0)]));
        let text = text();
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(values, ["a 3", "b{state=\"x\"} 1", "b{state=\"y\"} 0"]);

        assert_eq!(
            (several.in_state("x"), several.in_state("z")),
            (Some(1), None)
        );
        assert_eq!(
            (one.in_state("x"), Counts::default().in_state("x")),
            (None, None)
        );
    }
}
