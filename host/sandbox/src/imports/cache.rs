//! A small store that all instances and generations of one plugin share.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use super::State;

/// Bytes of a key: minimum, and maximum as in the contract.
const KEY: std::ops::RangeInclusive<usize> = 1..=256;

/// Maximum bytes of a value, as in the contract.
const MAX_VALUE: usize = 64 << 10;

/// Maximum bytes in total, as in the contract. Keys and overhead count too: otherwise tiny entries
/// would use a multiple of it.
const MAX_TOTAL: usize = 8 << 20;

/// Bytes of an entry in addition to its value and its key, which is stored twice.
const OVERHEAD: usize = 128;

/// Maximum lifetime of an entry, as in the contract.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The store, behind a lock that is only held for single operations.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Entries>);

impl Cache {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock()
    }
}

impl State {
    fn entries(&self) -> Option<MutexGuard<'_, Entries>> {
        self.while_serving(&*self.shared.cache).map(Cache::entries)
    }

    /// Returns the value of this key.
    pub(crate) fn cached(&self, key: &str) -> Option<Vec<u8>> {
        self.entries()?.get(key, Instant::now()).cloned()
    }

    /// Sets the value of this key. Returns false if that is not possible.
    pub(crate) fn cache(&self, key: String, value: Vec<u8>, ttl: Duration) -> bool {
        self.entries()
            .is_some_and(|mut entries| entries.set(key, value, ttl, Instant::now()))
    }

    /// Sets the value of this key unless it has another one, which is returned. An empty value
    /// means that this is not possible.
    pub(crate) fn reserve_in_cache(
        &self,
        key: String,
        value: Vec<u8>,
        ttl: Duration,
    ) -> Option<Vec<u8>> {
        let Some(mut entries) = self.entries() else {
            return Some(Vec::new());
        };
        entries.reserve(key, value, ttl, Instant::now())
    }

    pub(crate) fn remove_from_cache(&self, key: &str) {
        if let Some(mut entries) = self.entries() {
            entries.remove(key);
        }
    }
}

struct Entry {
    value: Vec<u8>,
    expires: Instant,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    by_expiry: BTreeSet<(Instant, String)>,
    total: usize,
}

fn cost(key: &str, value: &[u8]) -> usize {
    2 * key.len() + value.len() + OVERHEAD
}

impl Entries {
    fn get(&self, key: &str, now: Instant) -> Option<&Vec<u8>> {
        self.by_key
            .get(key)
            // Entries that have expired are only dropped when another one is set.
            .filter(|entry| entry.expires > now)
            .map(|entry| &entry.value)
    }

    fn set(&mut self, key: String, value: Vec<u8>, ttl: Duration, now: Instant) -> bool {
        if !KEY.contains(&key.len()) || value.len() > MAX_VALUE {
            return false;
        }
        self.remove(&key);

        self.total += cost(&key, &value);
        let expires = now + ttl.min(MAX_TTL);
        self.by_expiry.insert((expires, key.clone()));
        self.by_key.insert(key, Entry { value, expires });

        // After the insertion, so that the bound also applies to the entry itself.
        self.make_room(now);
        true
    }

    fn reserve(
        &mut self,
        key: String,
        value: Vec<u8>,
        ttl: Duration,
        now: Instant,
    ) -> Option<Vec<u8>> {
        match self.get(&key, now).cloned() {
            Some(held) => {
                // The same value extends the lifetime: the owner of a reservation renews it.
                if held == value {
                    self.set(key, value, ttl, now);
                }
                Some(held)
            }
            None if self.set(key, value, ttl, now) => None,
            None => Some(Vec::new()),
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some((key, entry)) = self.by_key.remove_entry(key) {
            self.total -= cost(&key, &entry.value);
            self.by_expiry.remove(&(entry.expires, key));
        }
    }

    /// Drops entries that have expired, and then those that expire first until the rest fits.
    fn make_room(&mut self, now: Instant) {
        while let Some((expires, key)) = self.by_expiry.first().cloned() {
            if expires > now && self.total <= MAX_TOTAL {
                return;
            }
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_entry_lives_until_its_ttl() {
        let (mut cache, now) = (Entries::default(), Instant::now());
        assert!(cache.set("key".into(), b"one".to_vec(), SECOND, now));
        assert_eq!(cache.get("key", now), Some(&b"one".to_vec()));
        assert!(cache.set("key".into(), b"two".to_vec(), 2 * SECOND, now));
        assert_eq!(cache.get("key", now + SECOND), Some(&b"two".to_vec()));
        assert_eq!(cache.get("key", now + 2 * SECOND), None);
        assert!(cache.set("long".into(), Vec::new(), Duration::MAX, now));
        assert_eq!(cache.get("long", now + MAX_TTL), None);
        assert_eq!(cache.by_key.len(), cache.by_expiry.len());
    }

    #[test]
    fn keys_and_values_out_of_bounds_are_rejected() {
        let (mut cache, now) = (Entries::default(), Instant::now());
        let long = "k".repeat(257);
        for (key, value) in [
            ("", vec![1]),
            (long.as_str(), vec![1]),
            ("key", vec![0; MAX_VALUE + 1]),
        ] {
            assert!(!cache.set(key.into(), value.clone(), SECOND, now));
            assert_eq!(
                cache.reserve(key.into(), value, SECOND, now),
                Some(Vec::new())
            );
            assert_eq!(cache.get(key, now), None);
        }

        assert!(cache.set("k".repeat(256), vec![0; MAX_VALUE], SECOND, now));
    }

    #[test]
    fn the_first_caller_holds_a_reservation_until_it_expires() {
        let (mut cache, now) = (Entries::default(), Instant::now());
        let mut reserve = |who: &str, at| cache.reserve("10.0.0.1".into(), who.into(), SECOND, at);
        assert_eq!(reserve("a", now), None);
        assert_eq!(reserve("b", now), Some(b"a".to_vec()));
        assert_eq!(
            reserve("a", now + SECOND / 2),
            Some(b"a".to_vec()),
            "the same value prolongs"
        );
        assert_eq!(reserve("b", now + SECOND), Some(b"a".to_vec()));
        assert_eq!(reserve("b", now + 2 * SECOND), None);
    }

    #[test]
    fn the_entry_that_expires_first_is_evicted() {
        let (mut cache, now) = (Entries::default(), Instant::now());
        for index in 0..200_u32 {
            assert!(cache.set(
                format!("key{index}"),
                vec![0; MAX_VALUE],
                SECOND * (1000 - index),
                now
            ));
        }
        assert!(cache.total <= MAX_TOTAL);
        assert_eq!(
            cache.get("key0", now).map(Vec::len),
            Some(MAX_VALUE),
            "the longest-lived stays"
        );
        assert_eq!(cache.get("key199", now), None);

        for index in 0..200_000_u32 {
            cache.set(format!("tiny{index}"), Vec::new(), SECOND, now);
        }
        assert!(cache.total <= MAX_TOTAL);
        assert!(
            cache.by_key.len() < 70_000,
            "tiny entries count with what they cost"
        );

        for index in 0..200_000_u32 {
            cache.remove(&format!("tiny{index}"));
            cache.remove(&format!("key{index}"));
        }
        assert_eq!((cache.total, cache.by_expiry.len()), (0, 0));
    }
}
