//! The store with a lock, a clock and notifications, which requests, watches and kubelets share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    access::Access,
    clock::Clock,
    registry::strategy::service::KUBERNETES_IP,
    resources::resource::{NAMESPACES, SERVICES, Storage},
    status::StatusError,
    storage::{
        store::Store,
        write::{self, Options, Target, delete::SYSTEM_NAMESPACES},
    },
};

#[derive(Debug)]
pub(crate) struct Plane {
    store: Mutex<Store>,
    /// The latest revision. Watches wait for it to change.
    revision: watch::Sender<u64>,
    /// Canceled, and replaced, to end all watches.
    watches: Mutex<CancellationToken>,
    clock: Clock,
}

impl Plane {
    pub(crate) fn new(store: Store) -> Self {
        let revision = watch::Sender::new(store.revision());
        Self {
            store: Mutex::new(store),
            revision,
            watches: Mutex::default(),
            clock: Clock::default(),
        }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&lock(&self.store))
    }

    /// Changes the store at the current time, and wakes the watches if something has changed.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Store, Timestamp) -> T) -> T {
        let mut store = lock(&self.store);
        let result = change(&mut store, self.clock.now());
        let revision = store.revision();

        // While the store is locked, so that watches never see an older revision after a newer one.
        self.revision
            .send_if_modified(|last| std::mem::replace(last, revision) != revision);

        result
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns a receiver that is notified of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Returns a token that is canceled when watches that start at this point must end.
    pub(crate) fn watch_token(&self) -> CancellationToken {
        lock(&self.watches).clone()
    }

    /// Ends all watches, like a restart of an API server.
    pub(crate) fn cut_watches(&self) {
        std::mem::take(&mut *lock(&self.watches)).cancel();
    }

    /// Ends all watches, and those that start later: the plane stops.
    pub(crate) fn end_watches(&self) {
        lock(&self.watches).cancel();
    }

    /// Creates the objects that every cluster has, if they do not exist: the system namespaces and
    /// the `kubernetes` Service. Clients reach the API at `port`.
    pub(crate) fn bootstrap(&self, access: Access, port: u16) {
        let options = Options::default();
        for name in SYSTEM_NAMESPACES {
            let target = Target {
                resource: &NAMESPACES,
                namespace: String::new(),
                name: name.to_owned(),
                subresource: None,
            };
            if self.read(|store| store.get(Storage::Namespaces, "", name).is_none()) {
                let created = self
                    .write(|store, now| write::create(store, &target, json!({}), &options, now));
                log_error("a system namespace", created.err());
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
                "ports": [{"name": access.scheme(), "port": access.port(), "targetPort": port}],
            },
        });

        // The port and its name may be different after a restart, so an existing Service is
        // updated.
        let known = self.read(|store| {
            store
                .get(Storage::Services, "default", "kubernetes")
                .is_some()
        });

        let result = self.write(|store, now| {
            if known {
                write::update(store, &target, body, &options, now)
            } else {
                write::create(store, &target, body, &options, now)
            }
        });

        log_error("the kubernetes service", result.err());
    }
}

fn log_error(what: &str, error: Option<StatusError>) {
    if let Some(error) = error {
        tracing::error!(rejection = %error, "cannot create {what}");
    }
}

/// A panic leaves the data as before or after a change, never in between, so it can still be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
