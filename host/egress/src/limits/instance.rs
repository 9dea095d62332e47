//! Limits on concurrent requests of an instance of a plugin, and of all its instances.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use skydock_cloud::CallKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    limits::{
        body_memory,
        shares::{Kinds, Shares},
    },
    request_error::{Cause, Code, RequestError},
};

/// Maximum number of concurrent requests of an instance.
const INSTANCE_SLOTS: usize = 8;
/// Maximum number of requests of an instance, including those that wait.
const INSTANCE_MOST: usize = 128;
/// Maximum number of concurrent requests of a plugin.
const PLUGIN_SLOTS: usize = 64;
/// Maximum number of requests of a plugin, including those that wait.
const PLUGIN_MOST: usize = 1024;
/// How many of these are reserved for each kind of calls: as many as one instance may have.
const PLUGIN_PART: usize = INSTANCE_MOST;

/// Limits on the requests of a plugin, divided among the kinds of calls.
#[derive(Debug)]
pub(crate) struct Capacity {
    /// The kinds of calls that the plugin serves.
    pub(crate) kinds: Kinds,
    /// Concurrent requests.
    pub(crate) slots: Shares,
    /// Requests, including those that wait.
    admitted: Shares,
    /// Bytes of buffered bodies.
    pub(crate) body_memory: Arc<Shares>,
}

impl Capacity {
    pub(crate) fn new(kinds: Kinds) -> Self {
        Self {
            kinds,
            slots: Shares::new(PLUGIN_SLOTS, CallKind::reserved(PLUGIN_SLOTS), kinds),
            admitted: Shares::new(PLUGIN_MOST, PLUGIN_PART, kinds),
            body_memory: body_memory::shares(kinds),
        }
    }
}

/// Counts and limits the requests of a plugin instance. Clones refer to the same instance.
#[derive(Clone, Debug)]
pub struct InstanceRequests {
    slots: Arc<Semaphore>,
    admitted: Arc<AtomicUsize>,
}

impl Default for InstanceRequests {
    /// Returns those of an instance without requests.
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(INSTANCE_SLOTS)),
            admitted: Arc::default(),
        }
    }
}

impl InstanceRequests {
    /// Returns the number of requests that wait, are in progress, or whose answers are not read
    /// completely. A call that runs out of time while there are requests may have waited for the
    /// cloud, which is not counted as a failure of the plugin.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn slots(&self) -> Arc<Semaphore> {
        self.slots.clone()
    }

    /// Counts a request for the instance and the plugin.
    ///
    /// # Errors
    /// [`Code::ConnectionLimitReached`] if a limit is exceeded.
    pub(crate) fn admit(&self, plugin: &Capacity, kind: CallKind) -> Result<Ticket, RequestError> {
        let full =
            |sentence| RequestError::new(Code::ConnectionLimitReached, Cause::Limit, sentence);

        let instance = Place::take(&self.admitted, INSTANCE_MOST).ok_or_else(|| {
            full(format!(
                "the instance already has {INSTANCE_MOST} waiting or running requests, which is the limit"
            ))
        })?;
        let plugin = plugin.admitted.try_acquire(kind).ok_or_else(|| {
            full(format!(
                "the plugin already has too many waiting or running requests: it may have {PLUGIN_MOST}, of which {PLUGIN_PART} are \
                 reserved for each other kind of calls"
            ))
        })?;

        Ok(Ticket {
            _places: Arc::new((instance, plugin)),
        })
    }
}

/// A counted request. The count decreases when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    _places: Arc<(Place, OwnedSemaphorePermit)>,
}

#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let room = |now: usize| (now < most).then_some(now + 1);
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
            .ok()
            .map(|_| Self(count.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Everything that a request holds until it ends. Both of its bodies share it.
#[derive(Debug)]
pub(crate) struct Permits {
    pub(crate) _ticket: Ticket,
    pub(crate) _slots: [OwnedSemaphorePermit; 3],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_per_instance_and_per_plugin_are_limited() {
        let nodes = CallKind::Nodes;
        let plugin = Capacity::new(Kinds::ALL);
        let one = InstanceRequests::default();
        let held: Vec<_> = (0..INSTANCE_MOST)
            .map(|_| one.admit(&plugin, nodes).unwrap())
            .collect();
        assert_eq!(
            one.admit(&plugin, nodes).unwrap_err().code(),
            Code::ConnectionLimitReached
        );
        assert_eq!(one.in_flight(), INSTANCE_MOST);
        // Without the parts of the other kinds.
        let others: Vec<_> = (CallKind::ALL.len()..PLUGIN_MOST / INSTANCE_MOST)
            .map(|_| InstanceRequests::default())
            .collect();
        let more: Vec<_> = others
            .iter()
            .flat_map(|it| (0..INSTANCE_MOST).map(|_| it.admit(&plugin, nodes).unwrap()))
            .collect();
        let last = InstanceRequests::default();
        assert_eq!(
            last.admit(&plugin, nodes).unwrap_err().code(),
            Code::ConnectionLimitReached
        );
        assert_eq!(
            last.in_flight(),
            0,
            "a place that led to nothing is given back"
        );
        drop(last.admit(&plugin, CallKind::Routes).unwrap());
        drop((held, more));
        assert_eq!(one.in_flight(), 0);
        last.admit(&plugin, nodes).unwrap();
    }
}
