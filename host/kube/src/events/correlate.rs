//! The event correlator of client-go: a repeated event increases a count, many similar events are
//! combined into one, and the rate of events on one object is limited.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{EventType, Notice};

/// Events of one source on one object: burst size, and tokens per second.
const SPAM_BURST: f64 = 25.0;
const SPAM_REFILL: f64 = 1.0 / 300.0;
/// Number of different messages with the same reason, within the given time, from which on they are
/// combined.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// Maximum number of entries in each map; if it is exceeded, the least recently used ones are
/// dropped.
const REMEMBERED: usize = 4096;

/// The source of events, and the object that they are about.
#[derive(PartialEq, Eq, Hash)]
struct Target {
    source: &'static str,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
}

/// Events that are combined if there are many.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Group {
    target: Arc<Target>,
    is_normal: bool,
    reason: String,
}

/// An event whose repetitions are counted.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Series {
    group: Group,
    /// Empty for the combined event of the group.
    message: String,
}

/// A value, and when it was last used.
struct Used<V> {
    at: Instant,
    value: V,
}

/// Decision about an event.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Publish(Write),
    Drop,
}

/// Contents of an event to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) name: String,
    pub(super) message: String,
    /// If 1, the event is created; otherwise it exists, and its count is updated.
    pub(super) count: i32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

/// Remembers published events.
#[derive(Default)]
pub(super) struct Correlator {
    seen: HashMap<Series, Used<Write>>,
    /// Different messages of a group.
    similar: HashMap<Group, Used<Vec<String>>>,
    /// Tokens.
    buckets: HashMap<Arc<Target>, Used<f64>>,
}

impl Correlator {
    pub(super) fn observe(&mut self, notice: &Notice, now: Instant, wall: Timestamp) -> Verdict {
        let part = |value: &Option<String>| value.clone().unwrap_or_default();
        let object = &notice.object;
        let target = Arc::new(Target {
            source: notice.source,
            kind: part(&object.kind),
            namespace: part(&object.namespace),
            name: part(&object.name),
            uid: part(&object.uid),
        });
        let group = Group {
            target: Arc::clone(&target),
            is_normal: notice.event_type == EventType::Normal,
            reason: notice.reason.clone(),
        };
        let (series, message) = self.aggregate(group, &notice.message, now);

        let known = self.seen.get(&series).map(|used| used.value.clone());
        let write = match known {
            Some(known) => Write {
                count: known.count.saturating_add(1),
                last: wall,
                message,
                ..known
            },
            None => Write {
                name: event_name(&part(&object.name), wall),
                message,
                count: 1,
                first: wall,
                last: wall,
            },
        };

        // As in client-go, an event that is dropped counts, too.
        remember(&mut self.seen, series, write.clone(), now);

        if self.allows(target, now) {
            Verdict::Publish(write)
        } else {
            Verdict::Drop
        }
    }

    /// Returns the series of the event, and the message to show.
    fn aggregate(&mut self, group: Group, message: &str, now: Instant) -> (Series, String) {
        let recent = self
            .similar
            .remove(&group)
            .filter(|used| now.saturating_duration_since(used.at) <= SIMILAR_WITHIN);
        let mut messages = recent.map(|used| used.value).unwrap_or_default();

        // More messages are not needed to know that there are many.
        if messages.len() < SIMILAR && !messages.iter().any(|other| other == message) {
            messages.push(message.to_owned());
        }

        let many = messages.len() >= SIMILAR;
        remember(&mut self.similar, group.clone(), messages, now);

        let (identity, shown) = if many {
            let combined = format!("(combined from similar events): {message}");
            (String::new(), combined)
        } else {
            (message.to_owned(), message.to_owned())
        };
        let series = Series {
            group,
            message: identity,
        };
        (series, shown)
    }

    fn allows(&mut self, target: Arc<Target>, now: Instant) -> bool {
        let tokens = self.buckets.get(&target).map_or(SPAM_BURST, |used| {
            let earned = now.saturating_duration_since(used.at).as_secs_f64() * SPAM_REFILL;
            (used.value + earned).min(SPAM_BURST)
        });
        let allowed = tokens >= 1.0;
        let left = if allowed { tokens - 1.0 } else { tokens };

        remember(&mut self.buckets, target, left, now);
        allowed
    }
}

