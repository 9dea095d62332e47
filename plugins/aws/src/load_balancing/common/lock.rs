//! A lock between plugin instances, for actions that must not run at the same time.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

use crate::cloud::Cloud;

/// How long the lock is held at most, and how long a call waits for it.
const LIFETIME: Duration = Duration::from_secs(20);

/// How often a waiting call tries to take the lock.
const INTERVAL: Duration = Duration::from_millis(50);

/// The lock, held until it is dropped.
pub(crate) struct Lock<'a> {
    cloud: Cloud<'a>,
    key: String,
    holder: String,
}

impl<'a> Cloud<'a> {
    /// Waits for the lock with this name. Returns `None` if others hold it for too long.
    pub(crate) fn lock(&self, name: &str) -> Option<Lock<'a>> {
        // Another version of the plugin, which may still be running, uses the same key.
        let key = self.key(&format!("turn/{name}"));
        // A random ID that no other holder has at the same time.
        let holder = format!("{:x}", RandomState::new().build_hasher().finish());

        for _ in 0..LIFETIME.as_millis() / INTERVAL.as_millis() {
            if self.store.reserve(&key, &holder, LIFETIME) {
                return Some(Lock {
                    cloud: *self,
                    key,
                    holder,
                });
            }
            std::thread::sleep(INTERVAL);
        }
        None
    }
}

impl Lock<'_> {
    /// Renews the lock for its full duration. Returns false if the lock was lost and others may
    /// hold it.
    pub(crate) fn renew(&self) -> bool {
        self.cloud.store.reserve(&self.key, &self.holder, LIFETIME)
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // The lock may have expired, and another call may hold it.
        if self.cloud.store.get(&self.key).as_ref() == Some(&self.holder) {
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
    fn dropping_a_lock_releases_only_its_own_lock() {
        let (setup, store, wire, none) =
            (setup(), Memory::default(), Scripted::new(nothing), Vec::new);
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let key = cloud.key("turn/x");
        let lock = cloud.lock("x").unwrap();

        assert!(store.get(&key).is_some());
        assert!(cloud.lock("y").is_some(), "another matter");
        assert!(lock.renew());

        // The lock expired, and another holder has taken it.
        store.keep(&key, "two");
        assert!(!lock.renew());

        drop(lock);
        assert_eq!(store.get(&key).as_deref(), Some("two"));

        store.remove(&key);
        drop(cloud.lock("x").unwrap());
        assert_eq!(store.get(&key), None);
    }
}
