//! For which name the plugin has returned each volume or snapshot: one that is returned for two names
//! would have two users.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::failure::Failure;

/// Maximum number of IDs to remember, the newest.
const MAX: usize = 10_000;

/// The names for which something was created, by its ID.
#[derive(Debug, Default)]
pub(super) struct Returned(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    names: HashMap<String, String>,
    /// The IDs, the oldest first.
    ids: VecDeque<String>,
}

impl Returned {
    /// Remembers what was created.
    ///
    /// # Errors
    /// If it was created for another name. Retrying helps once that is deleted.
    pub(super) fn remember(&self, id: &str, name: &str) -> Result<(), Failure> {
        let mut state = self.0.lock();
        if let Some(first) = state.names.get(id) {
            if first == name {
                return Ok(());
            }
            let message = format!(
                "the plugin has returned {id} for {name}, which is what it has created for {first}"
            );
            return Err(Failure::unavailable(message));
        }

        state.names.insert(id.to_owned(), name.to_owned());
        state.ids.push_back(id.to_owned());
        if state.ids.len() > MAX
            && let Some(oldest) = state.ids.pop_front()
        {
            state.names.remove(&oldest);
        }
        Ok(())
    }

    /// Forgets what was deleted: a cloud may use its ID again.
    pub(super) fn forget(&self, id: &str) {
        let mut state = self.0.lock();
        if state.names.remove(id).is_some() {
            state.ids.retain(|it| it != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_for_one_name_until_it_is_deleted() {
        let returned = Returned::default();
        for _ in 0..2 {
            assert!(returned.remember("vol-1", "a").is_ok());
        }
        assert!(returned.remember("vol-2", "b").is_ok());
        let failure = returned.remember("vol-1", "b").unwrap_err();
        assert!(!failure.code.is_final());
        assert_eq!(
            failure.message,
            "the plugin has returned vol-1 for b, which is what it has created for a"
        );

        returned.forget("vol-1");
        returned.forget("vol-9");
        assert!(returned.remember("vol-1", "b").is_ok());
    }

    #[test]
    fn only_the_newest_are_remembered() {
        let returned = Returned::default();
        for number in 0..=MAX {
            let id = format!("vol-{number}");
            returned.remember(&id, "a").unwrap();
        }
        assert!(returned.remember("vol-1", "b").is_err());
        assert!(returned.remember("vol-0", "b").is_ok());
        assert_eq!(returned.0.lock().names.len(), MAX);
    }
}
