//! The store with a lock, a clock and a bell around it: what requests, watches and kubelets share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    resource::{NAMESPACES, SERVICES, Shelf},
    store::Store,
    strategy::service::KUBERNETES_IP,
    write::{self, Options, Target, delete::SYSTEM_NAMESPACES},
};

#[derive(Debug)]
pub(crate) struct Plane {
    store: Mutex<Store>,
    /// The latest revision. Watches wait for it to move.
    revision: watch::Sender<u64>,
    /// Cancelled, and replaced, when all watches are to end.
    watches: Mutex<CancellationToken>,
    /// How far its clock is ahead of the machine's.
    ahead: Mutex<SignedDuration>,
}

impl Plane {
    pub(crate) fn new(store: Store) -> Self {
        let revision = watch::Sender::new(store.revision());
        Self { store: Mutex::new(store), revision, watches: Mutex::default(), ahead: Mutex::default() }
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&lock(&self.store))
    }

    /// Changes the store, at the present time, and wakes the watches if something changed.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Store, Timestamp) -> T) -> T {
        let mut store = lock(&self.store);
        let result = change(&mut store, self.now());
        let revision = store.revision();
        self.revision.send_if_modified(|last| std::mem::replace(last, revision) != revision);
        result
    }

    /// The present time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now().saturating_add(*lock(&self.ahead)).unwrap_or(Timestamp::MAX)
    }

    /// Has the clock jump.
    pub(crate) fn shift_clock(&self, by: SignedDuration) {
        let mut ahead = lock(&self.ahead);
        *ahead = ahead.saturating_add(by);
    }

    /// Tells when something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Is cancelled when a watch that begins now must end.
    pub(crate) fn watch_token(&self) -> CancellationToken {
        lock(&self.watches).clone()
    }

    /// Ends all watches, as a restart of an API server does.
    pub(crate) fn cut_watches(&self) {
        std::mem::take(&mut *lock(&self.watches)).cancel();
    }

    /// Creates what every cluster has, if it is not there yet: the system namespaces and the `kubernetes` Service.
    pub(crate) fn bootstrap(&self, port: u16) {
        let options = Options::default();
        for name in SYSTEM_NAMESPACES {
            let target =
                Target { resource: &NAMESPACES, namespace: String::new(), name: name.to_owned(), subresource: None };
            if self.read(|store| store.get(Shelf::Namespaces, "", name).is_none()) {
                let created = self.write(|store, now| write::create(store, &target, json!({}), &options, now));
                log_refusal("a system namespace", created.err());
            }
        }
        let target = Target {
            resource: &SERVICES,
            namespace: "default".to_owned(),
            name: "kubernetes".to_owned(),
            subresource: None,
        };
        let body = json!({
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": KUBERNETES_IP.to_string(),
                "ports": [{"name": "http", "port": 80, "targetPort": port}],
            },
        });
        // The port differs from one start to the next, so that an earlier one is replaced.
        let known = self.read(|store| store.get(Shelf::Services, "default", "kubernetes").is_some());
        let result = self.write(|store, now| {
            if known {
                write::update(store, &target, body, &options, now)
            } else {
                write::create(store, &target, body, &options, now)
            }
        });
        log_refusal("the kubernetes service", result.err());
    }
}

fn log_refusal(what: &str, refusal: Option<crate::refusal::Refusal>) {
    if let Some(refusal) = refusal {
        tracing::error!(%refusal, "cannot create {what}");
    }
}

/// A panic elsewhere leaves the data as it was before or after a change, never in between: it is good to go on with.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
