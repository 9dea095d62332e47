//! A lock between plugin instances, for actions that must not run at the same time.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

use crate::cloud::Cloud;

/// How long the lock is held at most, and how long a call waits for it.
const LONGEST: Duration = Duration::from_secs(20);

/// How often a waiting call tries to take the lock.
const LOOK: Duration = Duration::from_millis(50);

/// The lock, held until it is dropped.
pub(crate) struct Turn<'a> {
    cloud: Cloud<'a>,
    key: String,
    who: String,
}

impl<'a> Cloud<'a> {
    /// Waits for the lock with this name. Returns `None` if others hold it for too long.
    pub(crate) fn turn(&self, at: &str) -> Option<Turn<'a>> {
        let key = self.key(&format!("turn/{at}"));
        // A random ID that no other holder has at the same time.
        let who = format!("{:x}", RandomState::new().build_hasher().finish());

        for _ in 0..LONGEST.as_millis() / LOOK.as_millis() {
            if self.store.reserve(&key, &who, LONGEST) {
                return Some(Turn {
                    cloud: *self,
                    key,
                    who,
                });
            }
            std::thread::sleep(LOOK);
        }
        None
    }
}

impl Turn<'_> {
    /// Renews the lock for its full duration. Returns false if the lock was lost and others may
    /// hold it.
    pub(crate) fn goes_on(&self) -> bool {
        self.cloud.store.reserve(&self.key, &self.who, LONGEST)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // The lock may have expired, and another call may hold it.
        if self.cloud.store.get(&self.key).as_ref() == Some(&self.who) {
            self.cloud.store.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        cloud::Cloud,
        store::Store as _,
        testing::{Memory, Scripted, nothing, setup},
    };

    #[test]
    fn dropping_a_turn_releases_only_its_own_lock() {
        let (setup, store, wire, none) =
            (setup(), Memory::default(), Scripted::new(nothing), Vec::new);
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let key = cloud.key("turn/x");
        let turn = cloud.turn("x").unwrap();

        assert!(store.get(&key).is_some());
        assert!(cloud.turn("y").is_some(), "another matter");
        assert!(turn.goes_on());

        // The lock expired, and another holder has taken it.
        store.keep(&key, "two");
        assert!(!turn.goes_on());

        drop(turn);
        assert_eq!(store.get(&key).as_deref(), Some("two"));

        store.remove(&key);
        drop(cloud.turn("x").unwrap());
        assert_eq!(store.get(&key), None);
    }
}
