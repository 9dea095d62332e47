//! Objects, and what they were a short time ago, for answers that lag behind.
use std::collections::BTreeMap;

/// Milliseconds since the start of the cloud.
pub(crate) type Millis = u64;

/// For how many milliseconds old states are kept: the longest lag.
pub(crate) const KEPT: Millis = 60_000;

/// Objects of one kind by number, in order of creation. A number is never used twice.
#[derive(Clone, Debug)]
pub(crate) struct History<T> {
    /// The states of each object, oldest first; none if it was deleted.
    records: BTreeMap<u64, Vec<(Millis, Option<T>)>>,
    last: u64,
    count: usize,
}

impl<T> History<T> {
    /// Creates a history without objects.
    pub(crate) fn new() -> Self {
        Self {
            records: BTreeMap::new(),
            last: 0,
            count: 0,
        }
    }

    /// Creates an object and returns its number.
    pub(crate) fn create(&mut self, now: Millis, object: T) -> u64 {
        self.last += 1;
        self.count += 1;
        self.records.insert(self.last, vec![(now, Some(object))]);
        self.last
    }

    /// Changes an object, which must exist.
    pub(crate) fn change(&mut self, now: Millis, number: u64, object: T) {
        if let Some(states) = self.records.get_mut(&number) {
            states.push((now, Some(object)));
            forget(states, now);
        }
    }

    /// Deletes an object, which must exist.
    pub(crate) fn delete(&mut self, now: Millis, number: u64) {
        if let Some(states) = self.records.get_mut(&number) {
            states.push((now, None));
            self.count -= 1;
        }

        // Deleted objects stay as long as a lag can show them.
        self.records.retain(|_, states| {
            forget(states, now);
            !matches!(states.as_slice(), [(at, None)] if at + KEPT <= now)
        });
    }

    /// Returns the number that the next object will have.
    pub(crate) fn next(&self) -> u64 {
        self.last + 1
    }

    /// Returns how many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns an object as it was at this time.
    pub(crate) fn get(&self, at: Millis, number: u64) -> Option<&T> {
        state(self.records.get(&number)?, at)
    }

    /// Returns all objects as they were at this time.
    pub(crate) fn all(&self, at: Millis) -> impl Iterator<Item = (u64, &T)> {
        self.records
            .iter()
            .filter_map(move |(number, states)| Some((*number, state(states, at)?)))
    }
}

fn state<T>(states: &[(Millis, Option<T>)], at: Millis) -> Option<&T> {
    states
        .iter()
        .rev()
        .find(|(from, _)| *from <= at)?
        .1
        .as_ref()
}

/// Removes states that no lag can show.
fn forget<T>(states: &mut Vec<(Millis, Option<T>)>, now: Millis) {
    let oldest = now.saturating_sub(KEPT);

    // The state at that time can still be shown.
    let current = states
        .iter()
        .rposition(|(at, _)| *at <= oldest)
        .unwrap_or(0);
    states.drain(..current);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_can_be_read() {
        let mut history = History::new();
        let (a, b) = (history.create(0, "a"), history.create(10, "b"));
        history.change(20, a, "A");
        history.delete(30, b);
        let all = |at| {
            history
                .all(at)
                .map(|(_, object)| *object)
                .collect::<Vec<_>>()
        };
        let table: [(Millis, &[&str]); 5] = [
            (0, &["a"]),
            (10, &["a", "b"]),
            (25, &["A", "b"]),
            (30, &["A"]),
            (Millis::MAX, &["A"]),
        ];
        for (at, expected) in table {
            assert_eq!(all(at), expected, "{at}");
        }

        assert_eq!(
            (history.get(29, b), history.get(30, b), history.len()),
            (Some(&"b"), None, 1)
        );
        assert_eq!(history.create(40, "c"), 3);
    }

    #[test]
    fn what_no_lag_can_show_is_forgotten() {
        let mut history = History::new();
        let (a, b) = (history.create(0, 0), history.create(0, 0));
        for now in 1..=100 {
            history.change(now * 10_000, a, now);
        }
        assert!(
            history.records.values().all(|states| states.len() <= 8),
            "{history:?}"
        );

        history.delete(1_000_000, b);
        assert_eq!(history.get(1_000_000 - 1, b), Some(&0));

        let c = history.create(1_060_000, 0);
        history.delete(1_060_000, c);
        assert_eq!(history.records.keys().collect::<Vec<_>>(), [&a, &c]);
    }
}
