//! Limits how many complete lists of objects are passed to guests at a time.
//!
//! A list of thousands of nodes takes tens of megabytes, and stays in the host until it is copied
//! to the guest's memory. Copying runs the guest's allocator, which may use up the whole CPU time
//! of the call. Therefore only a few of a plugin's lists exist at a time, and calls that need
//! another one wait.

use std::{
    any::Any,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use skydock_resources::limits::TICK;

/// Maximum number of lists of one plugin at a time.
const AT_ONCE: usize = 4;

/// The lists that exist.
#[derive(Default)]
pub(crate) struct Lists(Mutex<Vec<Weak<dyn Any + Send + Sync>>>);

impl Lists {
    /// Creates a list when there is room for it. The list takes up room until it is dropped.
    pub(crate) async fn lend<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Vec<T>,
    ) -> Arc<Vec<T>> {
        let place = loop {
            match self.place() {
                Some(place) => break place,
                None => tokio::time::sleep(TICK).await,
            }
        };

        let list = Arc::new(make());
        let weak: Weak<Vec<T>> = Arc::downgrade(&list);
        self.put(&place, weak);

        // Creating the list took time: other tasks run before it is copied.
        tokio::task::yield_now().await;
        list
    }

    /// Reserves a place for a list. It is released when the place, or the list that is put there,
    /// is dropped.
    fn place(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let mut lists = self.0.lock();
        lists.retain(|list| list.strong_count() > 0);

        (lists.len() < AT_ONCE).then(|| {
            let place: Arc<dyn Any + Send + Sync> = Arc::new(());
            lists.push(Arc::downgrade(&place));
            place
        })
    }

    fn put(&self, place: &Arc<dyn Any + Send + Sync>, list: Weak<dyn Any + Send + Sync>) {
        let mut lists = self.0.lock();
        let place = Arc::downgrade(place);
        if let Some(held) = lists.iter_mut().find(|held| held.ptr_eq(&place)) {
            *held = list;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_waits_until_another_is_dropped() {
        let lists = Lists::default();
        let mut held = Vec::new();
        for number in 0..AT_ONCE {
            held.push(lists.lend(|| vec![number]).await);
        }
        let more = || timeout(Duration::from_secs(60), lists.lend(|| vec![9]));
        assert!(more().await.is_err());
        held.pop();
        assert_eq!(*more().await.unwrap(), [9], "and it is gone at once");
        assert!(more().await.is_ok());
    }
}
