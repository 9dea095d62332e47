//! How much one instance of a plugin, and all of them, may have in the air.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::{Cause, Code, Refusal};

/// Requests of one instance that are on their way at a time.
const INSTANCE_SLOTS: usize = 8;
/// Requests of one instance, those that wait included.
const INSTANCE_MOST: usize = 128;
/// Requests of one plugin that are on their way at a time.
pub(crate) const PLUGIN_SLOTS: usize = 64;
/// Requests of one plugin, those that wait included.
const PLUGIN_MOST: usize = 1024;

/// One instance of a plugin, as far as its requests go. Clones are the same instance.
#[derive(Clone, Debug)]
pub struct Instance {
    slots: Arc<Semaphore>,
    admitted: Arc<AtomicUsize>,
}

impl Default for Instance {
    /// One without requests.
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(INSTANCE_SLOTS)), admitted: Arc::default() }
    }
}

impl Instance {
    /// Requests that wait, are on their way, or whose answers are not read to the end. A call that runs out of time while there
    /// are any may have waited for the cloud, which is not the plugin's fault.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn slots(&self) -> Arc<Semaphore> {
        self.slots.clone()
    }

    /// Takes a place for one request among the instance's and the plugin's.
    ///
    /// # Errors
    /// [`Code::ConnectionLimitReached`] if there is none.
    pub(crate) fn admit(&self, plugin: &Arc<AtomicUsize>) -> Result<Ticket, Refusal> {
        let instance = Place::take(&self.admitted, INSTANCE_MOST).ok_or_else(|| full("instance", INSTANCE_MOST))?;
        let plugin = Place::take(plugin, PLUGIN_MOST).ok_or_else(|| full("plugin", PLUGIN_MOST))?;
        Ok(Ticket { _places: Arc::new([instance, plugin]) })
    }
}

fn full(what: &str, most: usize) -> Refusal {
    let sentence = format!("the {what} has {most} requests that wait or are on their way");
    Refusal::new(Code::ConnectionLimitReached, Cause::Limit, sentence)
}

/// A request that is counted, until its last clone is gone.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    _places: Arc<[Place; 2]>,
}

#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let room = |now: usize| (now < most).then_some(now + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok().map(|_| Self(count.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Everything a request holds until it is over: both of its bodies have a share in it.
#[derive(Debug)]
pub(crate) struct Permits {
    pub(crate) _ticket: Ticket,
    pub(crate) _slots: [OwnedSemaphorePermit; 3],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_and_a_plugin_have_a_most_of_requests() {
        let (plugin, one) = (Arc::default(), Instance::default());
        let held: Vec<_> = (0..INSTANCE_MOST).map(|_| one.admit(&plugin).unwrap()).collect();
        assert_eq!(one.admit(&plugin).unwrap_err().code(), Code::ConnectionLimitReached);
        assert_eq!(one.in_flight(), INSTANCE_MOST);
        let others: Vec<_> = (1..PLUGIN_MOST / INSTANCE_MOST).map(|_| Instance::default()).collect();
        let more: Vec<_> =
            others.iter().flat_map(|it| (0..INSTANCE_MOST).map(|_| it.admit(&plugin).unwrap())).collect();
        let last = Instance::default();
        assert_eq!(last.admit(&plugin).unwrap_err().code(), Code::ConnectionLimitReached);
        assert_eq!(last.in_flight(), 0, "a place that led to nothing is given back");
        drop((held, more));
        assert_eq!(one.in_flight(), 0);
        last.admit(&plugin).unwrap();
    }
}
