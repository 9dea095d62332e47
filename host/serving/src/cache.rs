//! Answers of the API server (TokenReview, SubjectAccessReview) that are used again for a while.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use ring::{hmac, rand::SystemRandom};
use tokio::time::Instant;

/// Maximum number of answers. Only a few clients read metrics.
const ENTRIES: usize = 1024;

/// What stands for a question: tokens are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

/// Answers by the digest of their question.
pub(crate) struct Cache<V> {
    key: hmac::Key,
    answers: Mutex<HashMap<Digest, (Instant, V)>>,
}

impl<V: Clone> Cache<V> {
    /// Creates a cache with a random key, so that digests cannot be computed in advance.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn new() -> Result<Self, ring::error::Unspecified> {
        Ok(Self {
            key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?,
            answers: Mutex::default(),
        })
    }

    pub(crate) fn digest(&self, question: &[u8]) -> Digest {
        let mut digest = [0; 32];
        for (to, from) in digest
            .iter_mut()
            .zip(hmac::sign(&self.key, question).as_ref())
        {
            *to = *from;
        }
        Digest(digest)
    }

    pub(crate) fn get(&self, digest: Digest, now: Instant) -> Option<V> {
        let answers = self.answers.lock();
        let (until, answer) = answers.get(&digest)?;
        (now < *until).then(|| answer.clone())
    }

    /// Keeps an answer for this time. If there are too many, the one that would expire first is
    /// dropped.
    pub(crate) fn insert(&self, digest: Digest, answer: V, ttl: Duration, now: Instant) {
        if ttl.is_zero() {
            return;
        }

        let mut answers = self.answers.lock();
        if answers.len() >= ENTRIES {
            answers.retain(|_, (until, _)| now < *until);
        }
        if answers.len() >= ENTRIES {
            let first = answers.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(first) = first.map(|(digest, _)| *digest) {
                answers.remove(&first);
            }
        }
        answers.insert(digest, (now + ttl, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_answer_is_used_until_it_expires() {
        let cache = Cache::new().unwrap();
        let now = Instant::now();
        let (a, b) = (cache.digest(b"a"), cache.digest(b"b"));
        assert_ne!(a, b);

        cache.insert(a, 1, 10 * SECOND, now);
        cache.insert(b, 2, Duration::ZERO, now);
        assert_eq!(cache.get(a, now + 9 * SECOND), Some(1));
        assert_eq!(cache.get(a, now + 10 * SECOND), None);
        assert_eq!(cache.get(b, now), None);
    }

    #[test]
    fn the_number_of_answers_is_limited() {
        let cache = Cache::new().unwrap();
        let now = Instant::now();
        for number in 0..3 * ENTRIES {
            let digest = cache.digest(&number.to_le_bytes());
            let seconds = u32::try_from(number).unwrap() + 1;
            cache.insert(digest, number, seconds * SECOND, now);
        }

        assert_eq!(cache.answers.lock().len(), ENTRIES);
        let last = 3 * ENTRIES - 1;
        assert_eq!(
            cache.get(cache.digest(&last.to_le_bytes()), now),
            Some(last)
        );
        assert_eq!(cache.get(cache.digest(&0_usize.to_le_bytes()), now), None);
    }
}
