//! Continues where the last process has stopped, and leaves a record to the next one.

use std::{collections::HashMap, hash::Hash, sync::atomic::Ordering, time::Duration};

use skydock_cloud::NodeFields;
use skydock_kube::queue::Priority;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    ServiceController, ServiceEntry,
    known::KnownService,
    plan::{class_annotation, schedule, status},
    record::{
        Key, ServiceLine,
        digest::Digest,
        keeper::{Keeper, ValidLine, unix_time},
    },
};

/// Time between two looks at whether a record is to be written.
const LOOK: Duration = Duration::from_secs(5);

/// Maximum time for the record of a process that is about to end.
const LAST_RECORD: Duration = Duration::from_secs(2);

impl ServiceController {
    /// Returns what identifies the provider, with its build and its configuration.
    pub(crate) fn revision(&self) -> u128 {
        let provider = &self.context.provider;
        let settings = self.keeper.as_ref().map(Keeper::settings);
        let mut digest = Digest::default();
        (&provider.info().name, provider.revision(), settings).hash(&mut digest);
        digest.result()
    }

    /// Reads what the last process has left, and schedules the checks of load balancers that exist.
    pub(crate) async fn restore(&self) {
        let Some(keeper) = &self.keeper else {
            return;
        };

        let record = keeper.load().await;
        let (revision, now) = (self.revision(), unix_time());
        let mut adopted = HashMap::new();
        let mut delays = HashMap::new();
        for entry in self.services.list() {
            let key = Key::new(revision, &entry.object);
            let line = record.line(key, now, keeper.period());
            if let Some(line) = line.filter(|_| self.can_wait(&entry)) {
                let until = line.until(keeper.period());
                self.known
                    .remember(&entry.key(), &entry)
                    .restore(&entry, revision, line);
                if line.node_fields == NodeFields::All {
                    self.reads_all_node_fields.store(true, Ordering::SeqCst);
                }

                adopted.insert(entry.uid().to_owned(), ValidLine { key, until });
                delays.insert(entry.key(), Duration::from_secs(until.saturating_sub(now)));
            }
        }

        if !adopted.is_empty() {
            let load_balancers = adopted.len();
            tracing::info!(
                load_balancers,
                "continuing where the last leader has stopped"
            );
        }
        keeper.adopt(adopted).await;

        self.restoring.store(false, Ordering::SeqCst);
        for entry in self.services.list() {
            let key = entry.key();
            match delays.get(&key) {
                Some(&delay) => self.queue.add_after(key, delay, Priority::Recheck),
                None if self.waits_for_check(&entry) => self.queue.add(key, Priority::Recheck),
                None => {}
            }
        }
    }

    /// Returns true for a Service that has its load balancer.
    fn waits_for_check(&self, entry: &ServiceEntry) -> bool {
        schedule::appeared(&entry.object, &self.options.classes) == Some(Priority::Recheck)
    }

    /// Returns true for a Service that lacks nothing that its next check fixes. A process that runs
    /// fixes it sooner, but what changed without a leader, or just before a leader ended, is found
    /// here.
    fn can_wait(&self, entry: &ServiceEntry) -> bool {
        self.waits_for_check(entry)
            && class_annotation::live_to_write(&entry.object).is_none()
            && !self.address_holders.has_conflict(entry)
    }

    /// Writes a record whenever one is due, and one at the shutdown: calls that are in flight may
    /// outlast the process.
    pub(crate) async fn keep_records(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(sleep(LOOK)).await.is_some() {
            if let Some(keeper) = &self.keeper
                && keeper.is_due()
            {
                self.write_record(keeper).await;
            }
        }
        self.keep_last_record().await;
    }

    /// Writes a record if there was no time for it before.
    pub(crate) async fn keep_last_record(&self) {
        if let Some(keeper) = &self.keeper
            && keeper.has_changed()
        {
            // Without it, load balancers get their nodes again.
            let _ = timeout(LAST_RECORD, self.write_record(keeper)).await;
        }
    }

    async fn write_record(&self, keeper: &Keeper) {
        let lines = || {
            let revision = self.revision();
            let known = self.known.all();
            let lines = known
                .iter()
                .filter_map(|(key, known)| self.line(key, known, revision));
            lines.collect()
        };
        keeper.write(lines).await;
    }

    /// Returns what is recorded about the load balancer of a Service; `None` if something about it
    /// is not certain.
    fn line(&self, key: &str, known: &KnownService, revision: u128) -> Option<ServiceLine> {
        let synced = known.synced()?;
        let ensured = &synced.ensured;
        let present = self.services.get(key)?;
        // A status that is not written yet, or that somebody else has written, is repaired by this
        // process, and by the next one only if it finds no valid line.
        let has_status = status::is_same(&present.view.service.status, &ensured.status);
        if ensured.revision != revision || !has_status {
            return None;
        }

        // The next process does not know these objects, and whether they have changed.
        if self.read_objects.has_reader(key) {
            return None;
        }

        // The next process does not know what this one is yet to write.
        if self.written_annotations.is_waiting(present.uid()) {
            return None;
        }

        // What was written for the provider has changed the Service since.
        let written_by_skydock = |key: &str, value: Option<&str>| {
            let uid = present.uid();
            self.written_annotations.contains(uid, key, value)
        };
        let before = &ensured.version.object;
        let now = &present.object;
        let classes = &self.options.classes;
        // The provider sees more of a Service than what an update is needed for.
        let is_same = before.spec == now.spec && before.metadata.labels == now.metadata.labels;
        if !is_same || schedule::needs_update(before, now, classes, written_by_skydock) {
            return None;
        }

        Some(ServiceLine {
            uid: present.uid().to_owned(),
            key: Key::new(revision, &present.object),
            line: synced.line(),
        })
    }
}