/// Inserts an entry; drops the older half of the entries if the map is full.
fn remember<K: Hash + Eq, V>(memory: &mut HashMap<K, Used<V>>, key: K, value: V, now: Instant) {
    if memory.len() >= REMEMBERED && !memory.contains_key(&key) {
        let mut times: Vec<Instant> = memory.values().map(|used| used.at).collect();
        times.sort_unstable();

        let dropped = times.len() / 2;
        if let Some(&middle) = times.get(dropped) {
            // Many entries may have the time in the middle: only some of them are dropped.
            let older = times.partition_point(|time| *time < middle);
            let mut surplus = dropped - older;

            memory.retain(|_, used| {
                if used.at == middle && surplus > 0 {
                    surplus -= 1;
                    return false;
                }
                used.at >= middle
            });
        }
    }
    memory.insert(key, Used { at: now, value });
}

/// Returns the object's name and the time, as client-go names events. Names of objects have at most
/// 253 bytes.
fn event_name(object: &str, wall: Timestamp) -> String {
    let mut name: String = object.chars().take(200).collect();
    name.push_str(&format!(".{:x}", wall.as_nanosecond()));
    name
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn notice(object: &str, message: &str) -> Notice {
        Notice {
            source: "service-controller",
            object: ObjectReference {
                name: Some(object.to_owned()),
                ..ObjectReference::default()
            },
            event_type: EventType::Warning,
            reason: "SyncLoadBalancerFailed".to_owned(),
            message: message.to_owned(),
        }
    }

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn publish(
        correlator: &mut Correlator,
        notice: &Notice,
        now: Instant,
        second: i64,
    ) -> Option<Write> {
        match correlator.observe(notice, now, wall(second)) {
            Verdict::Publish(write) => Some(write),
            Verdict::Drop => None,
        }
    }

    // Holds: C-07
    #[test]
    fn a_repeated_event_increments_the_count_of_the_first() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        let first = publish(&mut correlator, &notice("a", "boom"), now, 1).unwrap();
        let second = publish(&mut correlator, &notice("a", "boom"), now, 2).unwrap();
        assert_eq!(
            second,
            Write {
                count: 2,
                last: wall(2),
                ..first
            }
        );
        assert_eq!(
            publish(&mut correlator, &notice("b", "boom"), now, 3)
                .unwrap()
                .count,
            1
        );
    }

    // Holds: C-07
    #[test]
    fn similar_events_are_combined_from_the_tenth_on() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        for n in 0..9 {
            let write =
                publish(&mut correlator, &notice("a", &format!("try {n}")), now, n).unwrap();
            assert_eq!((write.count, write.message), (1, format!("try {n}")));
        }

        let tenth = publish(&mut correlator, &notice("a", "try 9"), now, 9).unwrap();
        assert_eq!(
            (tenth.count, tenth.message.as_str()),
            (1, "(combined from similar events): try 9")
        );

        let next = publish(&mut correlator, &notice("a", "try 10"), now, 10).unwrap();
        assert_eq!((next.count, &next.name), (2, &tenth.name));
        let later = publish(
            &mut correlator,
            &notice("a", "try 11"),
            now + Duration::from_secs(601),
            700,
        )
        .unwrap();
        assert_eq!(later.message, "try 11");
    }

    // Holds: C-07
    #[test]
    fn after_25_events_on_one_object_one_passes_every_300_seconds() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        let same = notice("a", "boom");
        let passed = (0..40)
            .filter(|&n| publish(&mut correlator, &same, now, n).is_some())
            .count();
        assert_eq!(passed, 25);
        let later = now + Duration::from_secs(301);
        assert!(publish(&mut correlator, &same, later, 400).is_some());
        assert!(publish(&mut correlator, &same, later, 401).is_none());
        assert!(publish(&mut correlator, &notice("b", "boom"), now, 402).is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        for n in 0..10_000_u64 {
            correlator.observe(
                &notice(&format!("o{n}"), "x"),
                now + Duration::from_millis(n),
                wall(1),
            );
        }
        assert!(correlator.seen.len() <= REMEMBERED && correlator.buckets.len() <= REMEMBERED);
    }

    #[test]
    fn half_of_a_full_memory_is_kept_if_all_times_are_equal() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        for n in 0..=REMEMBERED {
            correlator.observe(&notice(&format!("o{n}"), "x"), now, wall(1));
        }
        let kept = REMEMBERED - REMEMBERED / 2 + 1;
        assert_eq!(
            (correlator.seen.len(), correlator.buckets.len()),
            (kept, kept)
        );
    }
}
